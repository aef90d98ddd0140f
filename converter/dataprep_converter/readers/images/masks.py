"""The source `masks` reads images and their segmentation masks. The bytes of images and masks are unchanged, and only the headers are
parsed."""

from collections.abc import Mapping, Sequence
from typing import Any, ClassVar, Final, TypeAlias

import pyarrow as pa

from dataprep_api.spec.sources.masks import MasksSource
from dataprep_converter.core.errors import BadSample
from dataprep_converter.core.tensors import Array
from dataprep_converter.images import image_headers
from dataprep_converter.inputs.access import Access
from dataprep_converter.readers import Discovery, Listing
from dataprep_converter.readers.base.files_ahead import File, FilesReader, Row, binaries
from dataprep_converter.readers.images.image_listing import IgnoredFiles
from dataprep_converter.readers.images.images import FILENAME, IMAGE, Image, image_columns
from dataprep_converter.readers.images.pairs import Pairing, Tree, UnmatchedFiles, extra_of, refuse_bad
from dataprep_converter.sampling.units import Unit

MASK: Final = "image/segmentation/class/encoded"
MASK_FORMAT: Final = "image/segmentation/class/format"

_ImageAndMask: TypeAlias = tuple[Image, bytes, str]
"""An image, its mask and the mask's format."""


class MasksReader(FilesReader[_ImageAndMask]):
    """See the module. The columns have the same names as in TensorFlow's DeepLab."""

    default_label: ClassVar[str] = MASK

    @staticmethod
    def discover(source: MasksSource, access: Access) -> Discovery:
        """Lists images and masks. Raises NotFound for a URI without files, and for unpaired files that `missing` doesn't allow."""
        return Discovery(_units(source, access))

    def __init__(self, source: MasksSource, state: Mapping[str, Any], access: Access) -> None:
        super().__init__(access)
        self._pairing = _pairing(source, state.get("partners", []))
        self._reads_heif = access.reads_heif

    def schema(self) -> pa.Schema:
        """The columns. `image/filename` is the image's path relative to the URI, and is written only on request."""
        return pa.schema([*IMAGE, pa.field(MASK, pa.large_binary()), pa.field(MASK_FORMAT, pa.string()), FILENAME])

    def classes(self) -> dict[str, list[str]]:
        """An empty dict, because the classes of a mask are its pixel values."""
        return {}

    def files(self, row: Row) -> list[File]:
        """The files of the image and of its mask."""
        return self._pairing.files(row, extra_of(row))

    def examine(self, row: Row, contents: Sequence[bytes]) -> _ImageAndMask:
        """The image with its mask. Raises BadSample if the sizes in the headers of image and mask differ."""
        refuse_bad(extra_of(row))
        content, mask = contents
        header = image_headers.parse(content, heif=self._reads_heif)
        try:
            mask_header = image_headers.parse(mask, heif=self._reads_heif)
        except BadSample as exc:
            raise BadSample(f"its mask: {exc}") from exc
        if (header.height, header.width) != (mask_header.height, mask_header.width):
            raise BadSample(
                f"the image has {header.width:,} x {header.height:,} pixels, its mask {mask_header.width:,} x {mask_header.height:,}"
            )
        return Image(row["path"], content, header), mask, mask_header.format

    def columns(self, samples: Sequence[_ImageAndMask]) -> dict[str, Array]:
        """The columns of the schema."""
        return image_columns([image for image, _, _ in samples]) | {
            MASK: binaries([mask for _, mask, _ in samples]),
            MASK_FORMAT: pa.array([kind for _, _, kind in samples], pa.string()),
        }


def _pairing(source: MasksSource, folders: Sequence[str] = ()) -> Pairing:
    images = Tree(source.images, source.extensions, source.image_suffix)
    return Pairing(images, Tree(source.masks, source.mask_extensions, source.mask_suffix), folders)


def _units(source: MasksSource, access: Access) -> Listing[Unit]:
    pairing = _pairing(source)
    ignored = IgnoredFiles()
    missing = UnmatchedFiles("source.masks", "mask", source.missing)
    for pair in pairing.pairs(access, subset_from=source.subset_from, ignored=ignored):
        if pair.image is not None and pair.partner is not None:
            yield pairing.unit(pair)
        elif missing.takes(pair):
            yield pairing.unit(pair, reason=missing.reason(pair))
    warnings = missing.conclude()
    return {"partners": pairing.folders, "ignored": ignored.count} | ({"warnings": warnings} if warnings else {})
