"""Decompress a stream piece by piece. A damaged stream is decompressed up to the fault."""

from collections.abc import Iterable, Iterator

from dataprep_converter.core.errors import BrokenRecord
from dataprep_converter.inputs import compressions
from dataprep_converter.inputs.compressions import BrokenStream


def decompressed(pieces: Iterable[bytes], compression: str) -> Iterator[bytes]:
    """Yield the decompressed pieces. Raises BrokenRecord at the first fault.

    `compression` is the manifest's value: `none`, `gzip` or `zstd`.
    """
    if compression == "none":
        yield from pieces
        return
    size = 0
    try:
        for piece in compressions.decompressed(pieces, "gzip" if compression == "gzip" else "zstd"):
            yield piece
            size += len(piece)
    except BrokenStream as exc:
        raise BrokenRecord(f"{exc}, after {size:,} bytes of records,", offset=size) from exc
