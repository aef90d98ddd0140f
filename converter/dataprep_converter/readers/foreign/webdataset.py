"""The source `webdataset` reads tar files in WebDataset's layout, written by any program.

The planner reads the headers of all members (`inputs/archive_index.py`), groups the members into samples as the library `webdataset` does,
and freezes the columns. A unit consists of consecutive samples of a tar file, about 4 MiB in total. Workers read a complete unit in a
single read and parse its headers again. The units of a compressed tar file are parts of its uncompressed contents (`streamed.py`).
"""

import io
import json
import re
import tarfile
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field
from functools import partial
from typing import Any, ClassVar, Final

import pyarrow as pa

from dataprep_api.spec.sources.webdataset import WebdatasetSource
from dataprep_converter.core.errors import BadData, BadSample, BadSpec, InputChanged
from dataprep_converter.core.lru import LruCache
from dataprep_converter.inputs.access import Access
from dataprep_converter.inputs.archive_index import TarMember, index_of
from dataprep_converter.inputs.compressions import Compression, without_suffix
from dataprep_converter.inputs.pinned import open_pinned
from dataprep_converter.inputs.streamed import StreamInput, unpacked
from dataprep_converter.readers import Discovery, Listing
from dataprep_converter.readers.base.blocks import Block, BlockReader
from dataprep_converter.readers.base.examined import FilePart, Form, ListedFile, cost_of_file, examined_parts, open_listed
from dataprep_converter.readers.base.listing import input_files
from dataprep_converter.readers.foreign.values import (
    ForeignColumn,
    array_of_npy,
    check_names,
    checked_array,
    form_of_arrays,
    text_of,
    whole_number,
)
from dataprep_converter.records.columns import NOT_BY_DEFAULT, similar
from dataprep_converter.runtime.scans import Document
from dataprep_converter.sampling.units import Unit
from dataprep_converter.stores import Entry, Input, Store

KEY: Final = "__key__"

_UNIT_BYTES = 4 << 20
_BLOCK: Final = 512
_SAMPLED: Final = 16
"""The number of members from which the form of a column is determined."""
_OF: Final = "source.webdataset"
# webdataset's own rules: the key ends at the first dot of the file's name, and names that begin and end with two underscores are metadata.
NAME: Final = re.compile(r"((?:.*/|)[^.]+)[.]([^/]*)", re.DOTALL)
_METADATA: Final = re.compile(r"__[^/]*__($|/)")
_NUMBERS: Final = frozenset({"cls", "cls2", "class", "count", "index", "inx", "id"})
_TEXTS: Final = frozenset({"txt", "text", "transcript", "json", "jsn"})


@dataclass
class _Sample:
    """The members of a sample, by extension."""

    key: str
    start: int
    """The offset of the first header."""
    end: int = 0
    members: dict[str, TarMember] = field(default_factory=dict)


class WebdatasetReader(BlockReader):
    """See the module. The columns are the extensions, and `__key__`."""

    default_label: ClassVar[str] = "cls"
    stored_form: ClassVar[int] = 1

    @staticmethod
    def discover(source: WebdatasetSource, access: Access) -> Discovery:
        """Reads the headers of all members. Raises NotFound for a URI without files, and BadSpec for a column that no member has. Raises
        BadData for a file that isn't a tar file, and for a sample that has an extension twice."""
        return Discovery(_Planner(source, access).units())

    def __init__(self, source: WebdatasetSource, state: Mapping[str, Any], access: Access) -> None:
        super().__init__(access)
        del source
        self._columns = [ForeignColumn.of(column) for column in state.get("columns", [])]
        self._keep_nulls = access.keeps_nulls
        self._contents: LruCache[str, StreamInput] = self._files.views(close=StreamInput.close)

    def schema(self) -> pa.Schema:
        """The columns: bytes, text, int64, and tensors or lists for .npy members. `__key__` is written only on request."""
        columns = [pa.field(column.name, column.type()) for column in self._columns]
        return pa.schema([*columns, pa.field(KEY, pa.string(), metadata=NOT_BY_DEFAULT)])

    def load(self, unit: Unit, source: Input) -> Block:
        """Parses the samples of a unit."""
        extra = json.loads(unit.extra) if unit.extra else {}
        size = extra.get("bytes", unit.size)
        if extra:
            compression: Compression = extra["compression"]
            source = self._contents.get(unit.uri, partial(unpacked, source, unit.uri, compression=compression, size=extra["contents"]))
        data = source.read_at(unit.offset, size)
        if len(data) != size:
            raise InputChanged(f"{unit.uri} shrank while it was being read.", uri=unit.uri)
        rows: list[list[Any]] = []
        reasons: dict[int, str] = {}
        samples = list(_samples(_members(data, unit), unit.uri))
        for number, sample in enumerate(samples):
            try:
                rows.append([*(self._value(data, sample, column) for column in self._columns), _readable(sample.key)])
            except BadSample as exc:
                reasons[number] = str(exc)
        values = list(zip(*rows, strict=True)) if rows else [()] * (len(self._columns) + 1)
        arrays = [column.array(each) for column, each in zip(self._columns, values[:-1], strict=True)]
        keys: Any = pa.array(list(values[-1]), pa.string())
        return Block.of(pa.RecordBatch.from_arrays([*arrays, keys], schema=self.schema()), reasons, missing=list(reasons))

    def _value(self, data: bytes, sample: _Sample, column: ForeignColumn) -> Any:
        member = sample.members.get(column.name)
        if member is None:
            if not self._keep_nulls:
                raise BadSample(f"{_readable(sample.key)} has no member with the extension {column.name!r}")
            return None
        content = data[member.offset : member.offset + member.size]
        try:
            return _parse(content, column)
        except BadSample as exc:
            raise BadSample(f"the member {member.name!r}: {exc}") from exc


