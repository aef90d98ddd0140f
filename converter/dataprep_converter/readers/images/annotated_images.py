"""The source `annotatedImages` reads images and their objects with bounding boxes, from Pascal VOC, COCO or YOLO files.

Each image is a unit. For the formats Voc and Yolo, the planner pairs images with annotation files. It reads the annotations only if it must
collect the classes. Workers read and check the annotations (`voc.py`, `yolo.py`). A Coco file is read once by the planner, and each unit's
`extra` contains the part of the file about the unit's image (`coco.py`).
"""

import hashlib
import json
from collections import deque
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import replace
from typing import Any, ClassVar, Final

import pyarrow as pa

from dataprep_api.spec.sources.annotated_images import AnnotatedImagesSource
from dataprep_converter.core.errors import BadSample, BadSpec
from dataprep_converter.core.tensors import Array
from dataprep_converter.images import image_headers
from dataprep_converter.inputs.access import Access
from dataprep_converter.inputs.pinned import is_hidden
from dataprep_converter.readers import Discovery, Listing
from dataprep_converter.readers.base.files_ahead import File, FilesReader, Row, read_whole_file
from dataprep_converter.readers.images import coco, voc, yolo
from dataprep_converter.readers.images.boxes import LARGEST_ANNOTATION, Annotation, check_size, relative_boxes
from dataprep_converter.readers.images.image_labels import shown
from dataprep_converter.readers.images.image_listing import IgnoredFiles, extension_of, images_below, listed
from dataprep_converter.readers.images.images import FILENAME, IMAGE, Image, image_columns
from dataprep_converter.readers.images.object_columns import ImageObjects, ObjectColumns
from dataprep_converter.readers.images.pairs import Pair, Pairing, Tree, UnmatchedFiles, extra_of, refuse_bad, unit_of
from dataprep_converter.sampling.units import Unit
from dataprep_converter.stores import Entry

_EXTENSIONS: Final = {"Voc": "xml", "Yolo": "txt"}
_OPTION: Final = "source.annotatedImages"
_THREADS: Final = 16
_AHEAD: Final = 256


class AnnotatedImagesReader(FilesReader[tuple[Image, ImageObjects]]):
    """See the module."""

    default_label: ClassVar[str] = "image/class/label"

    @staticmethod
    def discover(source: AnnotatedImagesSource, access: Access) -> Discovery:
        """Lists and pairs the files. Raises NotFound for a URI without files, and for unpaired files that `missing` doesn't allow."""
        return Discovery(_units(source, access))

    def __init__(self, source: AnnotatedImagesSource, state: Mapping[str, Any], access: Access) -> None:
        super().__init__(access)
        self._source = source
        self._pairing = _pairing(self._source, state.get("partners", []))
        self._names: list[str] = state.get("names", [])
        self._classes: list[str] = state.get("classes", [])
        self._class_set = frozenset(self._classes)
        self._columns = ObjectColumns(self._source, self._classes)
        self._reads_heif = access.reads_heif

    def schema(self) -> pa.Schema:
        """The columns of the image and of the label. `image/filename` is written only on request."""
        return pa.schema([*IMAGE, *self._columns.fields(), FILENAME])

    def classes(self) -> dict[str, list[str]]:
        """The class names by number, including background."""
        return self._columns.class_names()

    def files(self, row: Row) -> list[File]:
        """The image and, for Voc and Yolo, its annotation."""
        return self._pairing.files(row, extra_of(row))

    def examine(self, row: Row, contents: Sequence[bytes]) -> tuple[Image, ImageObjects]:
        """The image and its objects, without objects of ignored classes. Raises BadSample if the image or its annotation is invalid."""
        extra = extra_of(row)
        refuse_bad(extra)
        header = image_headers.parse(contents[0], heif=self._reads_heif)
        annotation = _parse_annotation(self._source, extra, contents[1:], self._names)
        check_size(annotation, header)
        annotation = self._of_known_classes(annotation)
        if not annotation.objects and self._source.without_objects == "Bad":
            raise BadSample(f"the image has no object ({_OPTION}.withoutObjects: Bad)")
        boxes = relative_boxes(annotation, header, clip=self._source.outside_boxes == "Clip")
        return Image(row["path"], contents[0], header), ImageObjects(annotation.objects, boxes)

    def columns(self, samples: Sequence[tuple[Image, ImageObjects]]) -> dict[str, Array]:
        """The columns of the schema."""
        return image_columns([image for image, _ in samples]) | self._columns.arrays([objects for _, objects in samples])

    def _describe_classes(self) -> str:
        subset = self._source.classes_from
        return f"{_OPTION}.classes" if subset is None else f"the subset {subset!r} ({_OPTION}.classesFrom)"

    def _of_known_classes(self, annotation: Annotation) -> Annotation:
        unknown = [number for number, obj in enumerate(annotation.objects) if obj.name not in self._class_set]
        if not unknown:
            return annotation
        if self._source.unknown_classes == "Bad":
            first = annotation.objects[unknown[0]].name
            raise BadSample(
                f"object {unknown[0] + 1} of its annotation is of the class {first!r},"
                f" which {self._describe_classes()} doesn't have: {shown(self._classes)}"
            )
        return Annotation(
            [obj for obj in annotation.objects if obj.name in self._class_set], annotation.size, is_relative=annotation.is_relative
        )


