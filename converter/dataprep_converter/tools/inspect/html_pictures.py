"""The contact sheet: a few images of each class as `data:` URIs, from encoded files or from uint8 tensors."""

import base64
import io
import itertools
import struct
import zlib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from dataprep_api.dataset.report import Manifest, ManifestFile
from dataprep_converter.dataset.output_folder import OutputFolder
from dataprep_converter.dataset.shard_table import plain_fields
from dataprep_converter.formats.registry import by_feature, decoder
from dataprep_converter.inputs.access import Access

_IMAGES_PER_CLASS: Final = 8
_CLASSES: Final = 24
_FILES: Final = 8
_RECORDS_PER_FILE: Final = 2000
_READ_BYTES: Final = 256 * 2**20
_MOST_EMBEDDED_BYTES: Final = 24 * 1024
"""Encoded images up to this size are embedded unchanged."""
_MOST_BYTES_WITHOUT_PILLOW: Final = 256 * 1024
_SIDE: Final = 96
_MOST_PIXELS: Final = 50_000_000
_MAGIC: Final[Mapping[bytes, str]] = {
    b"\xff\xd8\xff": "image/jpeg",
    b"\x89PNG\r\n\x1a\n": "image/png",
    b"GIF87a": "image/gif",
    b"GIF89a": "image/gif",
    b"BM": "image/bmp",
}


@dataclass
class ContactSheet:
    """Images by class, with the names of their feature and label."""

    feature: str
    label: str | None
    groups: dict[int | str | None, list[str]] = field(default_factory=dict)
    """Maps each class (a number, a string, or None if there is no label) to a list of `data:` URIs."""
    skipped: int = 0
    """Number of images that couldn't be converted to a thumbnail."""
    files: int = 0
    is_small: bool = False
    """Whether individual pixels should be visible."""


def contact_sheet(manifest: Manifest, folder: OutputFolder, access: Access) -> ContactSheet | None:
    """Returns images from the largest split, taken from the first records of some files. Returns None for a data set without images."""
    split = max(manifest.splits, key=lambda each: each.records, default=None)
    if split is None or any(feature.get("record") for feature in manifest.features):
        return None
    label = _label(manifest)
    classes = set(split.label_counts.get(label, {})) if label is not None else set()
    sheet: ContactSheet | None = None
    fields = plain_fields(manifest.files, "split", "records")
    for file in _files_to_read(manifest.files, [number for number, (name, count) in enumerate(fields) if name == split.name and count]):
        uri = folder.at(file.file)
        with access.store(uri).open(uri) as source:
            format_ = decoder(manifest)
            for _, record in itertools.islice(format_.read(source.stream()), _RECORDS_PER_FILE):
                values = by_feature(format_, record, manifest.features)
                if sheet is None:
                    feature = _image_feature(manifest, values)
                    if feature is None:
                        return None
                    sheet = ContactSheet(feature=feature, label=label, is_small=_is_small(manifest, feature))
                _add_image(sheet, values, manifest)
                if _is_full(sheet, classes):
                    break
        if sheet is not None:
            sheet.files += 1
            if _is_full(sheet, classes):
                break
    return sheet


