"""Computes the run id, which is equal for jobs that write equal bytes. The run id ignores fields that don't affect the bytes (name,
workers, credentials, cleanup)."""

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, Literal, TypeAlias

from dataprep_api import canonical, names
from dataprep_api.dataset import sagemaker
from dataprep_api.redaction import with_credentials_masked
from dataprep_api.spec import DataPrepJobSpec, Source
from dataprep_api.spec.model import STORED
from dataprep_api.spec.sources.join import TableSource
from dataprep_api.spec.sources.sql import SQLITE

ENCODING_VERSION: Final = 1
"""This version is increased only by a change that affects the bytes of every job's records.

Other changes increase the version of a part in PARTS.
"""

_BYTES: Final = (
    "source",
    "script",
    "features",
    "labels",
    "transforms",
    "limit",
    "deduplicate",
    "splits",
    "shuffle",
    "on_bad_record",
    "nulls",
)


@dataclass(frozen=True)
class Part:
    """A versioned rule that affects the output bytes of some jobs."""

    version: int
    """The version that this release writes. Version 1 is the behaviour of releases from before parts existed."""
    is_used: Callable[[DataPrepJobSpec], bool]
    """A pure function that returns whether the part may affect the bytes that a job writes.

    The function doesn't get the job's inputs. If the answer also depends on them, the function returns True.
    """
    oldest: int | None = None
    """The oldest version that this release can still write. None means that this release can write only `version`.

    An older version is written only for existing plans that follow that version.
    """


PARTS: Mapping[str, Part] = {
    "decimals": Part(version=2, is_used=lambda spec: _compares_decimals(spec), oldest=1),
    "dl4jFolders": Part(version=2, is_used=lambda spec: _names_dl4j_folders(spec), oldest=1),
    "heif": Part(version=2, is_used=lambda spec: _may_skip_heif(spec), oldest=1),
    "inference": Part(version=2, is_used=lambda spec: _infers_columns(spec), oldest=1),
    "int96": Part(version=2, is_used=lambda spec: _may_have_int96(spec), oldest=1),
    "joins": Part(version=2, is_used=lambda spec: _joins_without_sequences(spec), oldest=1),
    "nulls": Part(version=2, is_used=lambda spec: _keeps_records_with_nulls(spec), oldest=1),
    "recordio": Part(version=2, is_used=lambda spec: _is_flat_or_sparse(spec)),
    "shuffle": Part(version=2, is_used=lambda spec: spec.shuffle is not None, oldest=1),
    "structs": Part(version=2, is_used=lambda spec: _keeps_structs(spec), oldest=1),
    "sqlTimes": Part(version=2, is_used=lambda spec: _counts_postgres_rows(spec)),
    "textUnits": Part(version=2, is_used=lambda spec: _may_have_large_texts(spec), oldest=1),
    "types": Part(version=2, is_used=lambda spec: _keeps_types(spec), oldest=1),
}
"""The parts, keyed by their names in plans and manifests.

If you add a new version of a part, describe it in the changelog. A new version doesn't change the run ids of jobs that don't use the part.
"""


def _names_dl4j_folders(spec: DataPrepJobSpec) -> bool:
    """Whether version 2 changed the job's file names. Since version 2, even a single split has a folder in DL4J's formats."""
    several = spec.splits is not None and len(spec.splits.into) > 1
    before, now = (
        names.file_name_template(spec.output.file_name, shards=2, format_=spec.output.format, several_splits=several, dl4j_folders=version)
        for version in (1, 2)
    )
    return before != now


def _may_skip_heif(spec: DataPrepJobSpec) -> bool:
    """Whether version 2 may add records to the job's data set. Since version 2, AVIF and HEIC files are images, whatever their names are.

    Jobs that don't accept bad records aren't affected: before version 2, an AVIF or HEIC file was a bad record, and made the job fail.
    """
    source = spec.source
    if source is None or spec.on_bad_record.policy == "Fail":
        return False
    if source.annotated_images is not None or source.masks is not None or (source.images is not None and source.images.check == "Header"):
        return True
    return any(transform.decode is not None for transform in spec.transforms or [])


