"""Encoder for WebDataset: tar files in which consecutive members with the same key form a sample. Each batch is encoded in one call.

    # A member:  header of 512 bytes (USTAR) | content | zeros up to a multiple of 512          The name is <key>.<extension>.
    # A header:  name 100 | mode 8 | uid 8 | gid 8 | size 12 | mtime 12 | checksum 8 | type | link 100 | "ustar\0" "00" | user 32 | group 32
    #            | device 16 | prefix 155 | zeros 12    (octal numbers; the checksum is the sum of all bytes, with spaces in its own field)
    # The end:   at least 1024 zeros, up to a multiple of 10240

The bytes equal those of the webdataset library's TarWriter with mtime=0: mode 0444, user and group `bigdata`. The members of a sample are
in the order of their extensions. Names are stored in USTAR fields. A name that doesn't fit is refused, because it would need a PAX header,
on which some readers fail.

Readers split a name at the first dot in the name's last path component. So a key has no dots in its last path component. Samples whose
members have the same extensions are encoded together, as a group. A batch can contain several groups, because a missing value has no member
and an image's extension depends on the image's type.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from dataprep_api.dataset.plan import Shard
from dataprep_api.spec import Output
from dataprep_api.spec.formats.webdataset import WebdatasetOptions
from dataprep_converter.core.arrow_types import is_text_or_bytes, without_dictionary
from dataprep_converter.core.errors import BadData, BadSpec
from dataprep_converter.core.native import Bytes, Piece, join
from dataprep_converter.core.tensors import Array, binary, binary_data, null_mask, pc
from dataprep_converter.formats.archives import payloads
from dataprep_converter.formats.encoder import SingleFile
from dataprep_converter.formats.tfrecord.contents import even_offsets, look_up
from dataprep_converter.records.feature import FeatureSpec

BLOCK: Final = 512
RECORD: Final = 10_240
"""tar's record size in bytes. The length of a tar file is a multiple of this size."""
SNIFFED: Final = "/encoded"
"""Features whose names end with this suffix hold image files. The extension of each image is detected from its first bytes."""
MAGICS: Final[Mapping[bytes, str]] = {
    b"\xff\xd8\xff": "jpg",
    b"\x89PNG": "png",
    b"GIF8": "gif",
    b"BM": "bmp",
    b"RIFF": "webp",
    b"II*\0": "tif",
    b"MM\0*": "tif",
}
_UNKNOWN: Final = "bin"
_NAME: Final = 100
_PREFIX: Final = 155
_TEMPLATE: Final = np.frombuffer(
    b"".join([
        bytes(_NAME), b"0000444\0", b"0000000\0", b"0000000\0", b"00000000000\0", b"00000000000\0", b" " * 8, b"0", bytes(100),
        b"ustar\x0000", b"bigdata".ljust(32, b"\0"), b"bigdata".ljust(32, b"\0"), bytes(16), bytes(_PREFIX), bytes(12),
    ]),
    np.uint8,
)  # fmt: skip
_SIZE: Final = slice(124, 135)
_CHECKSUM: Final = slice(148, 154)
_PREFIX_AT: Final = 345


@dataclass(frozen=True)
class Member:
    """Describes how one feature is stored."""

    feature: FeatureSpec
    extension: str
    is_image: bool = False
    """Whether the image's type, such as `jpg`, is appended to the extension."""

    def extension_of(self, kind: int) -> str:
        """Return the complete extension of a row of this kind (see `_kinds`)."""
        return ".".join(part for part in (self.extension, _EXTENSIONS[kind]) if part)

    def extensions(self) -> list[str]:
        """Return all extensions that a row can have."""
        return [self.extension_of(kind) for kind in (range(1, len(_EXTENSIONS)) if self.is_image else (0,))]

    @property
    def storage(self) -> str:
        """`npy`, `json`, `text` (numbers in decimal) or `bytes` (text and bytes, unchanged)."""
        last = self.extension.rpartition(".")[2]
        is_single = not self.feature.shape
        if self.feature.dtype == "bytes":
            return "bytes" if is_single else "json"
        return last if last in ("npy", "json") else "text" if is_single else "npy"

    def payload(self, column: Array) -> Array:
        """Return the content of each row's member."""
        match self.storage:
            case "bytes":
                return payloads.as_it_is(column)
            case "json":
                return payloads.as_json(column, name=self.feature.name)
            case "text":
                return payloads.text(column)
        return payloads.npy(column)


