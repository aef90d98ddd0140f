"""Lists the members of archives with their offsets.

This requires reading the directory of a zip file, all headers of a tar file, or the complete contents of a compressed tar file.

Harmful or ambiguous archives are refused with an error that names the archive and the member. An archive is refused if it contains links,
encrypted members, paths that lead out of the archive, or two members with the same name. An archive is also refused if its contents are far
too large for its size.
"""

import io
import tarfile
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final, TypeAlias

from dataprep_converter.core.errors import BadData
from dataprep_converter.inputs import zips
from dataprep_converter.inputs.compressions import MAGIC_BYTES, Compression, compression_of
from dataprep_converter.inputs.streamed import StreamInput, unpacked
from dataprep_converter.inputs.zips import Member
from dataprep_converter.stores import Input

KEPT_BYTES: Final = 40 << 20
"""For a compressed tar file, this many bytes before the current position are kept in memory.

Parallel readers stay within 32 MiB of each other, so they need no more.
"""
MOST_MEMBERS: Final = 2_000_000
LARGEST_RATIO: Final = 200
"""The maximum compression ratio of members larger than `UNSUSPECTED_BYTES`."""
UNSUSPECTED_BYTES: Final = 64 << 20
"""Members up to this size may have any compression ratio."""
UNSUSPECTED_TOTAL_BYTES: Final = 1 << 30
"""If the members of an archive have at most this many bytes in total, any compression ratio is allowed."""

_LARGEST_HEADER: Final = 16 << 20
_BUFFER: Final = 1 << 20
_BLOCK: Final = 512


@dataclass(frozen=True, slots=True)
class TarMember:
    """A file in a tar file, with its offset in the (uncompressed) tar file."""

    name: str
    offset: int
    size: int


Place: TypeAlias = Member | TarMember


@dataclass(frozen=True)
class Index:
    """The files of an archive."""

    files: Mapping[str, Place]
    """Maps each member's path to its place in the archive. The paths are sorted by their bytes."""
    contents: tuple[int, Compression] | None
    """The size in bytes of the uncompressed tar file, and the compression. None for an archive that isn't compressed as a whole."""


def index_of(source: Input, uri: str) -> Index:
    """Returns the files of an archive. Detects the archive's kind by its content. Raises BadData."""
    start = source.read_at(0, MAGIC_BYTES)
    if start.startswith(zips.MAGIC):
        return Index(_by_path(_zip_members(source, uri), uri), None)
    compression = compression_of(start)
    if compression is None:
        return Index(_by_path(_tar_members(source, uri), uri), None)
    with unpacked(source, uri, compression=compression, size=-1, kept_bytes=_BUFFER) as contents:
        measured = _BoundedInput(contents, source.size, uri)
        files = _by_path(_tar_members(measured, uri), uri)
        return Index(files, (measured.rest(), compression))


def _by_path(members: Iterator[Place], uri: str) -> dict[str, Place]:
    by_path: dict[str, Place] = {}
    for member in members:
        path = _path(member.name, uri)
        if path in by_path:
            raise BadData(f"{uri} has two members {path!r}.", uri=uri)
        by_path[path] = member
        if len(by_path) > MOST_MEMBERS:
            raise BadData(f"{uri} has more than {MOST_MEMBERS:,} members.", uri=uri)
    return dict(sorted(by_path.items(), key=lambda item: item[0].encode("utf-8", "surrogateescape")))


def _path(name: str, uri: str) -> str:
    parts = [part for part in name.split("/") if part not in ("", ".")]
    if name.startswith("/") or ".." in parts or not parts:
        raise BadData(f"{uri}: the member {name!r} lies outside the archive.", uri=uri)
    return "/".join(parts)


def _zip_members(source: Input, uri: str) -> Iterator[Member]:
    total = 0
    for member in zips.members(source, uri):
        if member.size > UNSUSPECTED_BYTES and member.size > LARGEST_RATIO * member.stored:
            raise BadData(
                f"{uri}: the member {member.name!r} would expand from {member.stored:,} to {member.size:,} bytes, "
                f"more than the allowed factor of {LARGEST_RATIO}.",
                uri=uri,
            )
        total += member.size
        yield member
    _check_total(total, source.size, uri)


def _check_total(total: int, size: int, uri: str) -> None:
    if total > UNSUSPECTED_TOTAL_BYTES and total > LARGEST_RATIO * size:
        raise BadData(
            f"{uri}: its members would expand from {size:,} to {total:,} bytes, more than the allowed factor of {LARGEST_RATIO}.",
            uri=uri,
        )


def _tar_members(source: "Input | _BoundedInput", uri: str) -> Iterator[TarMember]:
    file: Any = io.BufferedReader(_File(source, uri), _BUFFER)
    try:
        archive: Any
        with tarfile.open(fileobj=file, mode="r:") as archive:
            while (info := archive.next()) is not None:
                # Clear `members`, because tarfile would otherwise keep every member in memory.
                archive.members = []
                if info.isdir():
                    continue
                _check(info, uri)
                yield TarMember(info.name, info.offset_data, info.size)
            file.seek(archive.offset)
            if file.read(_BLOCK).strip(b"\0"):
                raise BadData(f"{uri}: there is no valid member header at offset {archive.offset}.", uri=uri)
    except (tarfile.TarError, ValueError, OverflowError, EOFError) as exc:
        raise BadData(f"{uri} is not a complete tar file: {exc}.", uri=uri) from exc


def _check(info: tarfile.TarInfo, uri: str) -> None:
    if info.issym() or info.islnk():
        raise BadData(f"{uri}: the member {info.name!r} is a link.", uri=uri)
    if not info.isreg() or info.issparse():
        raise BadData(f"{uri}: the member {info.name!r} isn't a regular file.", uri=uri)


class _BoundedInput:
    """Reads the contents of a compressed file forward. Raises BadData if the contents are far too large for the file's size."""

    def __init__(self, contents: StreamInput, size: int, uri: str) -> None:
        self._contents = contents
        self._size = size
        self._uri = uri
        self._end = 0

    def read_at(self, offset: int, length: int) -> bytes:
        data = self._contents.read_at(offset, length)
        self._end = max(self._end, offset + len(data))
        _check_total(self._end, self._size, self._uri)
        return data

    def rest(self) -> int:
        """Reads to the end, where the checksum is, and returns the size of the contents."""
        while self.read_at(self._end, _BUFFER):
            pass
        return self._end


class _File(io.RawIOBase):
    """A file object over an input with ranged reads. A read that returns no bytes means the end of the input."""

    def __init__(self, source: "Input | _BoundedInput", uri: str) -> None:
        super().__init__()
        self._source = source
        self._uri = uri
        self._position = 0

    def readable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return True

    def seek(self, offset: int, whence: int = io.SEEK_SET) -> int:
        self._position = offset if whence == io.SEEK_SET else self._position + offset
        return self._position

    def tell(self) -> int:
        return self._position

    def readinto(self, buffer: Any) -> int:
        if len(buffer) > _LARGEST_HEADER:
            raise BadData(
                f"{self._uri}: a header at offset {self._position} claims to have {len(buffer):,} bytes; "
                f"at most {_LARGEST_HEADER:,} are allowed.",
                uri=self._uri,
            )
        data = self._source.read_at(self._position, len(buffer))
        buffer[: len(data)] = data
        self._position += len(data)
        return len(data)
