"""Parses Pascal VOC's XML files, each of which contains the objects of one image. Document types and entities are rejected.

# The elements that are read from a file:
# annotation / size / width, height
# annotation / object / name, pose, truncated, difficult, bndbox / xmin, ymin, xmax, ymax      (pixels; some tools write fractions)
"""

from typing import Final
from xml.parsers import expat

from dataprep_converter.core.errors import BadSample
from dataprep_converter.readers.images.boxes import MOST_OBJECTS, UNKNOWN_VIEW, Annotation, BoxedObject, finite

_DEEPEST: Final = 32
_EDGES: Final = ("xmin", "ymin", "xmax", "ymax")
_OBJECT: Final = ("annotation", "object")
_SIZE: Final = ("annotation", "size")
_FLAGS: Final = {"0": 0, "1": 1, "false": 0, "true": 1, "": 0}


def parse(content: bytes, *, first_pixel: int) -> Annotation:
    """The objects in file order. If `first_pixel` is 1, pixels are numbered from 1, and a box includes the pixels xmax and ymax.

    Raises BadSample if the file is invalid. The elements `pose`, `truncated`, `difficult` and `size` can be missing.
    """
    document = _Document()
    try:
        document.parser.Parse(content, True)
    except expat.ExpatError as exc:
        raise BadSample(f"its annotation is not valid XML: {exc}") from exc
    except (LookupError, ValueError) as exc:
        raise BadSample(f"its annotation has an encoding that can't be read: {exc}") from exc
    objects = [_object(fields, number, first_pixel) for number, fields in enumerate(document.objects, start=1)]
    return Annotation(objects, size=_size(document.size))


def _object(fields: dict[str, str], number: int, first_pixel: int) -> BoxedObject:
    name = fields.get("name", "")
    if not name:
        raise BadSample(f"object {number} of its annotation has no name")
    missing = [edge for edge in _EDGES if edge not in fields]
    if missing:
        raise BadSample(f"object {number} ({name}) of its annotation has no {', '.join(missing)}")
    xmin, ymin, xmax, ymax = (finite(fields[edge], what=f"{edge} of object {number} ({name})") for edge in _EDGES)
    return BoxedObject(
        name=name,
        box=(xmin - first_pixel, ymin - first_pixel, xmax, ymax),
        difficult=_flag(fields, "difficult", number),
        truncated=_flag(fields, "truncated", number),
        view=fields.get("pose") or UNKNOWN_VIEW,
    )


def _flag(fields: dict[str, str], name: str, number: int) -> int:
    text = fields.get(name, "").lower()
    if text not in _FLAGS:
        raise BadSample(f"{name} of object {number} of its annotation is {text[:40]!r}, expected 0 or 1")
    return _FLAGS[text]


def _size(fields: dict[str, str]) -> tuple[int, int] | None:
    """The size of the image. None if the size is missing, or if it is 0, as in the files of some tools."""
    width, height = (int(finite(fields.get(side) or "0", what=f"{side} of its annotation")) for side in ("width", "height"))
    return (width, height) if width > 0 and height > 0 else None


class _Document:
    """Collects the text of the needed elements while expat parses the file."""

    def __init__(self) -> None:
        self.objects: list[dict[str, str]] = []
        self.size: dict[str, str] = {}
        self._path: list[str] = []
        self._text: list[str] = []
        self.parser = expat.ParserCreate()
        self.parser.buffer_text = True
        self.parser.StartElementHandler = self._start
        self.parser.EndElementHandler = self._end
        self.parser.CharacterDataHandler = self._text.append
        # Without a document type, a file has only XML's five predefined entities. The predefined entities can't expand to large text or
        # include files.
        self.parser.StartDoctypeDeclHandler = self._doctype

    def _doctype(self, *_: object) -> None:
        raise BadSample("its annotation declares a document type (DOCTYPE), which is refused: it could hold entities")

    def _start(self, name: str, _: dict[str, str]) -> None:
        if not self._path and name != "annotation":
            raise BadSample(f"its annotation is not a Pascal VOC file: it begins with <{name[:40]}>, expected <annotation>")
        if len(self._path) >= _DEEPEST:
            raise BadSample(f"its annotation has elements more than {_DEEPEST} levels deep")
        self._path.append(name)
        self._text.clear()
        if tuple(self._path) == _OBJECT:
            if len(self.objects) == MOST_OBJECTS:
                raise BadSample(f"its annotation has more than {MOST_OBJECTS:,} objects")
            self.objects.append({})

    def _end(self, name: str) -> None:
        self._path.pop()
        text = "".join(self._text).strip()
        self._text.clear()
        # Compare the complete path, because objects in VOC can have parts, which have their own names and boxes.
        above = tuple(self._path)
        if above == _SIZE:
            self.size[name] = text
        elif above == _OBJECT or above == (*_OBJECT, "bndbox"):
            self.objects[-1][name] = text
