"""The source `numpy` reads .npy and .npz files. The planner reads only the files' headers. Pickles are never loaded.

    # A .npy file:  93 NUMPY | version | header: dtype, order, shape | values           A .npz file:  a zip file of .npy files

Each unit is one file, or a group of files whose arrays are columns of the same records. Rows are read directly from the file (`rows.py`). A
deflated array in a .npz file is inflated in one pass. If the rows of a deflated array are requested out of order, the array is inflated to
an unlinked temporary copy.
"""

import io
import json
import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from itertools import chain
from tokenize import TokenError
from typing import Any, ClassVar, Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from dataprep_api.spec.sources.numpy import NumpySource
from dataprep_converter.core.closeable import Closeable
from dataprep_converter.core.errors import BadData, BadSpec
from dataprep_converter.core.tensors import NUMPY_NAMES, Array, arrow_type, shape_fault, to_arrow
from dataprep_converter.inputs import zips
from dataprep_converter.inputs.access import Access
from dataprep_converter.inputs.zips import Member, StoredMember
from dataprep_converter.readers import Discovery, Listing
from dataprep_converter.readers.arrays.rows import RowFiles, gathered
from dataprep_converter.readers.base.examined import Form, ListedFile, cost_of_start, examined, open_listed
from dataprep_converter.readers.base.listing import input_files
from dataprep_converter.records.batch import SAMPLE, Batch
from dataprep_converter.runtime.scans import Document
from dataprep_converter.sampling.units import Unit, Units
from dataprep_converter.stores import Entry, Input, Store

VALUES: Final = "values"
"""The column name for a .npy file to which the spec gives no name."""

_MAGIC: Final = b"\x93NUMPY"
_LONGEST_HEADER: Final = 16 << 10


@dataclass(frozen=True)
class _Header:
    """The header of an array."""

    dtype: np.dtype[Any]
    shape: tuple[int, ...]
    size: int
    """The size of the header in bytes."""

    @property
    def kind(self) -> tuple[str, tuple[int, ...]]:
        """The type and the shape of a row, which must be the same in all arrays of a column."""
        return self.dtype.str, self.shape[1:]

    def __str__(self) -> str:
        return f"{self.dtype}{list(self.shape)}"


@dataclass(frozen=True)
class _Place:
    """Where the rows of a column begin, in one of a unit's files."""

    uri: str
    pin: str
    start: int
    """The offset of the first value, in the file or in the contents of `member`."""
    member: Member | None = None
    """The member of a .npz file that contains the array."""


class _Column:
    """A column with the type and shape that the planner froze."""

    def __init__(self, name: str, dtype: str, shape: Sequence[int]) -> None:
        self.name = name
        self._dtype = np.dtype(dtype)
        self._shape = tuple(shape)
        self.row_bytes = math.prod(self._shape) * self._dtype.itemsize

    @property
    def type(self) -> pa.DataType:
        """The type of the column in batches."""
        if self._dtype.kind == "U":
            return pa.string()
        if self._dtype.kind == "S":
            return pa.large_binary()
        return arrow_type(self._dtype.name, self._shape)

    def column(self, rows: npt.NDArray[np.uint8]) -> Array:
        """The column's values, from rows of bytes."""
        if self._dtype.kind == "b":
            return to_arrow((rows != 0).reshape(len(rows), *self._shape))
        values = np.ascontiguousarray(rows).view(self._dtype).reshape(len(rows), *self._shape)
        if self._dtype.kind in "US":
            return pa.array(values.tolist(), self.type)
        return to_arrow(values.astype(self._dtype.newbyteorder("="), copy=False))


