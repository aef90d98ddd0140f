"""The source `sequenceFile` reads Hadoop's sequence files and map files, written by any program. Keys and values become columns.

The planner reads the lengths of the records (`sequence_frames.py`), and splits each file into units of complete records or blocks. The
planner also freezes the classes of keys and values. If a class doesn't determine the types of its objects, these types are determined from
the first records (`hadoop_columns.py`). In a map file, only the file `data` is read.
"""

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, ClassVar, Final

import pyarrow as pa

from dataprep_api.spec.sources.sequence_file import SequenceFileSource
from dataprep_converter.core.errors import BadData, BadSpec, ConvertError, InputChanged
from dataprep_converter.formats.tfrecord.frames import Stretch
from dataprep_converter.inputs.access import Access
from dataprep_converter.inputs.pinned import open_pinned
from dataprep_converter.readers import Discovery, Listing
from dataprep_converter.readers.base.blocks import Block, BlockReader
from dataprep_converter.readers.base.examined import Form as StoredForm
from dataprep_converter.readers.base.examined import ListedFile, collect, cost_of_file, examined, open_listed
from dataprep_converter.readers.base.listing import input_folders
from dataprep_converter.readers.hadoop.hadoop_columns import RECORD, SEQUENCE_RECORD, Form, Kind, form, kind
from dataprep_converter.readers.hadoop.sequence_frames import Cells, Header, pairs, stretches
from dataprep_converter.records.batch import Raw
from dataprep_converter.records.columns import NOT_BY_DEFAULT
from dataprep_converter.runtime.scans import Document
from dataprep_converter.sampling.units import Unit
from dataprep_converter.stores import Entry, Input, Store, scheme_of

KEY: Final = "key"
VALUE: Final = "value"

_UNIT_BYTES = 4 << 20
_PACKED_BYTES = 1 << 20
"""The size of a unit in a compressed file, in bytes. This size is smaller than _UNIT_BYTES, because the decompressed contents can be many
times larger than the compressed data."""
_WINDOW: Final = 64 << 10
"""The number of bytes that are read at a time to find lengths in a local file. The contents of larger records are skipped."""
_FAR_WINDOW: Final = 4 << 20
"""The number of bytes that are read at a time to find lengths in a remote file. Eight files are read at the same time."""
_SAMPLED_RECORDS: Final = 256
_BESIDE: Final = frozenset({"index", "bloom"})
"""The names of the files without records in the folder of a map file."""


class SequenceFileReader(BlockReader):
    """See the module. The columns are `key` and `value`, or the values in DL4J's records."""

    stored_form: ClassVar[int] = 1

    @staticmethod
    def discover(source: SequenceFileSource, access: Access) -> Discovery:
        """Reads the lengths of all records, and the first records. Raises NotFound for a URI without files, and BadSpec for classes or
        types that can't be read. For an invalid file, raises BadData, which names the file and the offset."""
        return Discovery(_Planner(source, access).units())

    def __init__(self, source: SequenceFileSource, state: Mapping[str, Any], access: Access) -> None:
        super().__init__(access)
        del source
        key, value = (_kind_from_state(state.get(name)) for name in (KEY, VALUE))
        self._forms: list[Form | None] = [form(key, KEY) if key else None, form(value, VALUE) if value else None]
        # The keys of DL4J's records are just record numbers, so by default they aren't written.
        self._is_numbered = value is not None and value.java in (RECORD, SEQUENCE_RECORD)

    def schema(self) -> pa.Schema:
        """The columns: text, bytes, numbers and lists, depending on the classes of keys and values."""
        key, value = ([] if converter is None else converter.fields() for converter in self._forms)
        if self._is_numbered:
            key = [pa.field(field.name, field.type, metadata=NOT_BY_DEFAULT) for field in key]
        return pa.schema([*key, *value])

    def load(self, unit: Unit, source: Input) -> Block:
        """Parses the unit. Raises BadData, which names the file and the offset, for an invalid or truncated record."""
        data = source.read_at(unit.offset, unit.size)
        if len(data) != unit.size:
            raise InputChanged(f"{unit.uri} shrank while it was being read.", uri=unit.uri)
        keys_and_values = pairs(data, _header_of(unit), unit.uri, unit.offset)
        columns: list[Any] = []
        reasons: dict[int, str] = {}
        for name, converter, cells in zip((KEY, VALUE), self._forms, keys_and_values, strict=True):
            if converter is not None:
                arrays, wrong = converter.columns(cells)
                columns += arrays
                reasons = {row: f"{name}: {reason}" for row, reason in wrong.items()} | reasons
        records = pa.RecordBatch.from_arrays(columns, schema=self.schema())
        block = Block.of(records, reasons)
        return Block(block.records, block.places, block.reasons, {row: Raw.of(keys_and_values[1][row]) for row in reasons})


@dataclass(frozen=True)
class _RecordFile:
    """The records of a file. They don't depend on any other file."""

    header: Header
    stretches: Sequence[Stretch]
    """Complete records or blocks."""
    kinds: Mapping[str, Any] | ConvertError | None
    """The kinds of the keys and values, if they may be needed.

    If the kinds can't be read, this field contains the error, which also ends the search.
    """
    fault: ConvertError | None = None
    """The error that ended the search. Raised as soon as the records that precede it have been used."""

    def to_document(self) -> Document | None:
        """Returns the records as JSON. The kinds are left out, because the planner needs the kinds of only one file. Returns None for a
        file with a fault."""
        if self.fault is not None:
            return None
        return {"header": self.header.to_json(), "stretches": [each.values() for each in self.stretches]}

    @staticmethod
    def from_document(document: Document) -> "_RecordFile":
        """Returns the records from which `to_document` made the JSON form."""
        return _RecordFile(Header.from_json(document["header"]), [Stretch(*values) for values in document["stretches"]], kinds=None)