def _infers_columns(spec: DataPrepJobSpec) -> bool:
    """Whether the column types of a text source are inferred from its first rows."""
    for source in _tables(spec):
        if any(text is not None and text.columns is None for text in (source.csv, source.jsonl)):
            return True
        if isinstance(source, Source) and _infers_columns_of_images(source):
            return True
        sequences = source.csv_sequences if isinstance(source, Source) else None
        if sequences is None:
            continue
        if sequences.columns is None or (sequences.labels is not None and sequences.labels.columns is None):
            return True
    return False


def _infers_columns_of_images(source: Source) -> bool:
    """Whether the types of a list's columns are inferred. They are inferred if a list of images has columns and isn't a Parquet file."""
    listed = source.images.listed if source.images is not None else None
    return listed is not None and listed.columns is not None


def _may_have_int96(spec: DataPrepJobSpec) -> bool:
    """Whether the source may consist of Parquet files. Since version 2, times of the old type INT96 are read as microseconds. Version 1
    read them as nanoseconds, which changed times that don't fit into 64-bit nanoseconds.

    The planner omits this part if the job reads no INT96 column.
    """
    images = spec.source.images if spec.source is not None else None
    return (images is not None and images.listed is not None) or any(source.parquet is not None for source in _tables(spec))


def _joins_without_sequences(spec: DataPrepJobSpec) -> bool:
    """Whether tables may be joined in memory. Since version 2, a join in memory divides its records into the same units as a join that uses
    the disk. In version 1, the units could differ for large records with nulls.

    The planner omits this part if both versions are certain to make the same units.
    """
    join = spec.source.join if spec.source is not None else None
    return join is not None and all(table.order_by is None for table in join.tables)


def _may_have_large_texts(spec: DataPrepJobSpec) -> bool:
    """Whether the source may consist of large text files. Since version 2, a plain text file of more than 256 MiB is divided into units at
    multiples of 4 MiB. Version 1 counted 4 MiB from the start of the previous unit.

    The planner omits this part if the source has no text file of this size.
    """
    tables = any(getattr(source, kind, None) is not None for source in _tables(spec) for kind in ("csv", "jsonl", "text", "libsvm"))
    return tables or (isinstance(spec.source, Source) and _infers_columns_of_images(spec.source))


def _tables(spec: DataPrepJobSpec) -> Sequence[Source | TableSource]:
    """Return the spec's source or, for a join, the sources of the joined tables."""
    if spec.source is None:
        return []
    return [spec.source] if spec.source.join is None else [table.source for table in spec.source.join.tables]


def _is_flat_or_sparse(spec: DataPrepJobSpec) -> bool:
    """Whether version 2 changed the job's SageMaker records.

    Since version 2, IDX images are flat vectors, and libsvm data is one sparse tensor.
    """
    return sagemaker.is_flat_idx(spec) or sagemaker.is_sparse_libsvm(spec)


def _counts_postgres_rows(spec: DataPrepJobSpec) -> bool:
    """Whether version 2 changed the job's records without changing the digest of the job's inputs. Since version 2, PostgreSQL records with
    infinite timestamps are bad records.

    This is possible only for sources with `pin: Count`. With `pin: Content`, version 2 also changed the digest.
    """
    queries = [source.sql for source in _tables(spec)]
    return any(query is not None and query.pin == "Count" and not query.url.startswith(SQLITE) for query in queries)


_SOURCES_WITH_NULLS: Final = (
    "csv",
    "jsonl",
    "parquet",
    "arrow",
    "avro",
    "orc",
    "sequence_file",
    "dataset",
    "sql",
    "table",
    "join",
    "plugin",
)
"""The sources whose columns can have nulls. Other sources have nulls only in columns that come from folder names."""

NullRule: TypeAlias = Literal["Keep", "Bad", "Dropped"]
"""How nulls are treated. `Keep` and `Bad` are values of `spec.nulls`. `Dropped` is version 1 of the part `nulls`: readers of tables refuse
records with nulls, and other nulls are kept if their features need no conversion."""


def _keeps_records_with_nulls(spec: DataPrepJobSpec) -> bool:
    """Whether version 2 may add records to the job's data set. Since version 2, a null is a value.

    Jobs that don't accept bad records aren't affected: before version 2, a record with a null was bad, and made the job fail.
    """
    if spec.source is None or spec.nulls == "Bad" or spec.on_bad_record.policy == "Fail":
        return False
    has_nulls = spec.source.kind in _SOURCES_WITH_NULLS or getattr(spec.source.member, "hive_partitions", None) is not None
    return has_nulls or any(transform.map is not None for transform in spec.transforms or [])