class NumpyReader(Closeable):
    """See the module."""

    default_label: ClassVar[str] = "label"
    stored_form: ClassVar[int] = 1

    @staticmethod
    def discover(source: NumpySource, access: Access) -> Discovery:
        """Reads the headers. Raises NotFound for a URI without files, BadData for an invalid or truncated file, and BadSpec for arrays that
        don't match."""
        return Discovery(_Planner(source, access).units())

    def __init__(self, source: NumpySource, state: Mapping[str, Any], access: Access) -> None:  # noqa: ARG002 - the state has all settings
        self._columns = [_Column(**column) for column in state.get("columns", [])]
        self._files = RowFiles(access)

    def close(self) -> None:
        """Closes the files."""
        self._files.close()

    def schema(self) -> pa.Schema:
        """The columns: numbers in native byte order, as scalars or tensors, and text."""
        return pa.schema([(column.name, column.type) for column in self._columns])

    def classes(self) -> dict[str, list[str]]:
        """An empty dict, because arrays have no class names."""
        return {}

    def read(self, units: Units, samples: Iterator[npt.NDArray[np.int64]]) -> Iterator[Batch]:
        """Yields a batch for each array of sample numbers."""
        for sample_numbers in samples:
            yield self._batch(units, sample_numbers)

    def _batch(self, units: Units, sample_numbers: npt.NDArray[np.int64]) -> Batch:
        columns = [column.column(self._rows(units, sample_numbers, number)) for number, column in enumerate(self._columns)]
        schema = self.schema().append(pa.field(SAMPLE, pa.int64()))
        record_batch = pa.RecordBatch.from_arrays([*columns, to_arrow(sample_numbers)], schema=schema)
        return Batch(records=record_batch, bad=[], bytes_in=self._files.taken())

    def _rows(self, units: Units, sample_numbers: npt.NDArray[np.int64], number: int) -> npt.NDArray[Any]:
        row_bytes = self._columns[number].row_bytes
        if not len(sample_numbers):
            return np.empty((0, row_bytes), np.uint8)

        def take(unit: Unit, rows: npt.NDArray[np.int64]) -> npt.NDArray[Any]:
            place = json.loads(unit.extra)[number]
            member = Member(**place["member"]) if place["member"] else None
            file = self._files.rows(place["uri"], place["pin"], start=place["start"], row_bytes=row_bytes, member=member)
            return file.take(rows)

        return gathered(units, sample_numbers, take)


_Arrays = dict[str, tuple[_Header, _Place]]


