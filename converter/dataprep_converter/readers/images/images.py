"""The source `images` reads image files. The files' bytes are unchanged, and only the image headers are parsed, never pixels.

Each file is a unit whose `extra` is the class (`image_extras.py`). `image_listing.py` and `image_lists.py` list the images,
`image_labels.py` determines their classes, and `files_ahead.py` reads them.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import islice
from typing import Any, ClassVar, Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from dataprep_api.spec import ImagesSource
from dataprep_api.spec.sources.images import ImageList
from dataprep_converter.core.errors import BadSample, BadSpec
from dataprep_converter.core.native import jpeg_sizes
from dataprep_converter.core.tensors import Array, binary, to_arrow
from dataprep_converter.images import image_headers
from dataprep_converter.images.image_headers import ImageHeader
from dataprep_converter.inputs.access import Access
from dataprep_converter.readers import Discovery, Listing
from dataprep_converter.readers.base.files_ahead import File, FilesReader, Room, Row, binaries
from dataprep_converter.readers.images.file_batches import images_of_batches
from dataprep_converter.readers.images.image_extras import Extras, bad_extra, reason_of
from dataprep_converter.readers.images.image_labels import Classes, checked, named, parent
from dataprep_converter.readers.images.image_listing import IgnoredFiles, folders_of_images
from dataprep_converter.readers.images.image_lists import ImagesOfList, ListedImage
from dataprep_converter.records.batch import INT96, SAMPLE, Batch, RejectedSample
from dataprep_converter.records.columns import NOT_BY_DEFAULT
from dataprep_converter.records.schemas import parse_schema, schema_text
from dataprep_converter.sampling.units import Files, Units

LABEL: Final = "image/class/label"
TEXT: Final = "image/class/text"
IMAGE: Final[Sequence["pa.Field[Any]"]] = (
    pa.field("image/encoded", pa.large_binary()),
    pa.field("image/format", pa.string()),
    pa.field("image/height", pa.int64()),
    pa.field("image/width", pa.int64()),
)
"""The image columns that all sources of images have."""
_BLOCK: Final = 4096
FILENAME: Final["pa.Field[Any]"] = pa.field("image/filename", pa.string(), metadata=NOT_BY_DEFAULT)


@dataclass(frozen=True, slots=True)
class Image:
    """An image that was read. `header` is None if the header was not parsed."""

    path: str
    content: bytes
    header: ImageHeader | None


def image_columns(images: Sequence[Image]) -> dict[str, Array]:
    """The columns of IMAGE and FILENAME. The columns that come from image headers are left out if the headers were not parsed."""
    headers = [image.header for image in images if image.header is not None]
    columns = {
        "image/encoded": binaries([image.content for image in images]),
        "image/filename": pa.array([image.path for image in images], pa.string()),
    }
    if len(headers) == len(images):
        columns["image/format"] = pa.array([header.format for header in headers], pa.string())
        columns["image/height"] = pa.array([header.height for header in headers], pa.int64())
        columns["image/width"] = pa.array([header.width for header in headers], pa.int64())
    return columns


class ImagesReader(FilesReader[tuple[Image, str]]):
    """See the module. The columns have the same names as in TensorFlow's image data sets."""

    default_label: ClassVar[str] = LABEL

    @staticmethod
    def discover(source: ImagesSource, access: Access) -> Discovery:
        """Lists the images. Raises NotFound for a URI without files, and BadSpec for an image without a class."""
        return Discovery(_units(source, access))

    def __init__(self, source: ImagesSource, state: Mapping[str, Any], access: Access) -> None:
        super().__init__(access)
        self._classes: list[str] | None = state.get("classes")
        self._numbers = {name: number for number, name in enumerate(self._classes or [])}
        self._extras = Extras(parse_schema(state["columns"]) if "columns" in state else None)
        self._has_label = source.label_from != "None"
        self._has_name = self._has_label and source.label_type == "Name"
        self._checks_headers = source.check == "Header"
        self._reads_heif = access.reads_heif

    def schema(self) -> pa.Schema:
        """The columns. `image/filename` is the path relative to the URI, and is written only on request."""
        fields = list(IMAGE if self._checks_headers else IMAGE[:1])
        if self._has_label:
            fields.append(pa.field(LABEL, pa.int64()))
        if self._has_name:
            fields.append(pa.field(TEXT, pa.string()))
        return pa.schema([*fields, *(self._extras.schema or ()), FILENAME])

    def classes(self) -> dict[str, list[str]]:
        """The class names, as found or as given in the spec. Empty if labels are numbers."""
        return {LABEL: self._classes} if self._has_name and self._classes is not None else {}

    def files(self, row: Row) -> Sequence[File]:
        """The image's file. If the planner found the image to be bad, nothing is read."""
        return super().files(row) if reason_of(row["extra"]) is None else []

    def examine(self, row: Row, contents: Sequence[bytes]) -> tuple[Image, str]:
        """The image and its extra. Raises BadSample for an invalid header, and for an image that the planner found to be bad."""
        reason = reason_of(row["extra"])
        if reason is not None:
            raise BadSample(reason)
        (content,) = contents
        return Image(row["path"], content, image_headers.parse(content, heif=self._reads_heif) if self._checks_headers else None), row[
            "extra"
        ]

    uses_room: ClassVar[bool] = True

    def columns_of_room(self, rows: Sequence[Row], room: Room, offsets: npt.NDArray[np.int64]) -> dict[str, Array] | None:
        """The columns of a batch of ordinary JPEGs, whose headers are parsed together. None if any image of the batch is bad or isn't an
        ordinary JPEG."""
        if len(offsets) != len(rows) + 1:
            return None
        columns = {"image/encoded": binary(room, offsets), "image/filename": pa.array([row["path"] for row in rows], pa.string())}
        if self._checks_headers:
            sizes = jpeg_sizes(room, offsets)
            if sizes is None or sizes.prod(axis=1).max(initial=0) > image_headers.MOST_PIXELS or not sizes.all():
                return None
            columns["image/format"] = pa.repeat("jpeg", len(rows))
            columns["image/height"], columns["image/width"] = (to_arrow(sizes[:, place]) for place in (0, 1))
        return columns | self._planned([row["extra"] for row in rows])

    def read_columns(self, units: Units, samples: Iterator[npt.NDArray[np.int64]], columns: Sequence[str]) -> Iterator[Batch]:
        """Does the same as `read`. If only classes, paths and the list's columns are needed, takes them from the plan and reads no
        files."""
        listed_columns = self._extras.schema.names if self._extras.schema is not None else []
        planned_columns = [name for name in columns if name in (LABEL, TEXT, FILENAME.name, *listed_columns)]
        if len(planned_columns) < len(columns):
            yield from self.read(units, samples)
            return
        schema = pa.schema([*(self.schema().field(name) for name in planned_columns), pa.field(SAMPLE, pa.int64())])
        for sample_numbers in samples:
            index, _ = units.locate(sample_numbers)
            numbered_rows = list(zip(sample_numbers.tolist(), units.rows(index, ["path", "extra"]), strict=True))
            reasons = {sample: reason for sample, row in numbered_rows if (reason := reason_of(row["extra"])) is not None}
            rows = [row for sample, row in numbered_rows if sample not in reasons]
            arrays = self._planned([row["extra"] for row in rows]) | {
                FILENAME.name: pa.array([row["path"] for row in rows], pa.string()),
                SAMPLE: pa.array([sample for sample, _ in numbered_rows if sample not in reasons], pa.int64()),
            }
            records = pa.RecordBatch.from_arrays([arrays[name] for name in schema.names], schema=schema)
            yield Batch(records=records, bad=[RejectedSample(sample, reason) for sample, reason in reasons.items()], bytes_in=0)

    def columns(self, samples: Sequence[tuple[Image, str]]) -> dict[str, Array]:
        """The columns of the schema."""
        return image_columns([image for image, _ in samples]) | self._planned([extra for _, extra in samples])

    def _planned(self, extras: Sequence[str]) -> dict[str, Array]:
        """The labels of good images, and the columns of the list."""
        labels, columns = self._extras.read(extras)
        return columns | self._labels(labels)

    def _labels(self, labels: Sequence[str]) -> dict[str, Array]:
        if self._has_name:
            return {LABEL: pa.array([self._numbers[label] for label in labels], pa.int64()), TEXT: pa.array(labels, pa.string())}
        return {LABEL: pa.array(map(int, labels), pa.int64())} if self._has_label else {}


