"""Suggests the correct spelling of an unknown field or word."""

import difflib
import types
import typing
from collections.abc import Iterable, Sequence

from pydantic import BaseModel


def did_you_mean(root: type[BaseModel], location: Sequence[int | str]) -> str:
    """Suggest a known field for the unknown field at `location`: `; did you mean labelFrom? (known: …)`.

    Returns an empty string if the model that contains the field isn't found.
    """
    model = _model_at(root, location[:-1])
    if model is None:
        return ""
    names = [field.alias or name for name, field in model.model_fields.items()]
    return f"{nearest(str(location[-1]), names)} (known: {', '.join(sorted(names))})"


def nearest(word: str, words: Iterable[str]) -> str:
    """Suggest the known word that is most similar to `word`: `; did you mean tfrecord?`.

    Returns an empty string if no known word is similar.
    """
    lowered = {name.lower(): name for name in words}
    close = difflib.get_close_matches(word.lower(), list(lowered), n=1, cutoff=0.6)
    return f"; did you mean {lowered[close[0]]}?" if close else ""


def _model_at(root: type[BaseModel], location: Sequence[int | str]) -> type[BaseModel] | None:
    model: type[BaseModel] | None = root
    for part in location:
        if isinstance(part, int) or model is None:
            continue
        fields = {field.alias or name: field for name, field in model.model_fields.items()}
        model = _model_in(fields[part].annotation) if part in fields else None
    return model


def _model_in(annotation: object) -> type[BaseModel] | None:
    """Return the first model class within a type such as `list[Split] | None`."""
    if isinstance(annotation, type) and not isinstance(annotation, types.GenericAlias) and issubclass(annotation, BaseModel):
        return annotation
    for inner in typing.get_args(annotation):
        model = _model_in(inner)
        if model is not None:
            return model
    return None
