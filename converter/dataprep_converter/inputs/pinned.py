"""Opens pinned inputs, checks their pins and decompresses them. The readers interpret the bytes."""

import io
import itertools
from collections.abc import Iterator
from contextlib import closing, suppress

import numpy as np
import numpy.typing as npt

from dataprep_converter.core.closeable import Closeable, close_generator
from dataprep_converter.core.errors import BadData, BadSpec, InputChanged, NotFound
from dataprep_converter.inputs.compressions import BrokenStream, Compression, decompressed
from dataprep_converter.inputs.encodings import MARK_BYTES, UTF16, BrokenText, Encoding, from_utf16, marked_encoding
from dataprep_converter.runtime.prefetch import prefetched
from dataprep_converter.runtime.temporary import TemporaryFile
from dataprep_converter.stores import SMALL_PIECE, Entry, Input, Store, one_by_one, stream_ahead
from dataprep_converter.stores.mapped_file import MappedFile


def relative_path(root: str, uri: str) -> str:
    """Returns the path of `uri` relative to the folder `root`. Raises BadSpec if the name isn't UTF-8."""
    prefix = root.rstrip("/") + "/"
    path = uri.removeprefix(prefix)
    try:
        path.encode()
    except UnicodeEncodeError as exc:
        raise BadSpec(f"The name of {uri!r} is not UTF-8; rename the file or leave it out.", uri=None) from exc
    return path


def is_hidden(path: str) -> bool:
    """Returns whether a file is hidden, that is, whether its name or the name of a folder on its path begins with `_` or `.`.

    Hidden files aren't data.
    """
    return path.startswith(("_", ".")) or "/_" in path or "/." in path


def entry_of(store: Store, uri: str) -> Entry:
    """Returns the entry of the file at `uri`. Raises NotFound."""
    entry = store.stat(uri)
    if entry is None:
        raise NotFound(f"{uri} does not exist.", uri=uri)
    return entry


def open_pinned(store: Store, uri: str, pin: str) -> Input:
    """Opens the file at `uri`. Raises InputChanged, with the URI, if the file has changed since it was planned."""
    try:
        source = store.open(uri)
        now = source.pin or entry_of(store, uri).pin
    except NotFound as exc:
        raise InputChanged(f"{uri} was in the plan, but no longer exists.", uri=uri) from exc
    if now != pin:
        source.close()
        raise InputChanged(f"{uri} has changed since it was planned: {pin} then, {now} now. Plan again.", uri=uri)
    return source


def _first_alone(source: Input, first: int) -> Iterator[bytes]:
    """Yields all bytes of a file. The first `first` bytes are read with a separate request."""
    yield source.read_at(0, first)
    if first < source.size:
        yield from source.stream(first)


