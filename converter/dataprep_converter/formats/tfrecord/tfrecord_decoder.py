"""Decoder for `tfrecord`. See `records.py` for the framing and the messages."""

from collections.abc import Iterable, Iterator
from typing import Any

from dataprep_api.dataset.report import Manifest
from dataprep_converter.formats.decoder import VerifiedRecords
from dataprep_converter.formats.tfrecord import records


class TfrecordDecoder:
    """Decodes each record to its serialised message."""

    def __init__(self, manifest: Manifest) -> None:
        self._compression = manifest.compression

    def read(self, pieces: Iterable[bytes]) -> Iterator[tuple[int, bytes]]:
        """Yield the records. Both CRCs of every record are checked."""
        return records.read(pieces, compression=self._compression)

    def blocks(self, pieces: Iterable[bytes]) -> Iterator[VerifiedRecords]:
        """Yield the same records as `read`, but yield all records of a piece together."""
        return records.blocks(pieces, compression=self._compression)

    def parse(self, record: bytes) -> dict[str, Any]:
        """Return the features of the message."""
        return records.parse_example(record)
