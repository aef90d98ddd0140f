"""The options of `spark.read` and `df.write`. An option that describes the output has the name of a field of `spec.output`.

Spark passes options as strings. The case of their names doesn't matter. `tfrecord.compression` is the field `compression` of `tfrecord`.
"""

import json
from collections.abc import Mapping, Sequence
from typing import Annotated, Any, Final, get_args

import yaml
from pydantic import BaseModel, TypeAdapter, ValidationError
from pydantic.fields import FieldInfo

from dataprep_api.spec.model import model_in
from dataprep_api.spec.output import Output
from dataprep_converter.core.errors import BadSpec
from dataprep_converter.dataset.frame_rows import SPARK
from dataprep_converter.records.columns import similar
from dataprep_frames.options import SPLIT, Mode, ReadOptions, WriteOptions, check_format, checked_split_name, location, spec_of

_SPLIT_COLUMN: Final = "split"
_MODES: Final = ("errorifexists", "append", "ignore")
"""The values of the option `mode`. `overwrite` isn't among them, because Spark itself has this mode."""
_READ: Final = ("columns", "job", "path", "split", "splitColumn")
_WRITE: Final = ("format", "job", "mode", "nested", "path", "split", "splitColumn")
_REFUSED: Final = {
    "uri": "pass the URI to save()",
    "overwrite": "use mode()",
    "granularity": "set shards.records to the number of records of a file",
    "minibatchsize": "set shards.records to the number of records of a file",
    "provenance": "rows of a DataFrame don't come from files",
    "table": "write the DataFrame to the table with Spark",
    "shards.count": "each partition becomes a file: use df.repartition()",
    "shards.targetsize": "each partition becomes a file: use df.repartition(), or set shards.records",
}
"""Maps fields of `spec.output` that have no meaning for a DataFrame to advice on what to do instead."""


def read_options(options: Mapping[str, str]) -> ReadOptions:
    """Parses the options of `spark.read`. Raises BadSpec for an unknown option or a missing path."""
    own, others = _own(options, _READ)
    if others:
        raise _unknown(next(iter(others)), _READ)
    return ReadOptions(
        uri=_path(own, "load"),
        columns=_list(own.get("columns"), "columns"),
        splits=_list(own.get("split"), "split"),
        split_column=_column(own) or _SPLIT_COLUMN,
        job=own.get("job"),
    )


def write_options(options: Mapping[str, str], *, overwrite: bool) -> WriteOptions:
    """Parses the options of `df.write`. `overwrite` is Spark's flag for `mode("overwrite")`.

    Raises BadSpec for an unknown option or format, an invalid value, or a missing path.
    """
    own, others = _own(options, _WRITE)
    uri, mode = _path(own, "save"), _mode(own.get("mode"), overwrite=overwrite)
    format_ = own.get("format", "tfrecord")
    check_format(format_)
    output: dict[str, Any] = {"uri": uri, "format": format_}
    for name, text in others.items():
        _set(output, name, text)
    spec = spec_of(SPARK, output, mode=mode, nested=_list(own.get("nested"), "nested"))
    if "split" in own and "splitColumn" in own:
        raise BadSpec(
            "The options split and splitColumn contradict each other: set only split if all rows have the same split, otherwise only "
            "splitColumn."
        )
    column, split = _column(own), checked_split_name(own.get("split", SPLIT))
    return WriteOptions(spec=spec, mode=mode, engine=SPARK, split=split, split_column=column, job=own.get("job"))


def _own(options: Mapping[str, str], known: Sequence[str]) -> tuple[dict[str, str], dict[str, str]]:
    """Divides the options into known and unknown options. Restores the usual case of the known names."""
    usual = {name.lower(): name for name in known}
    own = {usual[name.lower()]: text for name, text in options.items() if name.lower() in usual}
    return own, {name: text for name, text in options.items() if name.lower() not in usual}


def _path(own: Mapping[str, str], call: str) -> str:
    if not own.get("path"):
        raise BadSpec(f"The URI of the data set is missing: pass it to {call}().")
    return location(own["path"])


def _column(own: Mapping[str, str]) -> str | None:
    """Returns the option `splitColumn`."""
    name = own.get("splitColumn")
    if name is not None and not name.strip():
        raise BadSpec(f"The option splitColumn must be the name of a column; got {name!r}.")
    return name


