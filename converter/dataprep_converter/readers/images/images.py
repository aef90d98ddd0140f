"""The source `images` reads image files. The files' bytes are unchanged, and only the image headers are parsed, never pixels.

Each file is a unit whose `extra` is the class. `image_listing.py` and `image_lists.py` list the images, `image_labels.py` determines their
classes, and `files_ahead.py` reads them.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import islice
from typing import Any, ClassVar, Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from dataprep_api.spec import ImagesSource
from dataprep_converter.core.native import jpeg_sizes
from dataprep_converter.core.tensors import Array, binary, to_arrow
from dataprep_converter.images import image_headers
from dataprep_converter.images.image_headers import ImageHeader
from dataprep_converter.inputs.access import Access
from dataprep_converter.readers import Discovery, Listing
from dataprep_converter.readers.base.files_ahead import FilesReader, Room, Row, binaries
from dataprep_converter.readers.images.file_batches import images_of_batches
from dataprep_converter.readers.images.image_labels import Classes, checked, named, parent
from dataprep_converter.readers.images.image_listing import IgnoredFiles, folders_of_images
from dataprep_converter.readers.images.image_lists import images_of
from dataprep_converter.records.batch import SAMPLE, Batch
from dataprep_converter.records.columns import NOT_BY_DEFAULT
from dataprep_converter.sampling.units import Files, UnitTable

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
    """An image that was read. `header` is None if it was not parsed."""

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
        self._has_label = source.label_from != "None"
        self._has_name = self._has_label and source.label_type == "Name"
        self._checks_headers = source.check == "Header"

    def schema(self) -> pa.Schema:
        """The columns. `image/filename` is the path relative to the URI, and is written only on request."""
        fields = list(IMAGE if self._checks_headers else IMAGE[:1])
        if self._has_label:
            fields.append(pa.field(LABEL, pa.int64()))
        if self._has_name:
            fields.append(pa.field(TEXT, pa.string()))
        return pa.schema([*fields, FILENAME])

    def classes(self) -> dict[str, list[str]]:
        """The class names, as found or as given in the spec. Empty if labels are numbers."""
        return {LABEL: self._classes} if self._has_name and self._classes is not None else {}

    def examine(self, row: Row, contents: Sequence[bytes]) -> tuple[Image, str]:
        """The image and its class. Raises BadSample for an invalid header."""
        (content,) = contents
        return Image(row["path"], content, image_headers.parse(content) if self._checks_headers else None), row["extra"]

    uses_room: ClassVar[bool] = True

    def columns_of_room(self, rows: Sequence[Row], room: Room, offsets: npt.NDArray[np.int64]) -> dict[str, Array] | None:
        """The columns of a batch of ordinary JPEGs, whose headers are parsed together. None if any image of the batch isn't an ordinary
        JPEG."""
        columns = {"image/encoded": binary(room, offsets), "image/filename": pa.array([row["path"] for row in rows], pa.string())}
        if self._checks_headers:
            sizes = jpeg_sizes(room, offsets)
            if sizes is None or sizes.prod(axis=1).max(initial=0) > image_headers.MOST_PIXELS or not sizes.all():
                return None
            columns["image/format"] = pa.repeat("jpeg", len(rows))
            columns["image/height"], columns["image/width"] = (to_arrow(sizes[:, place]) for place in (0, 1))
        return columns | self._labels([row["extra"] for row in rows])

    def read_columns(self, units: UnitTable, samples: Iterator[npt.NDArray[np.int64]], columns: Sequence[str]) -> Iterator[Batch]:
        """Like `read`, but if only classes and paths are needed, takes them from the plan without reading files."""
        planned_columns = [name for name in columns if name in (LABEL, TEXT, FILENAME.name)]
        if len(planned_columns) < len(columns):
            yield from self.read(units, samples)
            return
        schema = pa.schema([*(self.schema().field(name) for name in planned_columns), pa.field(SAMPLE, pa.int64())])
        for sample_numbers in samples:
            index, _ = units.locate(sample_numbers)
            rows = units.rows(index, ["path", "extra"])
            arrays = self._labels([row["extra"] for row in rows]) | {
                FILENAME.name: pa.array([row["path"] for row in rows], pa.string()),
                SAMPLE: pa.array(sample_numbers.tolist(), pa.int64()),
            }
            yield Batch(records=pa.RecordBatch.from_arrays([arrays[name] for name in schema.names], schema=schema), bad=[], bytes_in=0)

    def columns(self, samples: Sequence[tuple[Image, str]]) -> dict[str, Array]:
        """The columns of the schema."""
        return image_columns([image for image, _ in samples]) | self._labels([label for _, label in samples])

    def _labels(self, labels: Sequence[str]) -> dict[str, Array]:
        if self._has_name:
            return {LABEL: pa.array([self._numbers[label] for label in labels], pa.int64()), TEXT: pa.array(labels, pa.string())}
        return {LABEL: pa.array(map(int, labels), pa.int64())} if self._has_label else {}


def _units(source: ImagesSource, access: Access) -> Listing[Files]:
    ignored = IgnoredFiles()
    classes = Classes(source.classes, option="source.images.classes", of=source.classes_from)
    for files in _images_of_list(source, access) if source.listed is not None else _images_of_folders(source, access, ignored):
        yield replace(files, extras=checked(files.extras, files.subsets, files.uris, source, classes))
    state: dict[str, Any] = {} if source.listed is not None else {"ignored": ignored.count}
    if source.label_from != "None" and source.label_type == "Name":
        state["classes"] = classes.names()
    return state


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


def _images_of_list(source: ImagesSource, access: Access) -> Iterator[Files]:
    """Yields the images in the source's list. The labels of these images are still unchecked text."""
    assert source.listed is not None  # noqa: S101 - only called for sources with a list
    listed_images = images_of(access, source.listed, subset_from=source.subset_from)
    while block := list(islice(listed_images, _BLOCK)):
        images = [image for image, _ in block]
        uris = [image.entry.uri for image in images]
        if source.label_from == "List":
            labels = [label for _, label in block]
        elif source.label_from == "ParentFolder":
            labels = [parent(image.folders, where=image.entry.uri) for image in images]
        elif source.file_name is not None:
            labels = named([image.path.rpartition("/")[2] for image in images], uris, source.file_name)
        else:
            labels = [""] * len(images)
        yield Files(
            root=0,
            paths=[image.path for image in images],
            uris=uris,
            sizes=[image.entry.size for image in images],
            pins=[image.entry.pin for image in images],
            subsets=[image.subset for image in images],
            extras=labels,
        )