class _Planner:
    """Lists the files of a source and freezes the columns in `state`."""

    def __init__(self, source: NumpySource, access: Access) -> None:
        self._source = source
        self._access = access
        self._first: _Arrays | None = None

    def units(self) -> Listing[Unit]:
        """Yields the units in the order of the files."""
        if self._source.arrays is not None:
            yield from self._units_of_groups(self._source.arrays)
        else:
            files = input_files(self._access, self._source.uris or [])
            for file in examined(self._access, files, self._arrays, form=_FORM):
                yield from self._unit(file.root, file.path, [file.entry], file.result)
        if self._first is None:
            return {}
        columns = [{"name": name, "dtype": header.dtype.str, "shape": list(header.shape[1:])} for name, (header, _) in self._first.items()]
        return {"columns": columns}

    def _units_of_groups(self, arrays: Mapping[str, str]) -> Iterator[Unit]:
        """Yields the units of a source that names separate files for each column. A unit consists of the n-th file of every column."""
        # Sort the columns, because the API server doesn't keep the order of keys.
        names = sorted(arrays, key=str.encode)
        each_file = examined(self._access, self._in_groups(arrays, names), self._only_array, form=_FORM)
        for group in zip(*[each_file] * len(names), strict=True):
            arrays_of_group = {name: file.result[VALUES] for name, file in zip(names, group, strict=True)}
            yield from self._unit(0, group[0].path, [file.entry for file in group], arrays_of_group)

    def _in_groups(self, arrays: Mapping[str, str], names: Sequence[str]) -> Iterator[ListedFile]:
        """Yields the first file of every column, then the second file of every column, and so on. Nothing is listed before the first file is
        needed."""
        files = {name: list(input_files(self._access, [arrays[name]])) for name in names}
        for name in names:
            if len(files[name]) != len(files[names[0]]):
                raise BadSpec(
                    f"source.numpy.arrays: {names[0]} has {len(files[names[0]])} files and {name} has {len(files[name])}; "
                    "they need the same number of files."
                )
        yield from chain.from_iterable(zip(*files.values(), strict=True))

    def _arrays(self, store: Store, entry: Entry) -> _Arrays:
        """The arrays of a file, keyed by column. Several threads may call this method."""
        with open_listed(self._access, store, entry) as source:
            if source.read_at(0, 2) == zips.MAGIC:
                return _members(source, entry, self._source.members)
            if self._source.members is not None:
                raise BadSpec(f"{entry.uri} is not a .npz file, but source.numpy.members selects arrays of .npz files.", uri=entry.uri)
            return {VALUES: _whole_file(source, entry)}

    def _only_array(self, store: Store, entry: Entry) -> _Arrays:
        """The array of a .npy file. Several threads may call this method."""
        with open_listed(self._access, store, entry) as source:
            return {VALUES: _whole_file(source, entry)}

    def _unit(self, root: int, path: str, entries: Sequence[Entry], arrays: _Arrays) -> Iterator[Unit]:
        """Yields the unit if it has records.

        Raises BadSpec if the arrays of a file differ in length, or if their types or shapes differ from those in the first file.
        """
        names = list(arrays)
        records = arrays[names[0]][0].shape[0]
        for name in names:
            if arrays[name][0].shape[0] != records:
                raise BadSpec(_different_lengths(names[0], arrays[names[0]], name, arrays[name]), uri=arrays[name][1].uri)
        if self._first is None:
            self._first = arrays
        self._check_alike(self._first, arrays)
        if records:
            yield Unit(
                root=root,
                path=path,
                uri=entries[0].uri,
                records=records,
                size=sum(entry.size for entry in entries),
                pin=entries[0].pin,
                extra=json.dumps([asdict(arrays[name][1]) for name in self._first]),
            )

    def _check_alike(self, first: _Arrays, arrays: _Arrays) -> None:
        if set(first) != set(arrays):
            first_uri, uri = next(iter(first.values()))[1].uri, next(iter(arrays.values()))[1].uri
            raise BadSpec(f"All files need the same arrays: {first_uri} has {', '.join(first)}, {uri} has {', '.join(arrays)}.", uri=uri)
        for name, (header, place) in first.items():
            other, where = arrays[name]
            if header.kind != other.kind:
                raise BadSpec(
                    f"The arrays of {name!r} need one type and shape: {place.uri} has {header}, {where.uri} has {other}.", uri=where.uri
                )


def _different_lengths(name: str, one: tuple[_Header, _Place], other_name: str, other: tuple[_Header, _Place]) -> str:
    return (
        f"{one[1].uri} has {one[0].shape[0]:,} records of {name!r}, {other[1].uri} has {other[0].shape[0]:,} of {other_name!r}: "
        "they don't belong together."
    )


def _to_document(arrays: _Arrays) -> Document:
    return {name: [header.dtype.str, header.shape, header.size, asdict(place)] for name, (header, place) in arrays.items()}


def _from_document(document: Document) -> _Arrays:
    return {
        name: (
            _Header(np.dtype(dtype), tuple(shape), size),
            _Place(**{**place, "member": Member(**place["member"]) if place["member"] is not None else None}),
        )
        for name, (dtype, shape, size, place) in document.items()
    }


_FORM: Final[Form[_Arrays]] = Form(cost_of_start, _to_document, _from_document)


def _whole_file(source: Input, entry: Entry) -> tuple[_Header, _Place]:
    header = _header(source, entry.uri, entry.size)
    return header, _Place(entry.uri, entry.pin, header.size)