def _pairing(source: AnnotatedImagesSource, folders: Sequence[str] = ()) -> Pairing:
    extension = _EXTENSIONS.get(source.format, "")
    return Pairing(Tree(source.images, source.extensions), Tree(source.annotations, [extension]), folders)


def _parse_annotation(
    source: AnnotatedImagesSource, extra: Mapping[str, Any], contents: Sequence[bytes], names: Sequence[str]
) -> Annotation:
    if source.format == "Coco":
        return coco.annotation_of(extra) if "objects" in extra else Annotation([])
    if not contents:
        return Annotation([])
    return voc.parse(contents[0], first_pixel=source.first_pixel) if source.format == "Voc" else yolo.parse(contents[0], names)


# --- planning -----------------------------------------------------------------------------------------------------


def _units(source: AnnotatedImagesSource, access: Access) -> Listing[Unit]:
    missing = UnmatchedFiles(_OPTION, "annotation", source.missing)
    state = yield from (_coco_units if source.format == "Coco" else _paired_units)(source, access, missing)
    warnings = [*state.pop("warnings", []), *missing.conclude()]
    return state | ({"warnings": warnings} if warnings else {})


def _paired_units(source: AnnotatedImagesSource, access: Access, missing: UnmatchedFiles) -> Listing[Unit]:
    state: dict[str, Any] = {}
    more: dict[str, str] = {}
    if source.format == "Yolo":
        state["names"] = yolo.class_names(access, source.class_names) if source.class_names else source.classes
        more = {"names": _digest(state["names"])}
    pairing = _pairing(source)
    ignored = IgnoredFiles()
    pairs = pairing.pairs(access, subset_from=source.subset_from, ignored=ignored)
    class_subsets: dict[str, list[str]] = {}
    if source.format == "Voc" and source.classes is None:
        pairs = _with_classes(pairs, access, source, class_subsets)
    for pair in pairs:
        if pair.image is None or pair.partner is None:
            if missing.takes(pair):
                is_bad = pair.image is None or source.missing == "BadRecord"
                yield pairing.unit(pair, reason=missing.reason(pair) if is_bad else "", **more)
        elif pair.partner.entry.size > LARGEST_ANNOTATION:
            yield pairing.unit(pair, reason=f"its annotation has more than {LARGEST_ANNOTATION >> 20} MiB")
        else:
            yield pairing.unit(pair, **more)
    return state | {
        "partners": pairing.folders,
        "ignored": ignored.count,
        "classes": source.classes or state.get("names") or _class_names(source, class_subsets),
        "warnings": _subset_warnings(class_subsets, training_subset=source.classes_from or "train"),
    }


def _with_classes(
    pairs: Iterator[Pair], access: Access, source: AnnotatedImagesSource, class_subsets: dict[str, list[str]]
) -> Iterator[Pair]:
    """Yields the pairs, and reads their annotations in a few threads.

    Adds each class that occurs in a valid annotation, with the subsets in which it occurs, to `class_subsets`.
    """
    pending: deque[tuple[Pair, Future[set[str]] | None]] = deque()
    subsets: dict[str, set[str]] = {}

    def note(pair: Pair, classes: Future[set[str]] | None) -> Pair:
        for name in classes.result() if classes else ():
            subsets.setdefault(name, set()).add(pair.present.subset)
            class_subsets[name] = sorted(subsets[name])
        return pair

    with ThreadPoolExecutor(_THREADS, thread_name_prefix="annotations") as threads:
        try:
            for pair in pairs:
                is_read = pair.image is not None and pair.partner is not None and pair.partner.entry.size <= LARGEST_ANNOTATION
                pending.append((pair, threads.submit(_classes_of, pair, access, source) if is_read else None))
                if len(pending) >= _AHEAD:
                    yield note(*pending.popleft())
            while pending:
                yield note(*pending.popleft())
        finally:
            for _, unread in pending:
                if unread is not None:
                    unread.cancel()


