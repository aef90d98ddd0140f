"""Determines the class of an image, as text, from its folder or its file name, and collects the list of classes."""

import re
from collections.abc import Sequence
from typing import Any, Final

import pyarrow as pa

from dataprep_api.spec import ImagesSource
from dataprep_api.spec.sources.images import FileNameLabel
from dataprep_converter.core.errors import BadSpec
from dataprep_converter.core.tensors import pc

_NUMBER: Final = re.compile(r"[+-]?[0-9]{1,18}")
_SHOWN = 20


def parent(folders: Sequence[str], *, where: str) -> str:
    """The class of an image, which is the name of the innermost folder (labelFrom: ParentFolder). If the image is in no folder, raises
    BadSpec, which names `where`."""
    if not folders:
        raise BadSpec(
            f"{where} isn't in a folder whose name could be its class (labelFrom: ParentFolder); "
            "set labelFrom: None for images without classes."
        )
    return folders[-1]


def named(names: Sequence[str], uris: Sequence[str], rule: FileNameLabel) -> list[str]:
    """The classes of images, taken from the file names (labelFrom: FileName). Raises BadSpec, which names the URI, for a name without a
    class."""
    labels = _by_pattern(names, uris, rule.pattern) if rule.pattern else _by_part(names, uris, rule)
    for label, uri in zip(labels, uris, strict=True):
        if not label:
            raise BadSpec(f"{uri}: the part of its name that gives the class is empty (source.images.fileName).")
    return labels


def number(text: str, *, where: str) -> int:
    """The label as a whole number. Raises BadSpec, with `where` in its message, if the label isn't a whole number."""
    if _NUMBER.fullmatch(text.strip(" ")) is None:
        raise BadSpec(f"{where} has the label {text!r}, which is not a whole number (labelType: Number).")
    return int(text)


class Classes:
    """A source's classes, which are given in the spec, or are collected from the images in all subsets or in one subset."""

    def __init__(self, names: Sequence[str] | None, *, option: str, of: str | None = None) -> None:
        self._option = option
        self._spec_names = names
        self._only_subset = of
        self._names = set(names or [])
        self._others: dict[str, str] = {}

    def add(self, name: str, *, where: str, subset: str) -> None:
        """Adds the class of an image. If the spec gives the classes and this class is not among them, raises BadSpec, with `where` in its
        message."""
        if self._spec_names is None and self._only_subset in (None, subset):
            self._names.add(name)
        elif self._spec_names is None:
            self._others.setdefault(name, where)
        elif name not in self._names:
            raise BadSpec(f"{where} is of the class {name!r}, which {self._option} doesn't have: {shown(self._spec_names)}.")

    def names(self) -> list[str]:
        """The classes in the order of their numbers. If the spec lists the classes, the list's order is used; otherwise the classes are
        sorted. Raises BadSpec, which names the image, if an image's class doesn't occur in the subset that determines the classes."""
        if self._only_subset is not None and not self._names:
            raise BadSpec(f"{self._option}From: the subset {self._only_subset!r} has no images.")
        for name, where in sorted(self._others.items()):
            if name not in self._names:
                raise BadSpec(
                    f"{where} is of the class {name!r}, which the subset {self._only_subset!r} doesn't have ({self._option}From): {shown(sorted(self._names))}."
                )
        # Python compares strings by code points. UTF-8 bytes would give the same order.
        return list(self._spec_names) if self._spec_names is not None else sorted(self._names)


def shown(names: Sequence[Any]) -> str:
    """The names as text for a message. Only the first 20 are listed."""
    return ", ".join(map(str, names[:_SHOWN])) + (f" … and {len(names) - _SHOWN} more" if len(names) > _SHOWN else "")


def _by_part(names: Sequence[str], uris: Sequence[str], rule: FileNameLabel) -> list[str]:
    separator = rule.split or ""
    labels = []
    for name, uri in zip(names, uris, strict=True):
        stem = name.rpartition(".")[0]
        parts = stem.split(separator)
        if not -len(parts) <= rule.index < len(parts):
            raise BadSpec(
                f"{uri}: {stem!r} split by {separator!r} has no part {rule.index} that could be its class"
                f" (it has {len(parts)}; source.images.fileName)."
            )
        labels.append(parts[rule.index])
    return labels


def _by_pattern(names: Sequence[str], uris: Sequence[str], pattern: str) -> list[str]:
    # Arrow's regular expressions are RE2, which needs linear time for any pattern.
    _check(pattern)
    matches = pc.extract_regex(pa.array(names, pa.string()), pattern=pattern)
    for is_match, uri in zip(matches.is_valid().to_pylist(), uris, strict=True):
        if not is_match:
            raise BadSpec(f"{uri}: its name doesn't match source.images.fileName.pattern {pattern!r}.")
    labels: list[str] = matches.field("label").to_pylist()
    return labels


def _check(pattern: str) -> None:
    try:
        groups = [field.name for field in pc.extract_regex(pa.array([], pa.string()), pattern=pattern).type]
    except pa.ArrowInvalid as exc:
        raise BadSpec(
            f"source.images.fileName.pattern {pattern!r} is not a valid RE2 regular expression with only named groups: {exc}."
        ) from exc
    if groups.count("label") != 1:
        raise BadSpec(f"source.images.fileName.pattern {pattern!r} must have one group named label, (?P<label>…).")


def checked(labels: Sequence[str], subsets: Sequence[str], uris: Sequence[str], source: ImagesSource, classes: Classes) -> list[str]:
    """Checks the labels and returns them. Named labels are added to `classes`, and numeric labels are normalized. For an invalid label,
    raises BadSpec, which names the URI."""
    if source.label_from == "None":
        return list(labels)
    # Check each distinct label only once. An error names the first file that has the label.
    first = dict(zip(reversed(labels), reversed(uris), strict=True))
    if source.label_type == "Number":
        numbers = {label: str(number(label, where=first[label])) for label in dict.fromkeys(labels)}
        return [numbers[label] for label in labels]
    if source.classes_from is None:
        for label in dict.fromkeys(labels):
            classes.add(label, where=first[label], subset="")
    else:
        for label, subset, uri in zip(labels, subsets, uris, strict=True):
            classes.add(label, where=uri, subset=subset)
    return list(labels)