def _units(source: ImagesSource, access: Access) -> Listing[Files]:
    classes = Classes(source.classes, option="source.images.classes", of=source.classes_from)
    state = yield from (_units_of_folders if source.listed is None else _units_of_list)(source, access, classes)
    if source.label_from != "None" and source.label_type == "Name":
        state["classes"] = classes.names()
    return state


def _units_of_folders(source: ImagesSource, access: Access, classes: Classes) -> Listing[Files]:
    ignored = IgnoredFiles()
    for files in _images_of_folders(source, access, ignored):
        yield replace(files, extras=checked(files.extras, files.subsets, files.uris, source, classes))
    return {"ignored": ignored.count}


def _images_of_folders(source: ImagesSource, access: Access, ignored: IgnoredFiles) -> Iterator[Files]:
    """Yields the images in the source's folders. The labels of these images are still unchecked text."""
    if source.label_from == "OriginalUri":
        yield from images_of_batches(
            access,
            source.uris or [],
            extensions=source.extensions,
            recursive=source.recursive,
            subset_from=source.subset_from,
            ignored=ignored,
        )
        return
    folders = folders_of_images(
        access,
        source.uris or [],
        extensions=source.extensions,
        recursive=source.recursive,
        subset_from=source.subset_from,
        ignored=ignored,
    )
    for images in folders:
        files, count = images.files, len(images.files.names)
        uris = files.uris
        if source.label_from == "ParentFolder":
            labels = [parent(images.folders, where=uris[0])] * count
        else:
            labels = named(files.names, uris, source.file_name) if source.file_name is not None else [""] * count
        yield Files(files.root, files.paths, uris, list(files.sizes), list(files.pins), [images.subset] * count, labels)


