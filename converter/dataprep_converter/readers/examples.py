"""tf.train.Example into columns: many records in lockstep, feature by feature, without a loop over records or values.

    # Example:  0a <len> | entry | entry | …       An entry of the map:  0a <len> | 0a <len> key | 12 <len> feature
    # A feature:  <0a|12|1a> <len> list | nothing    A list:  0a <len> packed numbers | nothing;  of bytes: 0a <len> value | 0a <len> value | …

Records that were written by one program mostly have the same features in the same order. So one record, the *leader*, is looked at, and all
records take each of its steps at once: each has a place of its own, where the expected bytes must stand. Records that fall out of step are
given another leader; those left after a few, or written in an unusual way (several lists for one feature, numbers that aren't packed), are
parsed by protobuf one by one and written anew behind the others.
"""

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final, TypeAlias

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from dataprep_converter.encoders.contents import delimited, varint
from dataprep_converter.errors import NotWhole
from dataprep_converter.records import parse_example
from dataprep_converter.tensors import Array, arrow_type, binary, binary_data, to_arrow

BYTES: Final = 0x0A
FLOATS: Final = 0x12
INTS: Final = 0x1A
KINDS: Final[Mapping[int, str]] = {BYTES: "bytes", FLOATS: "floats", INTS: "integers"}
"""Tag of each list and what it holds."""

_NUMBERS: Final[Mapping[int, str]] = {FLOATS: "float32", INTS: "int64"}
_LEADERS: Final = 8
_WIDEST_VARINT: Final = 10
_SHORT: Final = 64
"""Up to this size, equal spans are taken by numpy rather than by Arrow."""
_LENGTH_BYTES: Final = 5

Places: TypeAlias = npt.NDArray[np.int64]
_arrow: Any = pa  # the stubs don't know buffers of numpy


@dataclass(frozen=True)
class Expected:
    """A feature that becomes a column."""

    name: str
    kind: int
    """Tag of its list."""
    shape: tuple[int, ...] | None
    """Of a tensor; () is one value, None any number of them."""
    raw: str | None = None
    """numpy's name of the numbers that a value of bytes holds."""

    @property
    def values(self) -> int | None:
        """How many values the list has."""
        return self.shape if self.shape is None else 1 if self.raw is not None else math.prod(self.shape)

    @property
    def type(self) -> pa.DataType:
        """Type of the column."""
        if self.raw is not None:
            return arrow_type(self.raw, self.shape or ())
        if self.shape:
            return arrow_type(_NUMBERS[self.kind], self.shape)
        value = pa.large_binary() if self.kind == BYTES else arrow_type(_NUMBERS[self.kind])
        return value if self.shape is not None else pa.large_list(value)


@dataclass
class _Spans:
    """The list of one feature in every record: which bytes of the data, and its tag; 0 when the record has no value for it."""

    starts: Places
    ends: Places
    kinds: npt.NDArray[np.uint8]


@dataclass
class _Found:
    """What is known about the records so far."""

    data: bytes
    """The records, and behind them what was written anew."""
    starts: Places
    ends: Places
    spans: Mapping[str, _Spans]
    is_strict: bool
    """Whether a feature that isn't expected makes a record bad."""
    reasons: dict[int, str] = field(default_factory=dict)


def parse(
    data: bytes, starts: Places, ends: Places, expected: Sequence[Expected], *, is_strict: bool
) -> tuple[list[Array], dict[int, str]]:
    """A column for each expected feature, of the good records in order; and why the others are bad, by number.

    The payload of record n is `data[starts[n]:ends[n]]`. With `is_strict`, a feature that isn't expected makes a record bad.
    """
    spans = {each.name: _Spans(starts.copy(), starts.copy(), np.zeros(len(starts), np.uint8)) for each in expected}
    found = _Found(data, starts, ends, spans, is_strict)
    left = _in_lockstep(found)
    _one_by_one(found, left)
    lists = [_lists(found, each) for each in expected]
    is_good = np.ones(len(starts), np.bool_)
    is_good[list(found.reasons)] = False
    return [_column(column, each, is_good) for column, each in zip(lists, expected, strict=True)], dict(sorted(found.reasons.items()))


# --- where the lists are ------------------------------------------------------------------------------------------


