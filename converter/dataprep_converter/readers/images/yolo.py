"""Parses YOLO annotations and the file with the class names. An annotation has one object per line: `class cx cy w h`.

All coordinates are fractions of the image's size.
"""

from collections.abc import Sequence

import yaml

from dataprep_converter.core.errors import BadSample, BadSpec
from dataprep_converter.inputs.access import Access
from dataprep_converter.inputs.pinned import entry_of
from dataprep_converter.readers.images.boxes import MOST_OBJECTS, Annotation, BoxedObject, finite
from dataprep_converter.readers.images.image_listing import extension_of

_LARGEST_NAMES = 4 << 20


def parse(content: bytes, names: Sequence[str]) -> Annotation:
    """The objects of an annotation, in the order of the lines. Raises BadSample, which names the line, if the file is invalid."""
    try:
        text = content.decode("utf-8-sig")
    except UnicodeDecodeError as exc:
        raise BadSample("its annotation is not UTF-8") from exc
    lines = [(number, line) for number, line in enumerate(text.split("\n"), start=1) if line.strip()]
    if len(lines) > MOST_OBJECTS:
        raise BadSample(f"its annotation has more than {MOST_OBJECTS:,} objects")
    return Annotation([_object(line, number, names) for number, line in lines], is_relative=True)


def _object(line: str, number: int, names: Sequence[str]) -> BoxedObject:
    values = line.split()
    if len(values) != 5:
        raise BadSample(f"line {number} of its annotation has {len(values)} values, expected 5: class, cx, cy, w, h")
    what = f"line {number} of its annotation: a value"
    kind, x, y, width, height = (finite(value, what=what) for value in values)
    if kind != int(kind) or not 0 <= kind < len(names):
        raise BadSample(f"line {number} of its annotation: the class {values[0]} is outside 0..{len(names) - 1}")
    return BoxedObject(names[int(kind)], (x - width / 2, y - height / 2, x + width / 2, y + height / 2))


def class_names(access: Access, uri: str) -> list[str]:
    """The class names in a file: one name per line, or the entry `names` of a YAML file, which is a list or a map from numbers to names.

    Raises BadSpec, which names the file, if the file is invalid.
    """
    store = access.store(uri)
    if entry_of(store, uri).size > _LARGEST_NAMES:
        raise BadSpec(f"{uri} has more than 4 MiB; it can't be a list of class names.")
    try:
        text = store.get(uri).decode("utf-8-sig")
    except UnicodeDecodeError as exc:
        raise BadSpec(f"{uri}: not UTF-8: {exc.reason} at byte {exc.start}.") from exc
    names = _of_yaml(text, uri) if extension_of(uri) in ("yaml", "yml") else [line.strip() for line in text.rstrip().split("\n")]
    if not names or not all(names):
        raise BadSpec(f"{uri}: a class name is empty (number {names.index('') if '' in names else 0}).")
    if len(set(names)) < len(names):
        twice = next(name for name in names if names.count(name) > 1)
        raise BadSpec(f"{uri}: the class {twice!r} occurs twice.")
    return names


def _of_yaml(text: str, uri: str) -> list[str]:
    try:
        document = yaml.safe_load(text)
    except (yaml.YAMLError, RecursionError) as exc:
        raise BadSpec(f"{uri}: not valid YAML: {exc}.") from exc
    names = document.get("names") if isinstance(document, dict) else None
    if isinstance(names, dict) and sorted(names, key=str) == sorted(range(len(names)), key=str):
        names = [names[number] for number in range(len(names))]
    if not isinstance(names, list) or not all(isinstance(name, (str, int, float)) for name in names):
        raise BadSpec(f"{uri}: expected names: a list, or a map from 0, 1, … to names.")
    return [str(name) for name in names]