def _units_of_list(source: ImagesSource, access: Access, classes: Classes) -> Listing[Files]:
    assert source.listed is not None  # noqa: S101 - only called for sources with a list
    with ImagesOfList(access, source, source.listed) as listed:
        _refuse_names_of_images(listed.schema, source.listed)
        extras = Extras(listed.schema)
        images = listed.images()
        while block := list(islice(images, _BLOCK)):
            good = [image for image in block if not image.bad]
            uris, subsets = [image.file.entry.uri for image in good], [image.file.subset for image in good]
            labels = iter(checked(_labels_of_list(source, good), subsets, uris, source, classes))
            yield Files(
                root=0,
                paths=[image.file.path for image in block],
                uris=[image.file.entry.uri for image in block],
                sizes=[image.file.entry.size for image in block],
                pins=[image.file.entry.pin for image in block],
                subsets=[image.file.subset for image in block],
                extras=[bad_extra(image.bad) if image.bad else extras.of(next(labels), image.values) for image in block],
            )
        state: dict[str, Any] = {"columns": schema_text(listed.schema)} if listed.schema is not None else {}
        if listed.warnings:
            state["warnings"] = listed.warnings
        if listed.has_int96:
            state[INT96] = True
        return state | ({"ignored": listed.ignored.count} if source.listed.match != "Path" else {})


def _labels_of_list(source: ImagesSource, images: Sequence[ListedImage]) -> list[str]:
    """The labels of the images, as text that isn't checked yet."""
    if source.label_from == "List":
        return [image.label for image in images]
    if source.label_from == "ParentFolder":
        return [parent(image.file.folders, where=image.file.entry.uri) for image in images]
    if source.file_name is not None:
        names = [image.file.path.rpartition("/")[2] for image in images]
        return named(names, [image.file.entry.uri for image in images], source.file_name)
    return [""] * len(images)


def _refuse_names_of_images(schema: pa.Schema | None, listed: ImageList) -> None:
    taken = {field.name for field in IMAGE} | {LABEL, TEXT, FILENAME.name}
    for name in schema.names if schema is not None else ():
        if name in taken:
            raise BadSpec(f"{listed.uri}: every image already has a column named {name!r}; rename the list's column.")
