"""Finds every path of the spec that holds a scalar, and builds the smallest document with a value at a given path."""

import types
from collections.abc import Iterator
from typing import Annotated, Any, Final, Literal, Union, get_args, get_origin

from pydantic import BaseModel
from pydantic.fields import FieldInfo

from dataprep_api.spec import DataPrepJobSpec
from dataprep_api.spec.model import OneOf

Path = tuple[str | int, ...]
KEY: Final = "k"
"""The key to use in maps."""


def places(model: type[BaseModel] = DataPrepJobSpec, seen: tuple[type[BaseModel], ...] = ()) -> Iterator[Path]:
    """Yield the paths of all scalars below a model. Lists have one item. A model that contains itself is visited only once."""
    for name, field in model.model_fields.items():
        for path in _below(_annotation(field), (*seen, model)):
            yield (field.alias or name, *path)


def _below(annotation: Any, seen: tuple[type[BaseModel], ...]) -> Iterator[Path]:  # Any, because annotations have no common type
    annotation = _plain(annotation)
    if get_origin(annotation) in (Union, types.UnionType):
        found = dict.fromkeys(path for each in get_args(annotation) if each is not types.NoneType for path in _below(each, seen))
        yield from found
    elif get_origin(annotation) is list:
        yield from ((0, *path) for path in _below(get_args(annotation)[0], seen))
    elif get_origin(annotation) is dict:
        yield from ((KEY, *path) for path in _below(get_args(annotation)[1], seen))
    elif isinstance(annotation, type) and issubclass(annotation, BaseModel):
        if annotation not in seen:
            yield from places(annotation, seen)
        if annotation.model_config.get("extra") == "allow":
            yield (KEY,)
    else:
        yield ()


def document(path: Path, value: Any, model: type[BaseModel] = DataPrepJobSpec) -> dict[str, Any]:  # Any: JSON
    """Return the smallest spec with this value at the path."""
    made = least(model, chosen=str(path[0]))
    by_alias = {field.alias or name: field for name, field in model.model_fields.items()}
    name = str(path[0])
    made[name] = _placed(_annotation(by_alias[name]) if name in by_alias else Any, path[1:], value)
    return made


def _placed(annotation: Any, path: Path, value: Any) -> Any:
    annotation = _plain(annotation)
    if not path:
        return value
    if get_origin(annotation) in (Union, types.UnionType):
        annotation = next(each for each in get_args(annotation) if path in set(_below(each, ())))
        return _placed(annotation, path, value)
    if get_origin(annotation) is list:
        return [_placed(get_args(annotation)[0], path[1:], value)]
    if get_origin(annotation) is dict:
        return {path[0]: _placed(get_args(annotation)[1], path[1:], value)}
    return document(path, value, annotation)


def least(model: type[BaseModel], chosen: str | None = None) -> dict[str, Any]:
    """Return the required fields of a model. For a union: the chosen member, or else its first member."""
    if model is DataPrepJobSpec:
        source = {} if chosen in ("source", "script") else {"source": {"csv": {"uris": ["in.csv"]}}}
        return source | {"output": {"uri": "out"}}
    if issubclass(model, OneOf):
        names = model.members()
        name = chosen if chosen in names else names[0]
        field = next(field for each, field in model.model_fields.items() if (field.alias or each) == name)
        return {} if chosen == name else {name: _least_value(_annotation(field), name)}
    return {
        field.alias or name: _least_value(_annotation(field), name) for name, field in model.model_fields.items() if field.is_required()
    }


def _least_value(annotation: Any, name: str) -> Any:
    known = {"url": "sqlite:///x.db", "callable": "m:f"}
    if name in known:
        return known[name]
    annotation = _plain(annotation)
    if get_origin(annotation) in (Union, types.UnionType):
        return _least_value(next(each for each in get_args(annotation) if each is not types.NoneType), name)
    if get_origin(annotation) is list:
        return [_least_value(get_args(annotation)[0], name)]
    if get_origin(annotation) is dict:
        return {KEY: _least_value(get_args(annotation)[1], name)}
    if get_origin(annotation) is Literal:
        return get_args(annotation)[0]
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        return least(annotation)
    return {bool: True, int: 1, float: 0.5}.get(annotation, "x")


def _annotation(field: FieldInfo) -> Any:
    return field.rebuild_annotation()


def _plain(annotation: Any) -> Any:
    return get_args(annotation)[0] if get_origin(annotation) is Annotated else annotation


MARK: Final = "s3cr3t-m4rk"
FORMS: Final = (
    f"accessKey:{MARK}@bucket",
    f"s3://user:{MARK}@bucket/x",
    f"https://127.0.0.1:1/x?X-Amz-Signature={MARK}&password={MARK}",
)
"""Texts with a credential that users might write into the wrong field. The first text has no URL scheme, and is tested only in messages."""


def leaks(text: str | bytes) -> bool:
    """Whether the text contains the secret."""
    return MARK in text if isinstance(text, str) else MARK.encode() in text
