"""The class of an image, from its folder or its file's name, as text; and the list of classes."""

import re
from collections.abc import Iterable, Iterator, Sequence
from itertools import islice
from typing import Any, Final

import pyarrow as pa

from dataprep_api.spec import ImagesSource
from dataprep_api.spec.sources.images import FileNameLabel
from dataprep_converter.errors import BadSpec
from dataprep_converter.readers.image_listing import ListedFile
from dataprep_converter.tensors import kernels

_BLOCK = 4096
_NUMBER: Final = re.compile(r"[+-]?[0-9]{1,18}")
_SHOWN = 20


def labelled(images: Iterator[ListedFile], source: ImagesSource) -> Iterator[tuple[ListedFile, str]]:
    """Each image with its class. Raises BadSpec for one without a class, naming it."""
    if source.label_from == "ParentFolder":
        return ((image, _parent(image)) for image in images)
    if source.file_name is None:
        return ((image, "") for image in images)
    return _by_pattern(images, source.file_name.pattern) if source.file_name.pattern else _by_part(images, source.file_name)


def number(text: str, *, where: str) -> int:
    """A label that is a number. Raises BadSpec naming `where`."""
    if _NUMBER.fullmatch(text.strip(" ")) is None:
        raise BadSpec(f"{where} has the label {text!r}, which is no whole number (labelType: Number).")
    return int(text)


class Classes:
    """The classes of a source: those given, or those that have been added."""

    def __init__(self, given: Sequence[str] | None, *, option: str) -> None:
        self._option = option
        self._given = given
        self._known = set(given or [])

    def add(self, name: str, *, where: str) -> None:
        """Takes a class. Raises BadSpec naming `where` for one that isn't among those given."""
        if self._given is None:
            self._known.add(name)
        elif name not in self._known:
            raise BadSpec(f"{where} is of the class {name!r}, which {self._option} doesn't have: {shown(self._given)}.")

    def names(self) -> list[str]:
        """In the order of their numbers: as given, or sorted."""
        # Python compares strings by code points, which is the order of their UTF-8 bytes.
        return list(self._given) if self._given is not None else sorted(self._known)


def shown(names: Sequence[Any]) -> str:
    """Up to 20 names for a message."""
    return ", ".join(map(str, names[:_SHOWN])) + (f" … and {len(names) - _SHOWN} more" if len(names) > _SHOWN else "")


def _parent(image: ListedFile) -> str:
    if not image.folders:
        raise BadSpec(
            f"{image.entry.uri} lies in no folder that could name its class (labelFrom: ParentFolder);"
            " set labelFrom: None for images without one."
        )
    return image.folders[-1]


def _by_part(images: Iterator[ListedFile], rule: FileNameLabel) -> Iterator[tuple[ListedFile, str]]:
    separator = rule.split or ""
    for image in images:
        stem = _name(image).rpartition(".")[0]
        parts = stem.split(separator)
        if not -len(parts) <= rule.index < len(parts):
            raise BadSpec(
                f"{image.entry.uri}: {stem!r} split by {separator!r} has no part {rule.index} that could be its class"
                f" (it has {len(parts)}; source.images.fileName)."
            )
        yield image, _not_empty(parts[rule.index], image)


def _by_pattern(images: Iterator[ListedFile], pattern: str) -> Iterator[tuple[ListedFile, str]]:
    # Arrow's regular expressions are RE2: their time is linear, whatever the pattern.
    _check(pattern)
    while block := list(islice(images, _BLOCK)):
        found = kernels.extract_regex(pa.array([_name(image) for image in block], pa.string()), pattern=pattern)
        labels = found.field("label").to_pylist()
        for image, is_found, label in zip(block, found.is_valid().to_pylist(), labels, strict=True):
            if not is_found:
                raise BadSpec(f"{image.entry.uri}: its name doesn't match source.images.fileName.pattern {pattern!r}.")
            yield image, _not_empty(label, image)


def _check(pattern: str) -> None:
    try:
        groups = [field.name for field in kernels.extract_regex(pa.array([], pa.string()), pattern=pattern).type]
    except pa.ArrowInvalid as exc:
        raise BadSpec(f"source.images.fileName.pattern {pattern!r} is no regular expression of RE2 with named groups only: {exc}.") from exc
    if groups.count("label") != 1:
        raise BadSpec(f"source.images.fileName.pattern {pattern!r} must have one group named label, (?P<label>…).")


def _not_empty(label: str, image: ListedFile) -> str:
    if not label:
        raise BadSpec(f"{image.entry.uri}: the part of its name that is to be the class is empty (source.images.fileName).")
    return label


def _name(image: ListedFile) -> str:
    return image.path.rpartition("/")[2]


def checked(found: Iterable[tuple[ListedFile, str]], source: ImagesSource, classes: Classes) -> Iterator[tuple[ListedFile, str]]:
    """The images with their classes added to `classes`, or with labels that are numbers."""
    for image, label in found:
        if source.label_from != "None":
            if source.label_type == "Number":
                label = str(number(label, where=image.entry.uri))
            else:
                classes.add(label, where=image.entry.uri)
        yield image, label