def _members(source: Input, entry: Entry, selection: Mapping[str, str] | None) -> _Arrays:
    """The arrays of a .npz file, keyed by column."""
    members = {member.name.removesuffix(".npy"): member for member in zips.members(source, entry.uri)}
    if not members:
        raise BadData(f"{entry.uri} holds no arrays.", uri=entry.uri)
    columns = {name: name for name in sorted(members, key=str.encode)} if selection is None else dict(sorted(selection.items()))
    arrays: _Arrays = {}
    for column, name in columns.items():
        if name not in members:
            raise BadSpec(
                f"{entry.uri} has no array {name!r} for the column {column!r}; it has {', '.join(sorted(members))}.", uri=entry.uri
            )
        arrays[column] = _member(source, entry, members[name])
    return arrays


def _member(source: Input, entry: Entry, member: Member) -> tuple[_Header, _Place]:
    where = f"{entry.uri}, {member.name}"
    if member.deflated:
        with zips.inflated(source, member, entry.uri) as contents:
            header = _header(contents, where, member.size)
        return header, _Place(entry.uri, entry.pin, header.size, member)
    header = _header(StoredMember(source, member, entry.uri), where, member.size)
    return header, _Place(entry.uri, entry.pin, header.size, member)


def _header(source: Input, uri: str, size: int) -> _Header:
    """Reads the header of a .npy file or member whose total size is `size` bytes. If the header is invalid, raises BadData, which says what
    was expected."""
    data = io.BytesIO(source.read_at(0, min(size, _LONGEST_HEADER)))
    try:
        version = np.lib.format.read_magic(data)
        if version == (1, 0):
            shape, is_fortran, dtype = np.lib.format.read_array_header_1_0(data)
        elif version == (2, 0):
            shape, is_fortran, dtype = np.lib.format.read_array_header_2_0(data)
        else:
            raise BadData(f"{uri} is a .npy file of version {version[0]}.{version[1]}, which is not supported.", uri=uri)
    except (ValueError, TypeError, SyntaxError, TokenError, RecursionError, MemoryError) as exc:
        raise BadData(f"{uri} is not a complete .npy file: {exc}.", uri=uri) from exc
    header = _Header(dtype, shape, data.tell())
    _check(header, uri, is_fortran=is_fortran)
    expected = header.size + math.prod(shape) * dtype.itemsize
    if size != expected:
        what = "is truncated" if size < expected else "is too long"
        raise BadData(f"{uri} {what}: its header says {header}, which needs {expected:,} bytes, got {size:,}.", uri=uri)
    return header


def _check(header: _Header, uri: str, *, is_fortran: bool) -> None:
    """Raises BadData, which names the file, if the array is not a plain array of rows."""
    if header.dtype.hasobject:
        raise BadData(f"{uri} holds Python objects (dtype {header.dtype}), which are pickles and are never loaded.", uri=uri)
    if not header.shape:
        raise BadData(f"{uri} is a single value; its first dimension must count the records.", uri=uri)
    # Refuse booleans here, because NumPy's check accepts them: in Python, True and False are integers.
    if any(type(length) is not int or length < 0 for length in header.shape) or 0 in header.shape[1:]:
        raise BadData(f"{uri}: the dimensions {list(header.shape)} can't be right.", uri=uri)
    if fault := shape_fault(header.shape[1:]):
        raise BadData(f"{uri}: no record can hold its rows: {fault}.", uri=uri)
    if is_fortran and len(header.shape) > 1:
        raise BadData(
            f"{uri} is in Fortran order, so the values of a record are not contiguous; save np.ascontiguousarray(array).", uri=uri
        )
    is_text = header.dtype.kind in "US" and len(header.shape) == 1 and header.dtype.itemsize > 0
    if header.dtype.name not in NUMPY_NAMES.values() and not is_text:
        raise BadData(f"{uri} is an array of {header.dtype}, which records can't contain.", uri=uri)
