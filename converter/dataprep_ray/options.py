"""The arguments of the data source and of the data sink. An argument that describes the output has the name of a field of `spec.output`."""

import os
from collections.abc import Mapping, Sequence
from typing import Any, Final, get_args

from dataprep_api.spec.output import Output
from dataprep_converter.core.errors import BadSpec
from dataprep_converter.dataset.frame_rows import RAY
from dataprep_converter.records.columns import similar
from dataprep_frames.options import SPLIT, Mode, ReadOptions, WriteOptions, check_format, checked_split_name, location, spec_of

AnyPath = str | os.PathLike[str]

_OWN: Final = ("format", "job", "min_rows_per_file", "mode", "nested", "schema", "split", "split_column")
_BY_TASKS: Final = "each write task makes a file: use ds.repartition(), min_rows_per_file, or shards={'records': …}"
_REFUSED: Final = {
    "overwrite": "use mode",
    "granularity": "set shards={'records': …} to the number of records of a file",
    "minibatchSize": "set shards={'records': …} to the number of records of a file",
    "provenance": "rows of a Dataset don't come from files",
    "table": "write the Dataset to the table with Ray",
}
"""Maps fields of `spec.output` that have no meaning for a Dataset to advice on what to do instead."""


def read_options(
    uri: AnyPath, *, columns: Sequence[str] | None, split: str | Sequence[str] | None, split_column: str | None, job: str | None
) -> ReadOptions:
    """Returns the options of a read. Raises BadSpec for an invalid option."""
    return ReadOptions(
        uri=_location(uri),
        columns=_names(columns, "columns"),
        splits=_names([split] if isinstance(split, str) else split, "split"),
        split_column=_column(split_column),
        job=job,
    )


def write_options(
    uri: AnyPath,
    *,
    format: str,  # noqa: A002 - the field's name
    mode: object,
    split: str | None,
    split_column: str | None,
    nested: Sequence[str] | None,
    job: str | None,
    output: Mapping[str, Any],
) -> WriteOptions:
    """Returns the options of a write. `output` has the other fields of `spec.output`. Raises BadSpec for an unknown or invalid option."""
    if split is not None and split_column is not None:
        raise BadSpec(
            "The options split and split_column contradict each other: set only split if all rows have the same split, otherwise only "
            "split_column."
        )
    check_format(format)
    chosen = _mode(mode)
    for name, value in output.items():
        _check(name, value)
    try:
        spec = spec_of(RAY, {"uri": _location(uri), "format": format, **output}, mode=chosen, nested=_names(nested, "nested"))
    except BadSpec as exc:
        exc.args = (str(exc).replace("spec.output.", ""),)
        raise
    column = _column(split_column)
    name = checked_split_name(SPLIT if split is None else split)
    return WriteOptions(spec=spec, mode=chosen, engine=RAY, split=name, split_column=column, job=job)


def min_rows(value: int | None) -> int | None:
    """Returns the minimum number of rows for each write task. Raises BadSpec if the number isn't a whole number of at least 1."""
    if value is not None and (not isinstance(value, int) or isinstance(value, bool) or value < 1):
        raise BadSpec(f"The option min_rows_per_file must be a whole number of at least 1; got {value!r}.")
    return value


def _location(uri: AnyPath) -> str:
    text = os.fspath(uri) if isinstance(uri, os.PathLike) else uri
    if not isinstance(text, str) or not text.strip():
        raise BadSpec(f"The URI of the data set must be a string or a path; got {uri!r}.")
    return location(text)


def _mode(mode: object) -> Mode:
    """Returns the save mode, which may also be one of Ray's `SaveMode`."""
    name = getattr(mode, "value", mode)
    name = "errorifexists" if name == "error" else name
    for known in get_args(Mode):
        if name == known:
            return known  # type: ignore[no-any-return]  # get_args has no types
    raise BadSpec(f"The option mode must be {', '.join(get_args(Mode)[:-1])} or {get_args(Mode)[-1]}; got {mode!r}.")


def _names(given: Sequence[str] | None, option: str) -> tuple[str, ...] | None:
    if given is None:
        return None
    if isinstance(given, str) or not given or not all(isinstance(name, str) and name for name in given):
        raise BadSpec(f"The option {option} must be a list of names, such as ['a', 'b']; got {given!r}.")
    repeated = next((name for name in given if list(given).count(name) > 1), None)
    if repeated is not None:
        raise BadSpec(f"The option {option} contains {repeated!r} twice.")
    return tuple(given)


def _column(name: str | None) -> str | None:
    if name is not None and (not isinstance(name, str) or not name.strip()):
        raise BadSpec(f"The option split_column must be the name of a column; got {name!r}.")
    return name


def _check(name: str, value: object) -> None:
    """Raises BadSpec if `spec.output` has no such field, or if the field has no meaning for a Dataset."""
    fields = [alias for field, info in Output.model_fields.items() if (alias := info.alias or field) not in (*_REFUSED, "uri", "format")]
    if name in _REFUSED:
        raise BadSpec(f"The option {name} isn't supported: {_REFUSED[name]}.")
    if name not in fields:
        known = [*_OWN, *fields]
        raise BadSpec(f"There is no option {name!r}.{similar(name, known)} The options are {', '.join(known)}.")
    for each in ("count", "targetSize"):
        if name == "shards" and isinstance(value, Mapping) and each in value:
            raise BadSpec(f"The option shards can't have {each}: {_BY_TASKS}.")
