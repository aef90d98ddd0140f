"""Decoder for `webdataset`: groups the members of a tar file into samples, by key."""

import io
import json
from collections.abc import Iterable, Iterator
from functools import lru_cache
from typing import Any, Final

import numpy as np

from dataprep_api.dataset.report import Manifest
from dataprep_api.spec.formats.webdataset import WebdatasetOptions
from dataprep_converter.core.errors import BrokenRecord
from dataprep_converter.formats.archives.webdataset_encoder import BLOCK, RECORD, Member, members
from dataprep_converter.formats.flat_values import flat, narrowed
from dataprep_converter.formats.pieces import Pieces
from dataprep_converter.records.feature import FeatureSpec

_CHECKSUM: Final = slice(148, 156)
_EMPTY: Final = bytes(BLOCK)


class WebdatasetDecoder:
    """Decodes each record to a sample: `__key__`, and the content of each member, keyed by the member's extension."""

    def __init__(self, manifest: Manifest) -> None:
        options = WebdatasetOptions.model_validate(manifest.content["output"].get("webdataset", {}))
        features = [FeatureSpec(**{**feature, "shape": tuple(feature["shape"])}) for feature in manifest.features]
        self._key = options.key
        self._members = {member.feature.name: member for member in members(features, options)}

    def read(self, pieces: Iterable[bytes]) -> Iterator[tuple[int, dict[str, bytes]]]:
        """Yield the samples. All header checksums and all padding are checked.

        The members' contents have no checksums, so only the file's digest reveals a flipped bit in them.
        """
        sample_offset = 0
        sample: dict[str, bytes] = {}
        seen: set[int] = set()
        for offset, name, content in _members(pieces):
            folder, slash, last = name.rpartition(b"/")
            base, dot, extension = last.partition(b".")
            if not (base and dot and extension):
                raise BrokenRecord(f"the name {_quote(name)} doesn't consist of a key and an extension", offset=offset)
            key = folder + slash + base
            if sample and key != sample["__key__"]:
                yield sample_offset, sample
                sample = {}
            if not sample:
                if hash(key) in seen:
                    raise BrokenRecord(f"a second sample has the key {_quote(key)}", offset=offset)
                seen.add(hash(key))
                sample_offset, sample = offset, {"__key__": key}
            extension_text = extension.decode("utf-8", "surrogateescape")
            if extension_text in sample:
                raise BrokenRecord(f"the member {_quote(name)} occurs twice", offset=offset)
            sample[extension_text] = content
        if sample:
            yield sample_offset, sample

    def parse(self, record: dict[str, bytes]) -> dict[str, Any]:
        """Return the values, keyed by feature. A missing member becomes an empty list."""
        values: dict[str, Any] = {}
        for name, member in self._members.items():
            extension = next((candidate for candidate in member.extensions() if candidate in record), None)
            values[name] = [] if extension is None else _values(record[extension], member)
        if self._key is not None and self._key not in values:
            values[self._key] = [record["__key__"]]
        return values


def _values(content: bytes, member: Member) -> list[Any]:
    """Return a member's values as flat lists, like `Decoder.parse`. Raises BrokenRecord for content that the encoder can't have written."""
    try:
        match member.storage:
            case "bytes":
                return [content]
            case "text":
                return narrowed([float(content) if member.feature.kind == "float" else int(content)], member.feature.dtype)
            case "json":
                return narrowed(flat(json.loads(content), steps=member.feature.sequence), member.feature.dtype)
        end = 10 + int.from_bytes(content[8:10], "little")
        shape, dtype = _header(content[:end])
        array = np.frombuffer(content, dtype, offset=end).reshape(shape)
    except (ValueError, RecursionError) as exc:
        raise BrokenRecord(f"the member of {member.feature.name!r} isn't valid {member.storage}: {exc}", offset=0) from exc
    values: list[Any] = [step.reshape(-1).tolist() for step in array] if member.feature.sequence else array.reshape(-1).tolist()
    return values


@lru_cache(maxsize=1024)
def _header(header: bytes) -> tuple[tuple[int, ...], np.dtype[Any]]:
    """Return the shape and type of a .npy file. Cached, because most headers are equal, and parsing them is slow."""
    file = io.BytesIO(header)
    np.lib.format.read_magic(file)
    shape, _, dtype = np.lib.format.read_array_header_1_0(file)
    return shape, dtype


def _members(pieces: Iterable[bytes]) -> Iterator[tuple[int, bytes, bytes]]:
    """Yield (offset of the header, name, content) for every member, up to the end blocks. Only zeros are accepted after these blocks."""
    source = Pieces(pieces)
    while True:
        offset = source.offset
        header = source.take(BLOCK)
        if header == _EMPTY:
            break
        if len(header) < BLOCK:
            raise BrokenRecord(_no_end(len(header)), offset=offset)
        name, size = _parse_header(header, offset)
        content = source.take(size)
        padding = source.take(-size % BLOCK)
        if len(content) < size or len(padding) < -size % BLOCK:
            raise BrokenRecord(f"the member {_quote(name)} is truncated: {len(content)} of {size} bytes", offset=offset)
        if padding.strip(b"\0"):
            raise BrokenRecord(f"bytes other than zero after the member {_quote(name)}", offset=offset)
        yield offset, name, content
    while rest := source.take(RECORD):
        if rest.strip(b"\0"):
            raise BrokenRecord("bytes other than zero after the end", offset=offset)
    if source.offset - offset < 2 * BLOCK or source.offset % RECORD:
        raise BrokenRecord(_no_end(source.offset - offset), offset=offset)


def _no_end(size: int) -> str:
    return f"expected a member, or two empty blocks and padding to a multiple of {RECORD:,} bytes, got {size} bytes"


def _parse_header(header: bytes, offset: int) -> tuple[bytes, int]:
    """Return a member's name and size. Raises BrokenRecord for a header that the encoder can't have written."""
    numbers = [header[_CHECKSUM][:6], header[124:135]]
    if b"".join(numbers).translate(None, b"01234567"):
        raise BrokenRecord("not the header of a tar file", offset=offset)
    checksum, size = (int(number, 8) for number in numbers)
    if sum(header) - sum(header[_CHECKSUM]) + 8 * 32 != checksum:
        raise BrokenRecord("the checksum of a header is wrong", offset=offset)
    if header[257:265] != b"ustar\x0000" or header[156:157] != b"0":
        raise BrokenRecord("a header that isn't the USTAR header of a file", offset=offset)
    name, prefix = (header[first:last].partition(b"\0")[0] for first, last in ((0, 100), (345, 500)))
    return (prefix + b"/" + name if prefix else name), size


def _quote(name: bytes) -> str:
    return repr(name.decode(errors="replace"))