def null_rule(spec: DataPrepJobSpec, parts: Mapping[str, int]) -> NullRule:
    """Return how a job treats nulls. `parts` contains the part versions in the job's plan."""
    if spec.nulls == "Bad":
        return "Bad"
    return "Dropped" if parts.get("nulls", 1) == 1 and _keeps_records_with_nulls(spec) else "Keep"


@dataclass(frozen=True)
class StructRule:
    """Which structs of a source's records are also columns. The fields of all structs are always columns."""

    keeps: bool = False
    """Whether every outermost struct is a column. If true, a struct's fields are written only if the spec names them."""
    named: frozenset[str] = frozenset()
    """The columns that features, labels, splits and `deduplicate` name. A struct with one of these names is a column."""


FLAT: Final = StructRule()
"""The rule for readers without a job: only the fields of structs are columns."""

_HOLD_STRUCTS: Final = ("parquet", "arrow", "jsonl", "avro", "orc")
"""The sources and formats whose records may contain structs."""
_POSITION: Final = re.compile(r"-?\d+(\.\.-?\d+)?")
"""Matches a reference to columns by position. If structs were columns, the same positions would refer to different columns."""


def _keeps_structs(spec: DataPrepJobSpec) -> bool:
    """Whether version 2 keeps structs as columns, which the output format must support. Version 1 wrote each field of a struct as a column.

    Version 2 doesn't affect jobs that may refer to a struct's fields, such as jobs with `features`.
    """
    source = spec.source
    if source is None or source.kind not in _HOLD_STRUCTS or spec.output.format not in _HOLD_STRUCTS:
        return False
    if spec.features is not None or spec.transforms or spec.output.table is not None:
        return False
    if source.jsonl is not None and source.jsonl.columns is not None:
        return False
    hugging_face = spec.output.parquet.hugging_face
    images = (hugging_face.images or []) if hugging_face is not None else []
    defaults = getattr(source.member, "defaults", None) or {}
    return not any("/" in name for name in (*images, *defaults)) and not any(map(_POSITION.fullmatch, _references(spec)))


def _references(spec: DataPrepJobSpec) -> Iterator[str]:
    """Yield the columns that features, labels, splits and `deduplicate` name, by name or by position."""
    for feature in [*(spec.features or []), *(spec.labels or [])]:
        yield from feature.columns or [feature.name]
    if spec.splits is not None:
        yield from (name for name in (spec.splits.column, spec.splits.group_by, spec.splits.stratify_by) if name is not None)
    if spec.deduplicate is not None:
        yield from spec.deduplicate.columns


def struct_rule(spec: DataPrepJobSpec, parts: Mapping[str, int]) -> StructRule:
    """Return which structs are columns. `parts` contains the part versions in the job's plan."""
    return StructRule(keeps=parts.get("structs", 1) > 1 and _keeps_structs(spec), named=frozenset(_references(spec)))


_HAVE_TYPES: Final = ("parquet", "arrow", "avro", "orc", "sql", "table", "join", "dataset", "images")
"""The sources whose columns can be times or decimals."""
_HOLD_TYPES: Final = ("parquet", "arrow")
"""The formats that can hold times and decimals."""


def _keeps_types(spec: DataPrepJobSpec) -> bool:
    """Whether times and decimals keep their types in version 2. Version 1 wrote them as numbers.

    The planner omits this part if no feature keeps such a type. Jobs with `output.table` still write numbers.
    """
    has_types = spec.source is not None and spec.source.kind in _HAVE_TYPES
    return has_types and spec.output.format in _HOLD_TYPES and spec.output.table is None


def keeps_types(spec: DataPrepJobSpec, parts: Mapping[str, int]) -> bool:
    """Return whether times and decimals keep their types. `parts` contains the part versions in the job's plan."""
    return parts.get("types", 1) > 1 and _keeps_types(spec)