def members(features: Sequence[FeatureSpec], options: WebdatasetOptions) -> list[Member]:
    """Return the members of a sample.

    Raises BadSpec if an option names a feature that doesn't exist, or if an extension is used twice or can't store its feature.
    """
    by_name = {feature.name: feature for feature in features}
    extensions = options.extensions or {}
    for name in [*extensions, *([options.key] if options.key else [])]:
        if name not in by_name:
            raise BadSpec(f"output.webdataset: there is no feature {name!r}; the features are {', '.join(by_name)}.")
    if options.key and (by_name[options.key].shape or by_name[options.key].kind == "float"):
        raise BadSpec(f"output.webdataset.key: {options.key!r} isn't a feature of text or integers.")
    stored_features = [feature for feature in features if feature.name != options.key or feature.name in extensions]
    if not stored_features:
        raise BadSpec("webdataset needs at least one feature besides the key.")
    own = {feature.name: _own_extension(feature) for feature in stored_features}
    sample_members: list[Member] = []
    for feature in stored_features:
        if feature.name in extensions:
            sample_members.append(Member(feature, extensions[feature.name]))
            _check(sample_members[-1])
            continue
        alike = [other for other in stored_features if own[other.name] == own[feature.name] and other.name not in extensions]
        is_the_one = len(alike) == 1 or (feature.label and sum(other.label for other in alike) == 1)
        parts = [*([] if is_the_one else [_name_part(feature.name)]), *filter(None, [own[feature.name]])]
        sample_members.append(Member(feature, ".".join(parts), is_image=own[feature.name] == ""))
    owners: dict[str, str] = {}
    for member in sample_members:
        for extension in member.extensions():
            if extension in owners:
                raise BadSpec(
                    f"The features {owners[extension]!r} and {member.feature.name!r} would both have the extension {extension!r}; "
                    f"give one of them another extension in output.webdataset.extensions."
                )
            owners[extension] = member.feature.name
    return sample_members


def _own_extension(feature: FeatureSpec) -> str:
    """Return the extension for the feature's type.

    The extension is empty for images, because an image's extension depends on the image's type.
    """
    if feature.dtype == "bytes" and not feature.shape:
        if feature.text:
            return "txt"
        return "" if feature.name.endswith(SNIFFED) else _UNKNOWN
    if not feature.shape:
        return "json" if feature.kind == "float" else "cls"
    return "json" if feature.dtype == "bytes" or -1 in feature.shape else "npy"


def _check(member: Member) -> None:
    feature, last = member.feature, member.extension.rpartition(".")[2]
    if feature.shape and last not in ("json", "npy"):
        raise BadSpec(
            f"output.webdataset.extensions: {feature.name!r} has several values, so its extension must end with npy or json, not with {last}."
        )
    if last == "npy" and (feature.dtype == "bytes" or feature.shape.count(-1) > 1):
        raise BadSpec(f"output.webdataset.extensions: {feature.name!r} isn't a tensor of numbers, so it can't be stored as npy.")


def _name_part(name: str) -> str:
    """Return a feature's name as it is used in extensions: in lower case, because readers compare extensions in lower case."""
    return "".join(char if (char.isalnum() and char.isascii()) or char in "-_" else "_" for char in name.lower())


class WebdatasetEncoder(SingleFile):
    """Encodes one tar file (see the module's docstring). Between batches, the encoder holds only counts and the hashes of keys."""

    needs_a_value: ClassVar[bool] = True

    def __init__(self, output: Output, features: Sequence[FeatureSpec]) -> None:
        self._key = output.webdataset.key
        self._members = members(features, output.webdataset)
        self._shard = 0
        self._records = 0
        self._size = 0
        self._seen: set[int] = set()

    @staticmethod
    def extension(_output: Output) -> str:
        """Return `tar`."""
        return "tar"

    def begin(self, shard: Shard, *, seed: int) -> None:
        """Store the shard's number. If no feature provides the keys, they begin with this number."""
        del seed
        self._shard = shard.index

    @staticmethod
    def holds_null(output: Output, feature: FeatureSpec) -> bool:
        """Return True for every feature except the key. If a value is null, the sample has no member for it."""
        return feature.name != output.webdataset.key

    def encode(self, batch: pa.RecordBatch) -> bytes | bytearray | memoryview:
        """Return the members of all samples."""
        rows = batch.num_rows
        if not rows:
            return b""
        keys = self._keys(batch)
        kinds = np.stack([_kinds(member, batch.column(member.feature.name)) for member in self._members], axis=1)
        if np.all(kinds == kinds[0]):
            samples = self._samples(batch, keys, kinds[0])
        else:
            distinct_kinds, kind_numbers = np.unique(kinds, axis=0, return_inverse=True)
            groups = [np.flatnonzero(kind_numbers.reshape(-1) == number) for number in range(len(distinct_kinds))]
            parts = [self._samples(batch.take(at), keys.take(at), kind) for at, kind in zip(groups, distinct_kinds, strict=True)]
            samples = pa.concat_arrays(parts).take(np.argsort(np.concatenate(groups)))
        data, offsets = binary_data(samples)
        self._records += rows
        self._size += int(offsets[-1] - offsets[0])
        return memoryview(data[offsets[0] : offsets[-1]].data).toreadonly()

    def close(self) -> bytes:
        """Return two empty blocks, and zeros up to a multiple of tar's record size."""
        return bytes(2 * BLOCK + -(self._size + 2 * BLOCK) % RECORD)

    def _keys(self, batch: pa.RecordBatch) -> Array:
        """Return the key of each row, as large_binary."""
        if self._key is None:
            numbers = range(self._records, self._records + batch.num_rows)
            return pa.array([f"{self._shard:06d}{number:06d}".encode() for number in numbers], pa.large_binary())
        column = batch.column(self._key)
        if column.null_count:
            raise BadData(f"The feature {self._key!r} has no value in some records, so these records have no key.")
        is_written = is_text_or_bytes(without_dictionary(column.type))
        values: Any = payloads.as_it_is(column) if is_written else payloads.text(column)
        keys = [key_of(value) for value in values.to_pylist()]
        for key in keys:
            if hash(key) in self._seen:
                raise BadData(
                    f"The key {key.decode(errors='replace')!r} (feature {self._key!r}) occurs twice in a shard, but keys must be unique."
                )
            self._seen.add(hash(key))
        return pa.array(keys, pa.large_binary())

    def _samples(self, batch: pa.RecordBatch, keys: Array, kinds: npt.NDArray[np.int64]) -> Array:
        """Return the members of each row as one byte string. All rows have members of the same kinds."""
        present = [(member.extension_of(kind), member) for member, kind in zip(self._members, kinds.tolist(), strict=True) if kind >= 0]
        pieces: list[Piece] = []
        for extension, member in sorted(present, key=lambda item: item[0].encode()):
            content = member.payload(batch.column(member.feature.name))
            _, offsets = binary_data(content)
            sizes = np.diff(offsets)
            padding, _ = look_up(-sizes % BLOCK, bytes)
            pieces += [_headers(keys, extension.encode(), sizes), content, padding]
        if not pieces:
            raise BadData("A record has no value for any feature, but a webdataset sample needs at least one value.")
        return join(pieces, len(keys))