def _classes_of(pair: Pair, access: Access, source: AnnotatedImagesSource) -> set[str]:
    if pair.partner is None:
        return set()
    entry = pair.partner.entry
    content = read_whole_file(access.store(entry.uri), File(entry.uri, entry.size, entry.pin))
    try:
        return {obj.name for obj in voc.parse(content, first_pixel=source.first_pixel).objects}
    except BadSample:
        # The worker reports this sample as bad, with the reason.
        return set()


def _class_names(source: AnnotatedImagesSource, class_subsets: Mapping[str, Sequence[str]]) -> list[str]:
    """The classes found in any subset or, if `classesFrom` is set, in that subset. Raises BadSpec if that subset has no classes."""
    only_subset = source.classes_from
    classes = sorted(name for name, subsets in class_subsets.items() if only_subset is None or only_subset in subsets)
    if only_subset is not None and not classes:
        subsets_with_objects = sorted({subset for subsets in class_subsets.values() for subset in subsets})
        raise BadSpec(
            f"{_OPTION}.classesFrom: the subset {only_subset!r} has no objects; subsets with objects: {shown(subsets_with_objects) or 'none'}."
        )
    return classes


def _subset_warnings(class_subsets: Mapping[str, Sequence[str]], *, training_subset: str) -> list[str]:
    """Returns a warning for each class that a model can't learn because it doesn't occur in the training subset."""
    if not any(training_subset in subsets for subsets in class_subsets.values()):
        return []
    return [
        f"the class {name!r} is only in the subset {', '.join(subsets)}, not in {training_subset}"
        for name, subsets in sorted(class_subsets.items())
        if training_subset not in subsets
    ]


def _coco_units(source: AnnotatedImagesSource, access: Access, missing: UnmatchedFiles) -> Listing[Unit]:
    ignored = IgnoredFiles()
    classes: dict[str, None] = {}
    for root, (uri, annotations) in enumerate(zip(source.images, source.annotations, strict=True)):
        file = coco.CocoFile(access, annotations)
        classes.update(dict.fromkeys(file.categories))
        names = _digest(file.categories)
        images = images_below(access, [uri], extensions=source.extensions, recursive=True, subset_from=source.subset_from, ignored=ignored)
        # If the COCO file is in the images' folder, the listing of the images counts it as ignored. Undo that.
        place = annotations.removeprefix(f"{uri.rstrip('/')}/")
        within = place != annotations and not is_hidden(place) and extension_of(place) not in source.extensions
        ignored.count -= within
        for image in images:
            pair = Pair(replace(image, root=root), None)
            extra = file.take(image.path)
            if extra is not None and len(json.dumps(extra)) > LARGEST_ANNOTATION:
                yield unit_of(pair, {"bad": f"its objects have more than {LARGEST_ANNOTATION >> 20} MiB"})
            elif extra is not None:
                yield unit_of(pair, extra | {"names": names})
            elif missing.takes(pair):
                yield unit_of(pair, {"bad": missing.reason(pair)} if source.missing == "BadRecord" else {"names": names})
        for name in file.left():
            if source.missing == "BadRecord":
                entry = Entry(uri=annotations, size=0, pin="")
                missing_image = listed(root, name, entry, folders=name.split("/")[:-1], uri=uri, subset_from=source.subset_from)
                yield unit_of(Pair(None, missing_image), {"bad": f"the image {name} of the annotations is not there", "names": names})
            else:
                missing.add(f"{annotations}: {name}", is_image=False)
    return {"ignored": ignored.count, "classes": source.classes or list(classes)}


def _digest(names: Sequence[str]) -> str:
    """A digest of the class names. Each unit contains this digest, so that a change of the class names changes the digest of the inputs."""
    return hashlib.sha256("\0".join(names).encode()).hexdigest()[:12]