def _in_lockstep(found: _Found) -> Places:
    """Finds the lists of most records; returns the numbers of those that are left."""
    data = np.frombuffer(found.data, np.uint8)
    left = np.arange(len(found.starts), dtype=np.int64)
    unusual: list[int] = []
    for _ in range(_LEADERS):
        if not len(left):
            break
        leader = int(left[0])
        entries = _entries(found.data[found.starts[leader] : found.ends[leader]])
        if entries is None:
            unusual.append(leader)
            left = left[1:]
            continue
        left = left[~_steps(found, data, left, entries)]
    return np.concatenate((np.array(unusual, np.int64), left))


@dataclass(frozen=True)
class _Entry:
    """A feature of the leader."""

    key: bytes
    kind: int
    prefix: bytes
    """What stands before its values."""
    length: int
    """Bytes of its values."""


def _steps(found: _Found, data: npt.NDArray[np.uint8], rows: Places, entries: Sequence[_Entry]) -> npt.NDArray[np.bool_]:
    """Which of the records have exactly these features; their lists are put down."""
    end = found.ends[rows]
    walk = _Walk(data, found.starts[rows])
    if entries:
        walk.check(walk.enter(BYTES) == end)
    spans: dict[str, tuple[Places, Places, int]] = {}
    for entry in entries:
        if walk.are_all_at(entry.prefix):
            walk.at = walk.at + len(entry.prefix)
            entry_end = walk.at + entry.length
        else:
            entry_end = walk.enter(BYTES)
            walk.expect(delimited(b"\x0a", entry.key) + b"\x12")
            walk.check(walk.jump() == entry_end)
            walk.check((walk.enter(entry.kind) if entry.kind else walk.at) == entry_end)
            if entry.kind in _NUMBERS:
                # Numbers are packed: one list of them, or none at all.
                empty = walk.at == entry_end
                walk.check((walk.enter(BYTES, where=~empty) == entry_end) | empty)
        walk.check(entry_end <= end)
        spans[entry.key.decode("utf-8", "replace")] = (walk.at, entry_end, entry.kind)
        walk.at = entry_end
    walk.check(walk.at == end)
    is_done = walk.in_step
    done = rows[is_done]
    for name, (starts, ends, kind) in spans.items():
        if name in found.spans and kind:
            here = found.spans[name]
            here.starts[done], here.ends[done], here.kinds[done] = starts[is_done], ends[is_done], kind
        elif name not in found.spans and found.is_strict:
            found.reasons |= dict.fromkeys(done.tolist(), _unexpected(name))
    return is_done


class _Walk:
    """The places of many records, each in its own payload.

    A record out of step may have its place behind the end, where any byte is read. No record comes back into step: whoever enters
    something checks that it ends within the payload.
    """

    def __init__(self, data: npt.NDArray[np.uint8], at: Places) -> None:
        self._data = data
        self.at = at
        self.in_step = np.ones(len(at), np.bool_)

    def check(self, is_so: npt.NDArray[np.bool_]) -> None:
        """Records for which it isn't so are out of step."""
        self.in_step &= is_so

    def are_all_at(self, constant: bytes) -> bool:
        """Whether these bytes stand at the place of every record."""
        return bool(self._is_at(constant).all())

    def expect(self, constant: bytes) -> None:
        """The same bytes in every record."""
        self.check(self._is_at(constant))
        self.at = self.at + len(constant)

    def enter(self, tag: int, where: npt.NDArray[np.bool_] | None = None) -> Places:
        """Goes past a tag and a length; returns where what has this length ends. Records that aren't `where` stay where they are."""
        before = self.at
        is_tag = self._bytes(self.at) == tag
        self.at = self.at + 1
        end = self.jump()
        if where is None:
            self.check(is_tag)
            return end
        self.check(is_tag | ~where)
        self.at = np.where(where, self.at, before)
        return end

    def jump(self) -> Places:
        """Goes past a length; returns where what has this length ends."""
        byte = self._bytes(self.at)
        length = byte & 0x7F
        at = self.at + 1
        more = byte >= 0x80
        for group in range(1, _LENGTH_BYTES):
            if not more.any():
                break
            byte = self._bytes(at)
            length = np.where(more, length | ((byte & 0x7F) << (7 * group)), length)
            at += more
            more = more & (byte >= 0x80)
        else:
            self.check(~more)
        self.at = at
        return at + length

    def _is_at(self, constant: bytes) -> npt.NDArray[np.bool_]:
        if len(constant) > len(self._data):
            return np.zeros(len(self.at), np.bool_)
        windows = np.lib.stride_tricks.sliding_window_view(self._data, len(constant))
        is_at: npt.NDArray[np.bool_] = (windows[np.minimum(self.at, len(windows) - 1)] == np.frombuffer(constant, np.uint8)).all(axis=1)
        return is_at

    def _bytes(self, at: Places) -> Places:
        return self._data[np.minimum(at, len(self._data) - 1)].astype(np.int64)