_EXTENSIONS: Final = ("", *dict.fromkeys(MAGICS.values()), _UNKNOWN)
"""The extensions of images. `_kinds` returns indexes into this tuple, where index 0 means the member's own extension."""


def _kinds(member: Member, column: Array) -> npt.NDArray[np.int64]:
    """For each row, return -1 if the row has no value, 0 for the member's own extension, or else the index of the image's extension."""
    kinds = np.zeros(len(column), np.int64)
    if member.is_image:
        content = payloads.as_it_is(column)
        kinds += len(_EXTENSIONS) - 1
        for magic, extension in MAGICS.items():
            begins = pc.starts_with(content, pattern=magic)
            kinds[pc.fill_null(begins, False).to_numpy(zero_copy_only=False)] = _EXTENSIONS.index(extension)
    if column.null_count:
        kinds[null_mask(column)] = -1
    return kinds


def key_of(value: bytes) -> bytes:
    """Convert a value to a key, which is a relative path. Dots in the last path component become underscores.

    Raises BadData if no path component is left.
    """
    parts = [part for part in value.split(b"/") if part not in (b"", b".", b"..")]
    if not parts or b"\0" in value:
        raise BadData(f"{value.decode(errors='replace')!r} can't be a sample's key: it isn't the name of a file.")
    return b"/".join([*parts[:-1], parts[-1].replace(b".", b"_")])


def _headers(keys: Array, extension: bytes, sizes: npt.NDArray[np.int64]) -> Array:
    """Return the header of each member `<key>.<extension>`."""
    headers = np.tile(_TEMPLATE, (len(sizes), 1))
    names: Any = join([keys, b"." + extension], len(keys))
    if np.diff(binary_data(names)[1]).max() > _NAME:
        split_names = [_split_name(name) for name in names.to_pylist()]
        _write_texts(headers[:, _PREFIX_AT : _PREFIX_AT + _PREFIX], pa.array([prefix for prefix, _ in split_names], pa.large_binary()))
        names = pa.array([name for _, name in split_names], pa.large_binary())
    _write_texts(headers[:, :_NAME], names)
    digits = sizes[:, None] >> np.arange(30, -1, -3)
    headers[:, _SIZE] = (digits & 7) + 48
    sums = headers.sum(axis=1, dtype=np.int64)
    headers[:, _CHECKSUM] = ((sums[:, None] >> np.arange(15, -1, -3)) & 7) + 48
    headers[:, _CHECKSUM.stop] = 0
    return binary(headers, even_offsets(*headers.shape))


def _write_texts(field: Bytes, texts: Array) -> None:
    """Write each row's text at the beginning of the row's field."""
    data, offsets = binary_data(texts)
    lengths = np.diff(offsets)
    field[np.arange(field.shape[1]) < lengths[:, None]] = data[offsets[0] : offsets[-1]]


def _split_name(name: bytes) -> tuple[bytes, bytes]:
    """Split a path into USTAR's prefix and name, at the first slash after which the name fits. Raises BadData if there is no such slash."""
    if len(name) <= _NAME:
        return b"", name
    for at in range(len(name)):
        if name[at : at + 1] == b"/" and at <= _PREFIX and len(name) - at - 1 <= _NAME:
            return name[:at], name[at + 1 :]
    raise BadData(
        f"The name {name.decode(errors='replace')!r} is too long for tar's USTAR headers,"
        f" which hold at most {_NAME} bytes for the name and {_PREFIX} bytes for the folders."
    )