class ForwardReader(Closeable):
    """One pass over a file's decompressed contents.

    Bytes can be skipped. A read returns as many bytes as requested, or fewer at the end.
    """

    def __init__(
        self,
        source: Input,
        uri: str,
        *,
        compression: Compression | None,
        encoding: Encoding | None = None,
        obeys_mark: bool = False,
        offset: int = 0,
        length: int | None = None,
        ahead: bool = False,
        first: int | None = None,
    ) -> None:
        """Reads from `offset` to the end of the file, or `length` bytes over one connection.

        With `ahead`, the next pieces are read while the caller uses the current piece. This uses several connections if that is faster. If
        the complete file is read, `first` can be set: the first `first` bytes are then read with a separate request, so that they arrive
        sooner.

        The caller must read to the end, and then close this object. If `encoding` is UTF-16, the contents are converted to UTF-8. If
        `obeys_mark`, a byte order mark takes precedence over `encoding`.
        """
        self.compression = compression
        self._uri = uri
        self._count = 0
        if first is not None:
            raw = self._count_pieces(_first_alone(source, first))
        else:
            raw = self._count_pieces(stream_ahead(source, offset) if ahead and length is None else source.stream(offset, length))
        contents = iter(raw if compression is None else decompressed(raw, compression))
        self.encoding: Encoding = encoding or "Utf8"
        """The file's encoding. If a byte order mark can override the encoding, this value is final only after the first read."""
        pieces = contents if encoding is None else self._as_text(contents, obeys_mark=obeys_mark)
        self._pieces = prefetched(pieces, depth=1) if ahead else pieces
        self._piece = memoryview(b"")
        self.position = offset
        """The offset of the next byte in the contents."""

    def read(self, length: int, *, after: bytes = b"") -> bytes:
        """Returns `after`, followed by the next bytes of the decompressed contents: `length` bytes, or fewer at the end.

        Raises BadData, with the file's URI, if the file isn't a complete compressed stream, or isn't text in its encoding.
        """
        contents = io.BytesIO()
        contents.write(after)
        missing = length
        while missing and self._fill():
            part = self._piece[:missing]
            contents.write(part)
            self._piece = self._piece[len(part) :]
            missing -= len(part)
        self.position += length - missing
        # Don't join a list of parts: the parts and the result would be in memory at the same time.
        return contents.getvalue()

    def skip_to(self, position: int) -> None:
        """Skips bytes up to `position`, or to the end."""
        while self.position < position and self._fill():
            step = min(len(self._piece), position - self.position)
            self._piece = self._piece[step:]
            self.position += step

    def pieces(self) -> Iterator[bytes]:
        """Yields all remaining bytes, in pieces."""
        while self._fill():
            piece = bytes(self._piece)
            self._piece = memoryview(b"")
            self.position += len(piece)
            yield piece

    def close(self) -> None:
        """Stops reading."""
        close_generator(self._pieces)

    def take_count(self) -> int:
        """Returns the number of bytes read from the file since the last call."""
        count, self._count = self._count, 0
        return count

    def _fill(self) -> bool:
        try:
            while not len(self._piece):
                self._piece = memoryview(next(self._pieces))
        except StopIteration:
            return False
        except (BrokenStream, BrokenText) as exc:
            raise BadData(f"{self._uri}: {exc}.", uri=self._uri) from exc
        return True

    def _as_text(self, contents: Iterator[bytes], *, obeys_mark: bool) -> Iterator[bytes]:
        head = b""
        while obeys_mark and len(head) < MARK_BYTES and (piece := next(contents, None)) is not None:
            head += piece
        if obeys_mark:
            self.encoding = marked_encoding(head) or self.encoding
        pieces = itertools.chain([head], contents)
        yield from from_utf16(pieces, self.encoding) if self.encoding in UTF16 else pieces

    def _count_pieces(self, pieces: Iterator[bytes]) -> Iterator[bytes]:
        for piece in pieces:
            self._count += len(piece)
            yield piece


class InputCopy(Closeable):
    """A copy of a stream's contents in a temporary file, which can be read in any order."""

    def __init__(self, forward: ForwardReader) -> None:
        """Reads the stream to its end. Raises StoreFull."""
        self._mapping: MappedFile | None = None
        # Inflate and write in parallel, so that the copy takes only as long as inflating, which is slower than writing.
        with closing(prefetched(forward.pieces())) as pieces:
            self._file = TemporaryFile.of("a copy of an input", pieces)
        self.size = self._file.size

    def read_at(self, offset: int, length: int) -> bytes:
        """Returns `length` bytes from `offset`, or fewer if the contents end earlier."""
        return self._file.read_at(offset, length)

    def read_each(self, offsets: npt.NDArray[np.int64], length: int) -> bytes:
        """See `ReadsEach`."""
        if length <= SMALL_PIECE:
            with suppress(OSError):
                self._mapping = self._mapping or MappedFile(self._file.descriptor, self.size)
                data = self._mapping.read_each(offsets, length)
                if len(data) == len(offsets) * length:
                    return data
        return one_by_one(self, offsets, length)

    def close(self) -> None:
        """Removes the file."""
        if self._mapping is not None:
            self._mapping.close()
        self._file.close()