def _entries(payload: bytes) -> list[_Entry] | None:
    """The features of an Example that is written the usual way, else None."""
    if not payload:
        return []
    inner = _delimited_at(payload, 0, BYTES)
    if inner is None or inner[1] != len(payload):
        return None
    entries: dict[bytes, _Entry] = {}
    at = inner[0]
    while at < len(payload):
        entry = _delimited_at(payload, at, BYTES)
        key = _delimited_at(payload, entry[0], BYTES) if entry is not None else None
        feature = _delimited_at(payload, key[1], 0x12) if key is not None else None
        if entry is None or key is None or feature is None or feature[1] != entry[1] or payload[key[0] : key[1]] in entries:
            return None
        values: tuple[int, int] | None = feature
        kind = payload[feature[0]] if feature[0] < feature[1] else 0
        if kind:
            values = _delimited_at(payload, feature[0], kind) if kind in KINDS else None
        if kind in _NUMBERS and values is not None and values[0] < values[1]:
            values = _delimited_at(payload, values[0], BYTES)
        if values is None or values[1] != entry[1]:
            return None
        name = payload[key[0] : key[1]]
        entries[name] = _Entry(name, kind, payload[at : values[0]], values[1] - values[0])
        at = entry[1]
    return list(entries.values())


def _delimited_at(payload: bytes, at: int, tag: int) -> tuple[int, int] | None:
    """(start, end) of the content of a field of this tag, or None."""
    if at >= len(payload) or payload[at] != tag:
        return None
    length = shift = 0
    for place in range(at + 1, min(at + 1 + _LENGTH_BYTES, len(payload))):
        length |= (payload[place] & 0x7F) << shift
        shift += 7
        if payload[place] < 0x80:
            end = place + 1 + length
            return (place + 1, end) if end <= len(payload) else None
    return None


def _one_by_one(found: _Found, rows: Places) -> None:
    """Parses records by protobuf; their lists are written anew behind the data."""
    written: list[bytes] = []
    size = len(found.data)
    for row in rows.tolist():
        payload = found.data[found.starts[row] : found.ends[row]]
        try:
            features = example(payload)
        except NotWhole as exc:
            found.reasons[row] = str(exc).rstrip(".")
            continue
        for name, values in features.items():
            if name not in found.spans:
                if found.is_strict:
                    found.reasons[row] = _unexpected(name)
                continue
            kind, content = _rewritten(values)
            here = found.spans[name]
            here.starts[row], here.ends[row], here.kinds[row] = size, size + len(content), kind
            written.append(content)
            size += len(content)
    found.data += b"".join(written)


def example(payload: bytes) -> dict[str, list[Any]]:
    """The features of one record. Raises NotWhole, also for a SequenceExample."""
    features = parse_example(payload)
    inner = _delimited_at(payload, 0, BYTES)
    if payload[:1] == b"\x12" or (inner is not None and payload[inner[1] : inner[1] + 1] == b"\x12"):
        raise NotWhole("The record holds a tf.train.SequenceExample, which this source doesn't read.")
    return features


def _rewritten(values: Sequence[Any]) -> tuple[int, bytes]:
    """Tag and content of a list, as `_steps` finds them."""
    if not values:
        return 0, b""
    if isinstance(values[0], bytes):
        return BYTES, b"".join(delimited(b"\x0a", value) for value in values)
    if isinstance(values[0], float):
        return FLOATS, np.array(values, "<f4").tobytes()
    return INTS, b"".join(varint(value & (2**64 - 1)) for value in values)


def _unexpected(name: str) -> str:
    return f"the feature {name!r} was not there when the job was planned; list the features in source.tfrecord.features"


# --- what is in them ----------------------------------------------------------------------------------------------


