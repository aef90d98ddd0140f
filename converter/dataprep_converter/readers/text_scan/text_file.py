"""The planner's findings in a text file: the stretches of its records, which become units."""

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from types import MappingProxyType
from typing import Any

from dataprep_converter.core.errors import ConvertError
from dataprep_converter.inputs.compressions import Compression
from dataprep_converter.inputs.encodings import UTF16, Encoding
from dataprep_converter.inputs.pinned import ForwardReader
from dataprep_converter.readers.base.examined import collect
from dataprep_converter.readers.text.stretches import Scan, Stretch, cut
from dataprep_converter.sampling.units import Unit
from dataprep_converter.stores import Entry


@dataclass(frozen=True)
class TextFile:
    """The findings in a text file. They don't depend on any other file."""

    stretches: Sequence[Stretch]
    """The parts of the file that have records. A compressed or UTF-16 file has only one part, whose `size` isn't meaningful."""
    compression: Compression | None
    encoding: Encoding
    form: Mapping[str, Any] = field(default_factory=dict)
    """Added to each unit's `extra`."""
    names: Sequence[str] | None = None
    """The names in the file's header, or None if it has no header."""
    is_unlike_its_start: bool = False
    """Whether the file consists of lines, although it begins like a JSON array."""
    fault: ConvertError | None = None
    """The error that ended the search. Raised as soon as the stretches that precede it have been listed."""

    @property
    def is_whole(self) -> bool:
        """Whether the complete file is a single unit."""
        return self.compression is not None or self.encoding in UTF16

    def units(self, root: int, path: str, entry: Entry) -> Iterator[Unit]:
        """Yields the units of the file, in order. Then raises the file's fault, if there is one."""
        encoded = ({} if self.encoding == "Utf8" else {"encoding": self.encoding}) | dict(self.form)
        # Gzip has its own entry, because it used to be the only compression. Keep this entry, because the run ids of existing plans depend
        # on it.
        kind: dict[str, Any] = {"gzip": True} if self.compression == "gzip" else {"compression": self.compression}
        for stretch in self.stretches:
            if self.is_whole:
                extra = kind | {"start": stretch.offset, "line": stretch.line} | encoded
                yield Unit(
                    root=root, path=path, uri=entry.uri, records=stretch.records, size=entry.size, pin=entry.pin, extra=json.dumps(extra)
                )
            else:
                yield stretch.unit(root, path, entry, extra=json.dumps({"line": stretch.line} | encoded))
        if self.fault is not None:
            raise self.fault


def text_file(stretches: Iterable[Stretch], forward: ForwardReader, *, form: Mapping[str, Any] = MappingProxyType({})) -> TextFile:
    """Collects the stretches of a file, which `forward` reads. If the stretches end with an error, it is stored as the file's `fault`."""
    found, _, fault = collect(stretches)
    # The encoding is known only now, because a byte order mark can determine it.
    file = TextFile(found, forward.compression, forward.encoding, form, fault=fault)
    if not file.is_whole or not found:
        return file
    whole = [replace(found[0], records=sum(stretch.records for stretch in found))] if fault is None else []
    return replace(file, stretches=whole)


def examine_rest(forward: ForwardReader, first_bytes: bytes, *, line: int, scan: Scan, uri: str, limit: str) -> TextFile:
    """Finds the records in the rest of a file. The arguments are those of `cut`. An error of `cut` is stored as the file's `fault`."""
    return text_file((stretch for stretch, _ in cut(forward, first_bytes, line=line, scan=scan, uri=uri, limit=limit)), forward)
