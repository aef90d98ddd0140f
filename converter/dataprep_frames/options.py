"""The options for reading and for writing, in the same form for all engines."""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final, Literal

from pydantic import TypeAdapter, ValidationError

from dataprep_api import API_VERSION, KIND, names
from dataprep_api.errors import SpecError
from dataprep_api.formats import RULES
from dataprep_api.resources.job import DataPrepJob
from dataprep_api.spec import DataPrepJobSpec
from dataprep_api.spec.model import SplitName
from dataprep_converter.core.errors import BadSpec
from dataprep_converter.dataset import frame_rows
from dataprep_converter.dataset.frame_rows import Engine
from dataprep_converter.inputs import job_file
from dataprep_converter.inputs.store_settings import access_of
from dataprep_converter.records.columns import similar
from dataprep_converter.stores import StoreSettings
from dataprep_converter.stores.local_paths import path_of

Mode = Literal["errorifexists", "overwrite", "append", "ignore"]

SPLIT: Final = "train"
_OVERWRITE: Final[Mapping[Mode, str]] = {"errorifexists": "Never", "overwrite": "Always", "append": "Extend", "ignore": "Never"}
"""The value of `output.overwrite` for each save mode."""
_SCHEME: Final = re.compile(r"[A-Za-z][A-Za-z0-9+.-]*")
_split_name: TypeAdapter[str] = TypeAdapter(SplitName)


@dataclass(frozen=True)
class ReadOptions:
    """The options of a read."""

    uri: str
    columns: tuple[str, ...] | None = None
    """The features to read, in this order; None means all."""
    splits: tuple[str, ...] | None = None
    """The splits to read; None means all."""
    split_column: str | None = None
    """The name of the column with the split's name; None means that there is no such column."""
    job: str | None = None
    """The file of a job whose `spec.stores` describe the stores; without this file, the environment describes the stores."""


@dataclass(frozen=True)
class WriteOptions:
    """The options of a write."""

    spec: DataPrepJobSpec
    """The spec of the job that would write the data set, if a job could have a data frame as its source."""
    mode: Mode
    engine: Engine
    split: str = SPLIT
    """The split of all rows, if no column contains the splits' names."""
    split_column: str | None = None
    job: str | None = None
    classes: Mapping[str, Sequence[str]] = field(default_factory=dict)
    """Maps each column of class numbers to the names of its classes."""


def checked_split_name(name: object) -> str:
    """Returns the name of a split. Raises BadSpec if it isn't a valid name."""
    try:
        return _split_name.validate_python(name, strict=True)
    except ValidationError:
        raise BadSpec(
            f"{name!r} can't be the name of a split: a name has at most 63 letters, digits, dots, dashes and underscores, and begins and "
            "ends with a letter or digit."
        ) from None


def found_name(name: str, names: Sequence[str]) -> str | None:
    """Returns the column that a user's name refers to, or None if there is no such column.

    If no column has exactly this name, the case of letters is ignored.
    """
    same = [each for each in names if each.casefold() == name.casefold()]
    return name if name in same else next(iter(same), None)


def location(uri: str) -> str:
    """Returns a URI that means the same in all processes. Raises BadSpec if `uri` is neither a URI nor a path."""
    scheme, colon, rest = uri.partition(":")
    if not (colon and _SCHEME.fullmatch(scheme)):
        # The engine's processes have different working directories, and may belong to different users.
        return str(Path(uri).expanduser().absolute() if uri.startswith("~/") else Path(uri).absolute())
    is_file = scheme.lower() == "file"
    if rest.startswith("//"):
        return path_of(uri) if is_file else uri
    if is_file and rest.startswith("/"):
        return rest
    raise BadSpec(
        f"{uri} isn't a URI: {scheme}: must be followed by {'a slash' if is_file else 'two slashes'}. For a path that contains a colon, put "
        "./ before it.",
        uri=uri,
    )


def check_format(name: str) -> None:
    """Raises BadSpec if there is no format with this name."""
    if name not in RULES:
        raise BadSpec(f"There is no format {name!r}.{similar(name, list(RULES))} The formats are {', '.join(RULES)}.")


def spec_of(engine: Engine, output: Mapping[str, Any], *, mode: Mode, nested: Sequence[str] | None) -> DataPrepJobSpec:
    """Returns the spec of the job that would write the data set, if a job could have a data frame as its source.

    `output` is `spec.output` without `overwrite`. Raises BadSpec for unknown fields, for invalid values, and for a `fileName` that
    contains the number of files.
    """
    output = {**output, "overwrite": _OVERWRITE[mode]}
    template = output.setdefault("fileName", names.extendable_template(output["format"]))
    if template is None:
        del output["fileName"]
    elif "{shard" not in template or "{shards" in template:
        raise BadSpec(
            f"fileName must contain {{shard}} but not {{shards}}, because the number of files changes when rows are appended to a data set "
            f"that {engine.name} has written; got {template!r}."
        )
    document = {
        "apiVersion": API_VERSION,
        "kind": KIND,
        "metadata": {"name": engine.job},
        "spec": {"source": frame_rows.source(engine, nested), "output": output},
    }
    try:
        return DataPrepJob.parse(document).spec
    except SpecError as exc:
        raise BadSpec(f"{exc}.") from exc


def settings_of(job: str | None) -> tuple[StoreSettings, ...]:
    """Returns the settings of the stores that the job in this file describes."""
    return () if job is None else access_of(job_file.load(job)).settings