def _lists(found: _Found, expected: Expected) -> Any:
    """The values of each record as a list; bad records get their reasons, and any list."""
    spans = found.spans[expected.name]
    name = expected.name
    if expected.shape is not None:
        _blame(found, np.flatnonzero(spans.kinds == 0), lambda _: f"the feature {name!r} is missing")
    for kind in set(KINDS) - {expected.kind}:
        wrong = np.flatnonzero((spans.kinds == kind) & (spans.ends > spans.starts))
        _blame(found, wrong, lambda _, kind=kind: f"the feature {name!r} holds {KINDS[kind]}, expected {KINDS[expected.kind]}")
        spans.ends[wrong] = spans.starts[wrong]
    if expected.kind == BYTES:
        lists = _bytes_lists(found, spans, expected)
    else:
        content, offsets = _gathered(found.data, spans)
        lists = _float_lists(found, content, offsets, name) if expected.kind == FLOATS else _int_lists(found, content, offsets, name)
    if expected.values is not None:
        counts = np.diff(np.asarray(lists.offsets))
        wrong = np.flatnonzero(counts != expected.values)
        _blame(found, wrong, lambda row: f"the feature {name!r} has {counts[row]:,} values, expected {expected.values:,}")
    return lists


def _blame(found: _Found, rows: Iterable[int], reason: Any) -> None:
    for row in rows:
        found.reasons.setdefault(int(row), reason(row))


def _gathered(data: bytes, spans: _Spans) -> tuple[npt.NDArray[np.uint8], Places]:
    """The bytes of all spans, one after another, and where each begins and the last one ends."""
    lengths = spans.ends - spans.starts
    if len(lengths) and lengths[0] == lengths.min() == lengths.max() <= _SHORT:
        width = int(lengths[0])
        windows = np.lib.stride_tricks.sliding_window_view(np.frombuffer(data, np.uint8), max(1, width))
        content = windows[spans.starts].reshape(-1) if width else np.empty(0, np.uint8)
        return content, np.arange(len(lengths) + 1, dtype=np.int64) * width
    order = np.argsort(spans.starts, kind="stable")
    cuts = np.stack((spans.starts[order], spans.ends[order]), axis=1).reshape(-1)
    # Spans and the gaps between them are a column of bytes; taking every other one is a copy without a list of places.
    places = np.empty(len(order), np.int64)
    places[order] = np.arange(0, 2 * len(order), 2)
    column: Array = _arrow.Array.from_buffers(pa.large_binary(), len(cuts) - 1, [None, _arrow.py_buffer(cuts), _arrow.py_buffer(data)])
    content, offsets = binary_data(column.take(to_arrow(places)))
    return content[offsets[0] : offsets[-1]], offsets - offsets[0]


def _large_lists(offsets: Places, values: Array) -> Any:
    return _arrow.LargeListArray.from_arrays(to_arrow(offsets), values)