def _parse(content: bytes, column: ForeignColumn) -> Any:
    if column.form == "Bytes":
        return content
    if column.form == "Text":
        return text_of(content)
    if column.form == "Number":
        return whole_number(content)
    return checked_array(array_of_npy(content), column)


def _members(data: bytes, unit: Unit) -> Iterator[TarMember]:
    """The members in a part of a tar file, with offsets within this part."""
    archive: Any
    try:
        with tarfile.open(fileobj=io.BytesIO(data), mode="r:") as archive:
            while (info := archive.next()) is not None:
                archive.members = []
                if not info.isdir():
                    yield TarMember(info.name, info.offset_data, info.size)
    except (tarfile.TarError, ValueError, OverflowError, EOFError) as exc:
        raise InputChanged(
            f"{unit.uri}, offset {unit.offset:,}: the members differ from the plan: {exc}. Plan again.", uri=unit.uri
        ) from exc


def _samples(members: Iterable[TarMember], uri: str) -> Iterator[_Sample]:
    """Groups consecutive members with the same key. Raises BadData if a sample has two members with the same extension."""
    sample: _Sample | None = None
    end = 0
    for member in members:
        start, end = end, member.offset + -(-member.size // _BLOCK) * _BLOCK
        match = NAME.fullmatch(member.name)
        if match is None or not match[2] or _METADATA.match(member.name):
            continue
        key, extension = match[1], _readable(match[2].lower())
        if sample is not None and sample.key != key:
            yield sample
            sample = None
        sample = sample or _Sample(key, start)
        if extension in sample.members:
            raise BadData(f"{uri}: the sample {_readable(key)!r} has two members with the extension {extension!r}.", uri=uri)
        sample.members[extension] = member
        sample.end = end
    if sample is not None:
        yield sample


def _readable(name: str) -> str:
    """The name, with bytes that aren't valid UTF-8 replaced. tarfile keeps such bytes as surrogates, which no record can hold."""
    return name.encode("utf-8", "surrogateescape").decode("utf-8", "replace")


# --- planning -----------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class _TarFile:
    """The samples of a tar file. They don't depend on any other file."""

    groups: Sequence[tuple[int, int, int]]
    """For each unit, the number of samples, and the offsets of its start and end in the uncompressed file."""
    first: Mapping[str, Sequence[tuple[int, int]]]
    """For each extension, the offsets and sizes of the first members. The form of the column may be determined from these members."""
    contents: int | None = None
    """The size of the uncompressed file, or None if the file isn't compressed."""
    compression: Compression | None = None

    @contextmanager
    def opened(self, file: Input, uri: str) -> Iterator[Input]:
        """The uncompressed contents."""
        if self.contents is None or self.compression is None:
            yield file
            return
        with unpacked(file, uri, compression=self.compression, size=self.contents) as contents:
            yield contents

    def units(self, root: int, path: str, entry: Entry) -> Iterator[Unit]:
        """Yields the units of the file."""
        row = 0
        for records, start, stop in self.groups:
            extra, share = "", stop - start
            if self.contents is not None:
                extra = json.dumps({"bytes": stop - start, "contents": self.contents, "compression": self.compression})
                # Divide the compressed file's size among the units, so that the units' sizes add up to it.
                end = self.groups[-1][2]
                share = entry.size * stop // end - entry.size * start // end
            yield Unit(root, path, entry.uri, records, share, entry.pin, offset=start, row=row, extra=extra)
            row += records

    @staticmethod
    def from_document(document: Document) -> "_TarFile":
        """Returns the object from which `asdict` made the JSON form."""
        return _TarFile(**document)


class _Planner:
    """Lists the tar files of a source, divides them into units, and freezes the columns."""

    def __init__(self, source: WebdatasetSource, access: Access) -> None:
        self._source = source
        self._access = access
        self._contents: dict[str, list[bytes]] = {}
        """The contents of the first members of each column."""
        self._ignored = 0

    def units(self) -> Listing[Unit]:
        """Yields the units in the order of the URIs and, for each URI, sorted by path."""
        parts = (FilePart(*file) for file in self._listed())
        form = Form(cost_of_file, asdict, _TarFile.from_document)
        # Examine only one file at a time, because the index of a file with many members takes a lot of memory.
        for part, found in examined_parts(self._access, parts, self._examine, form=form, most=1):
            self._sample(found, part.entry)
            yield from found.units(part.root, part.path, part.entry)
        names = list(self._contents)
        if self._source.columns is not None:
            for name in self._source.columns:
                if names and name not in names:
                    raise BadSpec(
                        f"{_OF}.columns: no member has the extension {name!r}.{similar(name, names)} The extensions are {', '.join(names[:20])}."
                    )
            names = [name for name in self._source.columns if name in names]
        check_names([*names, KEY], uri=self._source.uris[0])
        columns = [_column(name, self._contents[name]).state() for name in names]
        return {"columns": columns, "ignored": self._ignored}

    def _listed(self) -> Iterator[ListedFile]:
        for root, path, entry in input_files(self._access, self._source.uris):
            if entry.uri == self._source.uris[root] or _is_tar(path):
                yield root, path, entry
            else:
                self._ignored += 1

    def _examine(self, store: Store, part: FilePart) -> _TarFile:
        """Finds the samples of a file. Raises BadData for a file that can't be read."""
        entry = part.entry
        with open_listed(self._access, store, entry) as file:
            index = index_of(file, entry.uri)
        members = [place for place in index.files.values() if isinstance(place, TarMember)]
        if len(members) < len(index.files):
            raise BadData(f"{entry.uri} is a zip file; {_OF} reads tar files.", uri=entry.uri)
        members.sort(key=lambda member: member.offset)
        samples = list(_samples(members, entry.uri))
        contents, compression = index.contents or (None, None)
        if samples:
            # The file can end with the last member, without padding to a whole block.
            samples[-1].end = min(samples[-1].end, entry.size if contents is None else contents)
        groups = [(len(group), group[0].start, group[-1].end) for group in _groups(samples)]
        return _TarFile(groups, self._first_members(samples), contents, compression)

    def _first_members(self, samples: Sequence[_Sample]) -> dict[str, list[tuple[int, int]]]:
        selected = self._source.columns
        first: dict[str, list[tuple[int, int]]] = {}
        for sample in samples:
            for extension, member in sample.members.items():
                places = first.setdefault(extension, [])
                is_read = selected is None or extension in selected
                if is_read and len(places) < _SAMPLED and _has_form(extension):
                    places.append((member.offset, member.size))
        return first

    def _sample(self, found: _TarFile, entry: Entry) -> None:
        """Reads the first members of each column."""
        needed: list[tuple[int, int, list[bytes]]] = []
        for extension, places in found.first.items():
            contents = self._contents.setdefault(extension, [])
            needed += [(offset, size, contents) for offset, size in places[: _SAMPLED - len(contents)]]
        if not needed:
            return
        with open_pinned(self._access.store(entry.uri), entry.uri, entry.pin) as file, found.opened(file, entry.uri) as source:
            # The contents of a compressed file are read in order.
            for offset, size, contents in sorted(needed, key=lambda each: each[0]):
                contents.append(source.read_at(offset, size))


def _is_tar(path: str) -> bool:
    name = path.lower()
    return without_suffix(name).endswith(".tar") or name.endswith(".tgz")


def _groups(samples: Sequence[_Sample]) -> Iterator[list[_Sample]]:
    group: list[_Sample] = []
    for sample in samples:
        if group and sample.end - group[0].start > _UNIT_BYTES:
            yield group
            group = []
        group.append(sample)
    if group:
        yield group


def _has_form(name: str) -> bool:
    """Whether the column can have a form other than bytes. As in the library webdataset, only the last extension counts."""
    last = name.rpartition(".")[2]
    return last in _NUMBERS or last in _TEXTS or last == "npy"


def _column(name: str, contents: Sequence[bytes]) -> ForeignColumn:
    """The column for an extension. If any of `contents` doesn't have the extension's usual form, a simpler form is used."""
    last = name.rpartition(".")[2]
    if last == "npy":
        return _column_of_arrays(name, contents)
    if last in _NUMBERS and _all_parse(whole_number, contents):
        return ForeignColumn(name, "Number", "int64")
    if _has_form(name) and _all_parse(text_of, contents):
        return ForeignColumn(name, "Text")
    return ForeignColumn(name, "Bytes")


def _column_of_arrays(name: str, contents: Sequence[bytes]) -> ForeignColumn:
    try:
        arrays = [array_of_npy(content) for content in contents]
    except BadSample:
        return ForeignColumn(name, "Bytes")
    return form_of_arrays(name, arrays) or ForeignColumn(name, "Bytes")


def _all_parse(parse: Any, contents: Sequence[bytes]) -> bool:
    try:
        for content in contents:
            parse(content)
    except BadSample:
        return False
    return True