class _Planner:
    """Lists the files of a source, splits them into units, and freezes the kinds of the keys and values."""

    def __init__(self, source: SequenceFileSource, access: Access) -> None:
        self._source = source
        self._access = access
        self._state: Mapping[str, Any] = {}

    def units(self) -> Listing[Unit]:
        """Yields the units in the order of the URIs and, for each URI, sorted by path."""
        first: tuple[str, Header] | None = None
        stored = StoredForm(cost_of_file, _RecordFile.to_document, _RecordFile.from_document)
        for file in examined(self._access, _listed(self._source, self._access), self._examine, form=stored):
            found = file.result
            first = first or (file.entry.uri, found.header)
            _check_classes(found.header, file.entry.uri, first)
            if not self._state and found.kinds is None and found.stretches:
                # Another process found the records, but didn't store their kinds.
                found = self._with_kinds(found, file.entry)
            if isinstance(found.kinds, ConvertError):
                if not self._state:
                    raise found.kinds
                # An earlier file has determined the kinds, so this error doesn't matter. But it has ended the search in this file, so
                # examine the file again.
                found = self._examine(self._access.store(file.entry.uri), file.entry)
            if not self._state and isinstance(found.kinds, Mapping):
                self._state = found.kinds
            for stretch in found.stretches:
                yield _unit(stretch, found.header, root=file.root, path=file.path, entry=file.entry)
            if found.fault is not None:
                raise found.fault
        return dict(self._state)

    def _examine(self, store: Store, entry: Entry) -> _RecordFile:
        """Finds the records of a file. Several threads may call this method. Raises BadData for an invalid header."""
        with open_listed(self._access, store, entry) as file:
            header = Header.read(file, entry.uri)

            def sample(first: Stretch) -> Mapping[str, Any] | ConvertError | None:
                return _sample(file, header, entry.uri, first) if not self._state and not self._access.only_scans else None

            return _RecordFile(header, *collect(_stretches(file, header, entry.uri), sample))

    def _with_kinds(self, found: _RecordFile, entry: Entry) -> _RecordFile:
        with open_pinned(self._access.store(entry.uri), entry.uri, entry.pin) as file:
            return replace(found, kinds=_sample(file, found.header, entry.uri, found.stretches[0]))


def _listed(source: SequenceFileSource, access: Access) -> Iterator[ListedFile]:
    """Yields the files that contain records. In the folder of a map file, the other files are left out."""
    for files in input_folders(access, source.uris):
        beside = _BESIDE if "data" in files.names else frozenset[str]()
        for name, path, uri, size, pin in zip(files.names, files.paths, files.uris, files.sizes, files.pins, strict=True):
            if name not in beside:
                yield files.root, path, Entry(uri, size, pin)


def _stretches(file: Input, header: Header, uri: str) -> Iterator[Stretch]:
    is_far = scheme_of(uri) not in ("", "file")
    most = _UNIT_BYTES if header.compression == "None" else _PACKED_BYTES
    return stretches(file, header, uri, window=_FAR_WINDOW if is_far else _WINDOW, most=most)


def _check_classes(header: Header, uri: str, first: tuple[str, Header]) -> None:
    beginning, other = first
    if (header.key, header.value) != (other.key, other.value):
        raise BadSpec(
            f"{uri} has keys of {header.key} and values of {header.value}, but {beginning} has keys of {other.key} and values of {other.value}; "
            "the files of a source must have the same classes.",
            uri=uri,
        )


def _sample(file: Input, header: Header, uri: str, stretch: Stretch) -> dict[str, Any] | ConvertError:
    """The kinds of the keys and values, determined from the first records. If these records can't be read, returns the error."""
    state: dict[str, Any] = {}
    data = file.read_at(stretch.offset, stretch.size)
    try:
        for name, java, cells in zip((KEY, VALUE), (header.key, header.value), pairs(data, header, uri, stretch.offset), strict=True):
            some = Cells(cells.data, cells.starts[:_SAMPLED_RECORDS], cells.ends[:_SAMPLED_RECORDS])
            sample_kind = kind(java, some, uri)
            state[name] = {"class": sample_kind.java, "of": list(sample_kind.of)}
    except (BadData, BadSpec) as exc:
        return exc
    return state


def _kind_from_state(state: Mapping[str, Any] | None) -> Kind | None:
    return Kind(state["class"], tuple(state["of"])) if state else None


def _unit(stretch: Stretch, header: Header, *, root: int, path: str, entry: Entry) -> Unit:
    framing = {"compression": header.compression, "codec": header.codec, "sync": header.sync.hex()}
    return stretch.unit(root, path, entry, extra=json.dumps(framing))


def _header_of(unit: Unit) -> Header:
    """The fields of the file's header that are needed to read the unit's framing. The other fields are empty."""
    framing = json.loads(unit.extra)
    return Header("", "", framing["compression"], framing["codec"], bytes.fromhex(framing["sync"]), 0)