def _float_lists(found: _Found, content: npt.NDArray[np.uint8], offsets: Places, name: str) -> Any:
    odd = np.flatnonzero(np.diff(offsets) % 4)
    if len(odd):
        _blame(found, odd, lambda _: f"the feature {name!r} holds no whole number of floats")
        content, offsets = _without(content, offsets, odd)
    return _large_lists(offsets // 4, to_arrow(content.view("<f4")))


def _int_lists(found: _Found, content: npt.NDArray[np.uint8], offsets: Places, name: str) -> Any:
    last = content[offsets[1:] - 1] >= 0x80 if len(content) else np.zeros(len(offsets) - 1, np.bool_)
    open_ended = np.flatnonzero((np.diff(offsets) > 0) & last)
    if len(open_ended):
        _blame(found, open_ended, lambda _: f"the feature {name!r} ends within a number")
        content, offsets = _without(content, offsets, open_ended)
    stops = np.flatnonzero(content < 0x80) + 1
    starts = np.concatenate((np.zeros(1, np.int64), stops))[:-1]
    numbers = np.searchsorted(stops, offsets, side="right") if len(stops) != len(content) else offsets
    widths = stops - starts
    if len(widths) and widths.max() > _WIDEST_VARINT:
        rows = np.unique(np.searchsorted(numbers, np.flatnonzero(widths > _WIDEST_VARINT), side="right") - 1)
        _blame(found, rows, lambda _: f"the feature {name!r} holds a number of more than 64 bits")
        content, offsets = _without(content, offsets, rows)
        return _int_lists(found, content, offsets, name)
    return _large_lists(numbers, to_arrow(_numbers(content, starts, widths)))


def _numbers(content: npt.NDArray[np.uint8], starts: Places, widths: Places) -> npt.NDArray[np.int64]:
    """Varints that begin at `starts`."""
    if len(content) == len(starts):
        return content.astype(np.int64)
    values = (content[starts] & 0x7F).astype(np.uint64)
    for group in range(1, int(widths.max(initial=1))):
        wide = np.flatnonzero(widths > group)
        values[wide] |= (content[starts[wide] + group] & 0x7F).astype(np.uint64) << np.uint64(7 * group)
    return values.view(np.int64)


def _without(content: npt.NDArray[np.uint8], offsets: Places, rows: Places) -> tuple[npt.NDArray[np.uint8], Places]:
    """The contents with those of some rows emptied."""
    lengths = np.diff(offsets)
    keep = np.ones(len(lengths), np.bool_)
    keep[rows] = False
    kept = content[np.repeat(keep, lengths)]
    return kept, np.concatenate((np.zeros(1, np.int64), np.cumsum(np.where(keep, lengths, 0))))


def _bytes_lists(found: _Found, spans: _Spans, expected: Expected) -> Any:
    """Each value has a tag and a length of its own: the n-th values of all records are found at once."""
    data = np.frombuffer(found.data, np.uint8)
    rows = np.flatnonzero(spans.ends > spans.starts)
    at, end = spans.starts[rows], spans.ends[rows]
    pieces: list[tuple[Places, Places, Places]] = []
    while len(rows):
        walk = _Walk(data, at)
        stop = walk.enter(BYTES)
        walk.check(stop <= end)
        good = walk.in_step
        _blame(found, rows[~good], lambda _: f"the feature {expected.name!r} is no list of bytes")
        pieces.append((rows[good], walk.at[good], stop[good]))
        more = good & (stop < end)
        rows, at, end = rows[more], stop[more], end[more]
    if not pieces:
        return _large_lists(np.zeros(len(spans.starts) + 1, np.int64), pa.array([], pa.large_binary()))
    owners, starts, stops = (np.concatenate(each) for each in zip(*pieces, strict=True))
    counts = np.bincount(owners, minlength=len(spans.starts))
    order = np.argsort(owners, kind="stable") if len(pieces) > 1 else slice(None)
    content, offsets = _gathered(found.data, _Spans(starts[order], stops[order], np.empty(0, np.uint8)))
    lists = _large_lists(np.concatenate((np.zeros(1, np.int64), np.cumsum(counts))), binary(content, offsets))
    if expected.raw is not None:
        _check_raw(found, owners, stops - starts, expected)
    return lists


def _check_raw(found: _Found, rows: Places, sizes: Places, expected: Expected) -> None:
    wanted = math.prod(expected.shape or ()) * np.dtype(expected.raw).itemsize
    wrong = sizes != wanted
    told = f"a tensor {expected.raw}{list(expected.shape or ())} has {wanted:,}"
    for row, size in zip(rows[wrong].tolist(), sizes[wrong].tolist(), strict=True):
        found.reasons.setdefault(row, f"the feature {expected.name!r} has {size:,} bytes, {told}")


def _column(lists: Any, expected: Expected, is_good: npt.NDArray[np.bool_]) -> Array:
    """The lists of the good records, in the form of the feature."""
    if not is_good.all():
        lists = lists.filter(to_arrow(is_good))
    if expected.shape is None:
        return lists  # type: ignore[no-any-return] # a large_list array
    values = lists.flatten()
    if expected.raw is not None:
        content, offsets = binary_data(values)
        stored = np.dtype(expected.raw).newbyteorder("<")
        numbers = content[offsets[0] : offsets[-1]]
        tensors = numbers != 0 if stored.kind == "b" else numbers.view(stored).astype(stored.newbyteorder("="), copy=False)
        return to_arrow(tensors.reshape(len(values), *expected.shape))
    if not expected.shape:
        return values  # type: ignore[no-any-return] # an array of the values
    return to_arrow(np.asarray(values).reshape(-1, *expected.shape))
