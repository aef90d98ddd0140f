"""Decoders: the bytes of a shard back into records, for `verify` and `inspect`. One file per format."""

from collections.abc import Iterable, Iterator, Mapping
from importlib import import_module
from typing import Any, Final, Protocol

from dataprep_api.report import Manifest
from dataprep_converter.errors import BadSpec, NotWhole

DECODERS: Final[Mapping[str, str]] = {
    "tfrecord": "dataprep_converter.decoders.tfrecord:TfrecordDecoder",
    "recordioProtobuf": "dataprep_converter.decoders.recordio:RecordioDecoder",
}
"""`output.format` → class. Every format of ENCODERS has its line here."""


class BrokenRecord(NotWhole):
    """The first fault of a file. Offsets are those of the uncompressed records."""

    def __init__(self, fault: str, *, offset: int) -> None:
        super().__init__(f"{fault} at offset {offset}")
        self.fault = fault
        self.offset = offset


class Decoder(Protocol):
    """Reads what the encoder of the same format wrote, and trusts nothing that a file says."""

    def __init__(self, manifest: Manifest) -> None:
        """`manifest` has the compression, the features and the format's options (`content["output"]`)."""
        ...

    def read(self, pieces: Iterable[bytes]) -> Iterator[tuple[int, Any]]:
        """(offset, record as the format holds it) of every record of the file that `pieces` make up: all of them are taken.

        Raises BrokenRecord at the first fault, after all good records before it.
        """
        ...

    def parse(self, record: Any) -> dict[str, Any]:
        """The values of one such record by feature: lists of ints, floats or bytes, flat; a list of such lists for a sequence."""
        ...


def decoder(manifest: Manifest) -> Decoder:
    """The decoder for a data set. Raises BadSpec naming the known formats."""
    if manifest.format not in DECODERS:
        raise BadSpec(f"No format named {manifest.format!r}; known: {', '.join(sorted(DECODERS))}.")
    module, _, name = DECODERS[manifest.format].partition(":")
    found: type[Decoder] = getattr(import_module(module), name)
    return found(manifest)
