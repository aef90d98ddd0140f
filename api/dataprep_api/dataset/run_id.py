"""The run id: equal for equal bytes. What doesn't change the bytes (name, workers, credentials, cleanup) is left out."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from dataprep_api import canonical, names
from dataprep_api.dataset import sagemaker
from dataprep_api.shown import concealed
from dataprep_api.spec import DataPrepJobSpec, Source
from dataprep_api.spec.model import STORED
from dataprep_api.spec.sources.join import TableSource
from dataprep_api.spec.sources.sql import SQLITE

ENCODING_VERSION: Final = 1
"""Raised only when every job's records get other bytes than before. A change that only some jobs notice raises the version of its part below."""

_BYTES: Final = ("source", "script", "features", "labels", "transforms", "limit", "deduplicate", "splits", "shuffle", "on_bad_record")


@dataclass(frozen=True)
class Part:
    """One rule by which bytes are made, and which jobs it has a say in."""

    version: int
    """Of what this release does. 1 is what releases did that knew no parts."""
    is_used: Callable[[DataPrepJobSpec], bool]
    """Whether it may decide bytes of a job. Pure, and true rather than false where only the inputs tell."""
    oldest: int | None = None
    """The oldest version that this release can still make, for plans that were made by it; None: only its own."""


PARTS: Mapping[str, Part] = {
    "dl4jFolders": Part(version=2, is_used=lambda spec: _names_dl4j_folders(spec), oldest=1),
    "inference": Part(version=2, is_used=lambda spec: _infers_columns(spec), oldest=1),
    "recordio": Part(version=2, is_used=lambda spec: _is_flat_or_sparse(spec)),
    "shuffle": Part(version=2, is_used=lambda spec: spec.shuffle is not None, oldest=1),
    "sqlTimes": Part(version=2, is_used=lambda spec: _counts_postgres_rows(spec)),
}
"""By name, as plans and manifests have them. A new version gets a line in the changelog; jobs that don't use the part keep their run ids."""


def _names_dl4j_folders(spec: DataPrepJobSpec) -> bool:
    """Whether files have other names since a split of DL4J's formats has a folder even when it is the only one."""
    several = spec.splits is not None and len(spec.splits.into) > 1
    before, now = (
        names.file_name_template(spec.output.file_name, shards=2, format_=spec.output.format, several_splits=several, dl4j_folders=version)
        for version in (1, 2)
    )
    return before != now


def _infers_columns(spec: DataPrepJobSpec) -> bool:
    """Whether types of columns of text are told from its first rows."""
    for source in _tables(spec):
        if any(text is not None and text.columns is None for text in (source.csv, source.jsonl)):
            return True
        sequences = source.csv_sequences if isinstance(source, Source) else None
        if sequences is None:
            continue
        if sequences.columns is None or (sequences.labels is not None and sequences.labels.columns is None):
            return True
    return False


def _tables(spec: DataPrepJobSpec) -> Sequence[Source | TableSource]:
    """The source, or those of the tables of a join."""
    if spec.source is None:
        return []
    return [spec.source] if spec.source.join is None else [table.source for table in spec.source.join.tables]


def _is_flat_or_sparse(spec: DataPrepJobSpec) -> bool:
    """Whether SageMaker's records are other ones since IDX became flat vectors there, and libsvm one sparse tensor."""
    return sagemaker.is_flat_idx(spec) or sagemaker.is_sparse_libsvm(spec)


def _counts_postgres_rows(spec: DataPrepJobSpec) -> bool:
    """Whether infinite times of PostgreSQL became bad records without other inputs: pins by content are digests, which tell by themselves."""
    queries = [source.sql for source in _tables(spec)]
    return any(query is not None and query.pin == "Count" and not query.url.startswith(SQLITE) for query in queries)


def versions(spec: DataPrepJobSpec, *, parts: Mapping[str, Part] = PARTS) -> dict[str, int]:
    """The versions of the parts that a job uses, but for those of version 1."""
    return {name: part.version for name, part in sorted(parts.items()) if part.version > 1 and part.is_used(spec)}


def fault_of_versions(made_by: Mapping[str, int], spec: DataPrepJobSpec, *, parts: Mapping[str, Part] = PARTS) -> str | None:
    """Why this release can't go on with what was made by these versions, or None. To be shown behind the data set's name."""
    for name in sorted(made_by):
        if name not in parts or made_by[name] > parts[name].version:
            known = f"version {parts[name].version}" if name in parts else "no such part"
            return f"was made by version {made_by[name]} of {name}, and this release knows {known}; use the release that made it, or a later one"
    for name, part in sorted(parts.items()):
        version = made_by.get(name, 1)
        oldest = part.version if part.oldest is None else part.oldest
        if part.is_used(spec) and version < oldest:
            return (
                f"was made by version {version} of {name}, and this release makes version {part.version}, which gives other records. "
                "Use the release that made it, or set output.overwrite: Always, which makes the data set anew"
            )
    return None


def content(spec: DataPrepJobSpec) -> dict[str, Any]:
    """What of `spec` decides the bytes, after params, as JSON values.

    Fields at their defaults are left out, so that a release that adds fields leaves the ids of older jobs as they are. In return a default may
    change only together with ENCODING_VERSION. Web addresses stand here without what
    signs them, and texts are `concealed`, for the manifest holds this; but for the output's, which name columns and files.
    """
    whole = spec.model_dump(mode="json", by_alias=True, include=set(_BYTES) | {"output"}, exclude_defaults=True, context={STORED: True})
    output = whole.pop("output")
    if spec.output.template is not None:
        output["fileName"] = spec.output.template
    return as_stored(whole | {"output": {key: value for key, value in output.items() if key not in ("uri", "overwrite", "hdfs")}})


def as_stored(content: Mapping[str, Any]) -> dict[str, Any]:
    """A content with its texts `concealed`, whichever release it is from."""
    return {key: value if key == "output" else concealed(value) for key, value in content.items()}


def run_id(
    spec: DataPrepJobSpec,
    *,
    inputs_sha256: str,
    parts: Mapping[str, int] | None = None,
) -> str:
    """16 hex digits: the spec's content, the pinned inputs, the encoding version and the parts' versions, which are this release's where no others are given."""
    return of_content(
        content(spec),
        inputs_sha256=inputs_sha256,
        encoding_version=ENCODING_VERSION,
        parts=versions(spec) if parts is None else parts,
    )


def of_content(
    content: Mapping[str, Any],
    *,
    inputs_sha256: str,
    encoding_version: int,
    parts: Mapping[str, int],
) -> str:
    """The run id that a manifest's fields lead to. Where no part is above version 1, the id is the one that it was before there were parts."""
    whole: dict[str, Any] = {"content": content, "inputs": inputs_sha256, "encoding": encoding_version}
    return canonical.sha256(whole | ({"parts": dict(parts)} if parts else {}))[:16]
