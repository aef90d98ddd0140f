"""Suggests the correct spelling of an unknown field or word, or the place where the field belongs."""

import difflib
import typing
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Final

from pydantic import BaseModel

from dataprep_api.spec.model import model_in

_DEEPEST: Final = 4
_CLOSE: Final = 0.85
"""The similarity from which a known name in the same mapping is suggested (1.0 means equal). Below this similarity, mappings elsewhere in
the document are searched first for a field with exactly the unknown name."""
_MOST_PLACES: Final = 8
_STATUS: Final = "status"


def did_you_mean(root: type[BaseModel], location: Sequence[int | str], document: object = None) -> str:
    """Suggest a known field for the unknown field at `location` of the document: `; did you mean labelFrom? (known: …)`.

    If the field is known in another mapping, suggest this mapping instead: `; it belongs under csv (spec.source.csv.quote)`.
    Returns an empty string if the model that contains the field isn't found.
    """
    model = model_at(root, location[:-1])
    if model is None:
        return ""
    word, names = str(location[-1]), _aliases(model)
    if not difflib.get_close_matches(word.lower(), map(str.lower, names), 1, _CLOSE):
        place = _place_of(root, location, document)
        if place is not None:
            return place
    return f"{nearest(word, names)} (known: {', '.join(sorted(names))})"


def nearest(word: str, words: Iterable[str]) -> str:
    """Suggest the known word that is most similar to `word`: `; did you mean tfrecord?`.

    Returns an empty string if no known word is similar.
    """
    lowered = {name.lower(): name for name in words}
    close = difflib.get_close_matches(word.lower(), list(lowered), n=1, cutoff=0.6)
    return f"; did you mean {lowered[close[0]]}?" if close else ""


def model_at(root: type[BaseModel], location: Sequence[int | str]) -> type[BaseModel] | None:
    """Return the model of the value at a location, or None if the value isn't a model."""
    model: type[BaseModel] | None = root
    for part in location:
        if isinstance(part, int) or model is None:
            continue
        fields = _aliases(model)
        model = model_in(fields[part]) if part in fields else None
    return model


def _place_of(root: type[BaseModel], location: Sequence[int | str], document: object) -> str | None:
    """Suggest the nearest mapping that has a field with this name. It may be an inner mapping, an outer mapping, or elsewhere."""
    word = str(location[-1])
    for length in range(len(location) - 1, -1, -1):
        around = location[:length]
        model = model_at(root, around)
        if model is None or (around and isinstance(around[-1], int)):
            continue
        if length < len(location) - 1 and word in _aliases(model):
            return _belongs(around, word)
        below = [(*around, *path) for path in _places_below(model, word)]
        present = [path for path in below if _is_mapping(document, path)]
        if present:
            return _belongs(present[0], word)
        # No mapping in the document has this field. Suggest mappings that can be added directly below the mapping with the unknown field.
        children = [str(path[-1]) for path in below if len(path) == len(location)]
        if len(children) == 1 and length == len(location) - 1:
            return _belongs((*around, children[0]), word)
        if children and length == len(location) - 1:
            return (
                f"; it belongs one level deeper, under {', '.join(children[:_MOST_PLACES])}{' or others' * (len(children) > _MOST_PLACES)}"
            )
    return None


def _belongs(path: Sequence[int | str], word: str) -> str:
    text = ".".join(map(str, path))
    return f"; it belongs under {path[-1]} ({text}.{word})" if path else f"; it belongs at the top of the document ({word})"


def _places_below(model: type[BaseModel], word: str) -> Iterator[tuple[str, ...]]:
    """Yield the path, relative to the model, of each mapping that has a field with this name. Lists are skipped. Short paths come first."""
    level: list[tuple[tuple[str, ...], type[BaseModel]]] = [((), model)]
    for _ in range(_DEEPEST):
        following = []
        for path, each in level:
            for name, annotation in _aliases(each).items():
                inner = None if name == _STATUS or _is_list(annotation) else model_in(annotation)
                if inner is not None:
                    following.append(((*path, name), inner))
        yield from (path for path, each in following if word in _aliases(each))
        level = following


def _is_mapping(document: object, path: Sequence[int | str]) -> bool:
    for part in path:
        if isinstance(document, Mapping):
            document = document.get(part)
        elif isinstance(document, list) and isinstance(part, int) and part < len(document):
            document = document[part]
        else:
            return False
    return isinstance(document, Mapping)


def _aliases(model: type[BaseModel]) -> dict[str, object]:
    """Map the YAML name of each of the model's fields to the field's type."""
    return {field.alias or name: field.annotation for name, field in model.model_fields.items()}


def _is_list(annotation: object) -> bool:
    return typing.get_origin(annotation) is list or any(map(_is_list, typing.get_args(annotation)))