def _files_to_read(files: Sequence[ManifestFile], numbers: Sequence[int]) -> Iterator[ManifestFile]:
    """Selects a few evenly spaced files from those with these numbers. Yields them until their total size would exceed a limit."""
    step = max(1, len(numbers) // _FILES)
    size = 0
    for place, number in enumerate(numbers[::step][:_FILES]):
        file = files[number]
        size += file.size
        if place and size > _READ_BYTES:
            return
        yield file


def _label(manifest: Manifest) -> str | None:
    labels = {name for split in manifest.splits for name in split.label_counts}
    return next((feature["name"] for feature in manifest.features if feature["name"] in labels), None)


def _is_full(sheet: ContactSheet, classes: set[str]) -> bool:
    kinds = {str(key) for key in sheet.groups} if sheet.label is not None else {"None"}
    enough = all(len(images) >= _IMAGES_PER_CLASS for images in sheet.groups.values())
    return enough and bool(sheet.groups) and (classes <= kinds or len(sheet.groups) >= _CLASSES)


def _image_feature(manifest: Manifest, values: Mapping[str, Any]) -> str | None:
    """Returns the feature that contains images: uint8 tensors with the shape of an image, or bytes that begin like an image file."""
    for feature in manifest.features:
        if feature["label"] or feature["sequence"] or feature["name"] not in values:
            continue
        if _is_tensor(feature) or (feature["dtype"] == "bytes" and _kind(_bytes(values[feature["name"]])) is not None):
            return str(feature["name"])
    return None


def _is_tensor(feature: Mapping[str, Any]) -> bool:
    shape = feature["shape"]
    is_picture = len(shape) == 2 or (len(shape) == 3 and shape[2] in (1, 3, 4))
    return feature["dtype"] == "uint8" and is_picture and min(shape[:2]) >= 4


def _is_small(manifest: Manifest, name: str) -> bool:
    feature = next(each for each in manifest.features if each["name"] == name)
    return _is_tensor(feature) and max(feature["shape"][:2]) <= _SIDE // 2


def _add_image(sheet: ContactSheet, values: Mapping[str, Any], manifest: Manifest) -> None:
    name = _class_of(sheet, values)
    images = sheet.groups.get(name, [])
    if len(images) >= _IMAGES_PER_CLASS or (name not in sheet.groups and len(sheet.groups) >= _CLASSES):
        return
    feature = next(each for each in manifest.features if each["name"] == sheet.feature)
    value = values.get(sheet.feature)
    uri = _tensor_uri(value, feature["shape"]) if _is_tensor(feature) else _file_uri(_bytes(value))
    if uri is None:
        sheet.skipped += 1
        return
    sheet.groups.setdefault(name, []).append(uri)


def _class_of(sheet: ContactSheet, values: Mapping[str, Any]) -> int | None:
    """Returns the record's class: a number, or the index of the 1 in a one-hot vector."""
    label = _flat(values.get(sheet.label)) if sheet.label is not None else []
    if not label or isinstance(label[0], bytes):
        return None
    return int(label[0]) if len(label) == 1 else int(np.argmax(label))


def _flat(value: Any) -> list[Any]:
    if value is None:
        return []
    return np.asarray(value).reshape(-1).tolist() if not isinstance(value, (bytes, str)) else [value]


def _bytes(value: Any) -> bytes:
    first = value[0] if isinstance(value, list) and value else value
    return first if isinstance(first, bytes) else b""


def _kind(data: bytes) -> str | None:
    if data[:4] == b"RIFF" and data[8:12] == b"WEBP":
        return "image/webp"
    return next((kind for magic, kind in _MAGIC.items() if data.startswith(magic)), None)


def _tensor_uri(value: Any, shape: Sequence[int]) -> str | None:
    data = _bytes(value)
    pixels = np.frombuffer(data, np.uint8) if data else np.asarray(_flat(value), np.uint8)
    if pixels.size != np.prod(shape):
        return None
    pixels = pixels.reshape(shape)
    step = max(1, max(shape[:2]) // _SIDE)
    return _data_uri("image/png", png(pixels[::step, ::step]))


def _file_uri(data: bytes) -> str | None:
    kind = _kind(data)
    if kind is None:
        return None
    if len(data) <= _MOST_EMBEDDED_BYTES:
        return _data_uri(kind, data)
    try:
        from PIL import Image
    except ModuleNotFoundError:
        return _data_uri(kind, data) if len(data) <= _MOST_BYTES_WITHOUT_PILLOW else None
    thumbnail = io.BytesIO()
    try:
        with Image.open(io.BytesIO(data)) as image:
            if image.width * image.height > _MOST_PIXELS:
                return None
            image.draft("RGB", (2 * _SIDE, 2 * _SIDE))
            image.thumbnail((2 * _SIDE, 2 * _SIDE))
            image.convert("RGB").save(thumbnail, "JPEG", quality=80)
    except (OSError, ValueError, SyntaxError, Image.DecompressionBombError):
        # Pillow raises these errors for a damaged image. The report leaves the damaged image out.
        return None
    return _data_uri("image/jpeg", thumbnail.getvalue())


def png(pixels: npt.NDArray[np.uint8]) -> bytes:
    """Encodes pixels of shape (height, width) or (height, width, 1, 3 or 4) as PNG."""
    height, width = pixels.shape[:2]
    channels = pixels.shape[2] if pixels.ndim == 3 else 1
    lines = np.concatenate((np.zeros((height, 1), np.uint8), pixels.reshape(height, width * channels)), axis=1)
    head = struct.pack(">IIBBBBB", width, height, 8, {1: 0, 3: 2, 4: 6}[channels], 0, 0, 0)
    parts = ((b"IHDR", head), (b"IDAT", zlib.compress(lines.tobytes(), 9)), (b"IEND", b""))
    return b"\x89PNG\r\n\x1a\n" + b"".join(
        struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data)) for kind, data in parts
    )


def _data_uri(kind: str, data: bytes) -> str:
    return f"data:{kind};base64,{base64.b64encode(data).decode()}"