def _compares_decimals(spec: DataPrepJobSpec) -> bool:
    """Whether `deduplicate` or a `filter` may compare decimals. Since version 2, all digits are compared. Version 1 compared decimals as
    float64.

    The planner omits this part if no compared column has decimals of more than 15 digits.
    """
    compares = spec.deduplicate is not None or any(transform.filter is not None for transform in spec.transforms or [])
    return compares and spec.source is not None and spec.source.kind in _HAVE_TYPES


def compares_all_digits(spec: DataPrepJobSpec, parts: Mapping[str, int]) -> bool:
    """Return whether all digits of decimals are compared. `parts` contains the part versions in the job's plan."""
    return parts.get("decimals", 1) > 1 and _compares_decimals(spec)


def reads_heif(spec: DataPrepJobSpec, parts: Mapping[str, int]) -> bool:
    """Return whether AVIF and HEIC files are images. `parts` contains the part versions in the job's plan.

    A job that fails at the first bad record doesn't use the part `heif`, because under version 1, any AVIF or HEIC file made such a job
    fail.
    """
    return parts.get("heif", 1) > 1 or not _may_skip_heif(spec)


def versions(spec: DataPrepJobSpec, *, parts: Mapping[str, Part] = PARTS) -> dict[str, int]:
    """Return the versions of the parts that a job uses. Parts with version 1 are left out."""
    return {name: part.version for name, part in sorted(parts.items()) if part.version > 1 and part.is_used(spec)}


def fault_of_versions(made_by: Mapping[str, int], spec: DataPrepJobSpec, *, parts: Mapping[str, Part] = PARTS) -> str | None:
    """Explain why this release can't continue a data set that was written with the part versions `made_by`.

    Returns None if this release can continue it. The text continues a sentence that begins with the data set's name.
    """
    for name in sorted(made_by):
        if name not in parts or made_by[name] > parts[name].version:
            supported = f"version {parts[name].version}" if name in parts else "no such part"
            return f"was made by version {made_by[name]} of {name}, but this release supports {supported}. Use the release that made it, or a later release"
    for name, part in sorted(parts.items()):
        version = made_by.get(name, 1)
        oldest = part.version if part.oldest is None else part.oldest
        if part.is_used(spec) and version < oldest:
            return (
                f"was made by version {version} of {name}, but this release uses version {part.version}, which makes different records. "
                "Use the release that made it, or set output.overwrite: Always, which replaces the data set"
            )
    return None


def content(spec: DataPrepJobSpec) -> dict[str, Any]:
    """Return the fields of `spec` that affect the bytes, with params filled in, as JSON values.

    Fields with default values are left out. So jobs keep their run ids when a release adds fields. A field's default may change only
    together with ENCODING_VERSION. Without a new ENCODING_VERSION, a job that doesn't set the field would write different bytes under the
    same run id. The returned fields are stored in the manifest, so signatures are removed from web addresses, and credentials in strings
    are masked. Strings in `spec.output` stay unchanged, because they name columns and files.
    """
    fields = spec.model_dump(mode="json", by_alias=True, include=set(_BYTES) | {"output"}, exclude_defaults=True, context={STORED: True})
    if fields.get("nulls") == "Keep":
        del fields["nulls"]
    output = fields.pop("output")
    if spec.output.template is not None:
        output["fileName"] = spec.output.template
    return as_stored(fields | {"output": {key: value for key, value in output.items() if key not in ("uri", "overwrite", "hdfs")}})


def as_stored(content: Mapping[str, Any]) -> dict[str, Any]:
    """Return `content` with the credentials in its strings masked. The content may come from an older release."""
    return {key: value if key == "output" else with_credentials_masked(value) for key, value in content.items()}


def run_id(
    spec: DataPrepJobSpec,
    *,
    inputs_sha256: str,
    parts: Mapping[str, int] | None = None,
) -> str:
    """Return 16 hex digits of the digest of the spec, the pinned inputs, the encoding version and the parts' versions.

    `parts` defaults to this release's versions.
    """
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
    """Compute the run id from fields of a manifest.

    If `parts` is empty, the id is the same as in releases from before parts existed.
    """
    fields: dict[str, Any] = {"content": content, "inputs": inputs_sha256, "encoding": encoding_version}
    return canonical.sha256(fields | ({"parts": dict(parts)} if parts else {}))[:16]