def _list(text: str | None, name: str) -> tuple[str, ...] | None:
    """Returns the names in a list: a JSON list, or names separated by commas."""
    if text is None:
        return None
    try:
        items = json.loads(text) if text.lstrip().startswith("[") else [item.strip() for item in text.split(",")]
    except ValueError:
        items = []
    if not items or not all(isinstance(item, str) and item for item in items):
        raise BadSpec(f"The option {name} must be a list of names, such as 'a,b' or '[\"a\", \"b\"]'; got {text!r}.")
    repeated = next((item for item in items if items.count(item) > 1), None)
    if repeated is not None:
        raise BadSpec(f"The option {name} contains {repeated!r} twice.")
    return tuple(items)


def _mode(text: str | None, *, overwrite: bool) -> Mode:
    """Returns the save mode. Spark passes only `append` and `overwrite`. For other modes, users pass `append` and set the option `mode`."""
    if text is None:
        return "overwrite" if overwrite else "append"
    mode = "errorifexists" if text.lower() == "error" else text.lower()
    if mode not in get_args(Mode):
        raise BadSpec(f"The option mode must be {', '.join(_MODES[:-1])} or {_MODES[-1]}; got {text!r}.")
    if overwrite and mode != "overwrite":
        raise BadSpec(f"mode('overwrite') contradicts the option mode={text!r}: use mode('append') with this option.")
    if mode == "overwrite" and not overwrite:
        # mode('append') promises that the existing rows stay.
        raise BadSpec(f"mode('append') contradicts the option mode={text!r}: use mode('overwrite').")
    return next(known for known in get_args(Mode) if known == mode)


def _set(output: dict[str, Any], name: str, text: str) -> None:
    """Sets the field of `spec.output` that has this name."""
    refusal = _REFUSED.get(name.lower()) or _REFUSED.get(name.lower().partition(".")[0])
    if refusal is not None:
        raise BadSpec(f"The option {name} isn't supported: {refusal}.")
    model: type[BaseModel] = Output
    *outer, last = name.split(".")
    for part in outer:
        alias, field = _field(model, part, name)
        inner = model_in(field.annotation)
        if inner is None:
            raise _unknown(name, _fields(Output))
        output, model = output.setdefault(alias, {}), inner
    alias, field = _field(model, last, name)
    inner = model_in(field.annotation)
    if inner is not None:
        # A mapping could contain refused fields, and would replace the values that other options have set.
        fields = ", ".join(f"{name}.{each}" for each in _fields(inner) if f"{name}.{each}".lower() not in _REFUSED)
        raise BadSpec(f"The option {name} can't be set as a whole. It has {f'the options {fields}' if fields else 'no options'}.")
    output[alias] = _value(text, field, name)


def _field(model: type[BaseModel], part: str, name: str) -> tuple[str, FieldInfo]:
    for field in model.model_fields.values():
        if (field.alias or "").lower() == part.lower():
            return field.alias or "", field
    prefix = name.rpartition(".")[0] if model is not Output else ""
    raise _unknown(name, [f"{prefix}.{alias}" for alias in _fields(model)] if prefix else [*_WRITE, *_fields(Output)])


def _fields(model: type[BaseModel]) -> list[str]:
    aliases = [field.alias or name for name, field in model.model_fields.items()]
    return [alias for alias in aliases if model is not Output or alias.lower() not in _REFUSED]


def _value(text: str, field: FieldInfo, name: str) -> Any:  # Any: a JSON value
    """Parses an option's text as YAML. Returns the text itself if the parsed value isn't valid for the field."""
    annotation: Any = Annotated[field.annotation, *field.metadata] if field.metadata else field.annotation
    adapter: TypeAdapter[Any] = TypeAdapter(annotation)
    try:
        values = [yaml.safe_load(text), text]
    except yaml.YAMLError:
        values = [text]
    for value in values:
        try:
            adapter.validate_python(value, by_alias=True, by_name=False)
        except ValidationError as exc:
            fault = exc.errors()[0]["msg"]
            continue
        return value
    raise BadSpec(f"The option {name} can't be {text!r}: {fault[:1].lower()}{fault[1:]}.")


def _unknown(name: str, known: Sequence[str]) -> BadSpec:
    return BadSpec(f"There is no option {name!r}.{similar(name, known)} The options are {', '.join(dict.fromkeys(known))}.")
