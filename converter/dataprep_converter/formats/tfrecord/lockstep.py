"""Find the features of many tf.train.Examples in lockstep, without a loop over records or values.

    # Example:  0a <len> | entry | entry | …       An entry of the map:  0a <len> | 0a <len> key | 12 <len> feature
    # A feature:  <0a|12|1a> <len> list | nothing    A list:  0a <len> packed numbers | nothing;  of bytes: 0a <len> value | 0a <len> value | …

Records written by one program mostly have the same features in the same order. So one record, the *leader*, is parsed into steps, and all records
take each step together. Each record has its own position, at which the expected bytes must occur. Records that fall out of step are tried
again with another leader. After a few leaders have been tried, protobuf parses the remaining records one by one. Protobuf also parses
records in an unusual form: with several lists for one feature, or with numbers that aren't packed. Protobuf's
results are appended to the data as lists in the usual form. `examples.py` decodes the lists.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final, TypeAlias

import numpy as np
import numpy.typing as npt

from dataprep_converter.core.errors import NotWhole
from dataprep_converter.formats.tfrecord.contents import delimited, varint
from dataprep_converter.formats.tfrecord.records import parse_example

BYTES: Final = 0x0A
FLOATS: Final = 0x12
INTS: Final = 0x1A
KINDS: Final[Mapping[int, str]] = {BYTES: "bytes", FLOATS: "floats", INTS: "integers"}
"""Maps the tag of each kind of list to the name of its values' type."""
NULL: Final = 1
"""Used in place of the list's tag if the record's Feature has no list. No list has this tag."""

_PACKED: Final = (FLOATS, INTS)
_LEADERS: Final = 8
_LENGTH_BYTES: Final = 5

Places: TypeAlias = npt.NDArray[np.int64]


@dataclass
class Spans:
    """Where the list of one feature begins and ends in each record, and the tag of that list.

    The tag is 0 if the record lacks the feature, and `NULL` if it has the feature without a list.
    """

    starts: Places
    ends: Places
    kinds: npt.NDArray[np.uint8]


@dataclass
class LockstepState:
    """The results of parsing the records so far."""

    data: bytes
    """The bytes of the records, followed by the lists that protobuf parsed, which are stored in the usual form."""
    starts: Places
    ends: Places
    spans: Mapping[str, Spans]
    is_strict: bool
    """Whether a feature that isn't expected makes a record bad."""
    reasons: dict[int, str] = field(default_factory=dict)


def in_lockstep(state: LockstepState) -> Places:
    """Find the lists of most records, and return the numbers of the remaining records."""
    data = np.frombuffer(state.data, np.uint8)
    remaining = np.arange(len(state.starts), dtype=np.int64)
    unusual: list[int] = []
    for _ in range(_LEADERS):
        if not len(remaining):
            break
        leader = int(remaining[0])
        entries = _entries(state.data[state.starts[leader] : state.ends[leader]])
        if entries is None:
            unusual.append(leader)
            remaining = remaining[1:]
            continue
        remaining = remaining[~_steps(state, data, remaining, entries)]
    return np.concatenate((np.array(unusual, np.int64), remaining))


@dataclass(frozen=True)
class _Entry:
    """A feature of the leader record."""

    key: bytes
    kind: int
    prefix: bytes
    """The bytes that precede the feature's values."""
    length: int
    """The size of the feature's values in bytes."""


def _steps(state: LockstepState, data: npt.NDArray[np.uint8], rows: Places, entries: Sequence[_Entry]) -> npt.NDArray[np.bool_]:
    """Find the records that have exactly these features, store their lists in `state`, and return a mask of these records."""
    end = state.ends[rows]
    walk = Walk(data, state.starts[rows])
    if entries:
        walk.check(walk.enter(BYTES) == end)
    spans: dict[str, tuple[Places, Places, npt.NDArray[np.uint8]]] = {}
    for entry in entries:
        like = _with_values(walk, state.data, entry)
        entry_end, kinds = _enter_alike(walk, like) or _enter(walk, like)
        walk.check(entry_end <= end)
        spans[entry.key.decode("utf-8", "replace")] = (walk.at, entry_end, kinds)
        walk.at = entry_end
    walk.check(walk.at == end)
    is_done = walk.in_step
    done_rows = rows[is_done]
    for name, (starts, ends, kinds) in spans.items():
        if name in state.spans:
            feature_spans = state.spans[name]
            feature_spans.starts[done_rows], feature_spans.ends[done_rows], feature_spans.kinds[done_rows] = (
                starts[is_done],
                ends[is_done],
                kinds[is_done],
            )
        elif state.is_strict:
            state.reasons |= dict.fromkeys(done_rows.tolist(), _unexpected(name))
    return is_done


def _enter_alike(walk: "Walk", entry: _Entry) -> tuple[Places, npt.NDArray[np.uint8]] | None:
    """Move to the values of an entry.

    Return where the values end, and their tags. In each record, the entry must be null or have values of the same size as in the leader.
    Otherwise, return None and leave all positions unchanged.
    """
    is_like = walk.is_at(entry.prefix)
    if is_like.all():
        walk.at = walk.at + len(entry.prefix)
        return walk.at + entry.length, np.full(len(walk.at), entry.kind, np.uint8)
    null = _null_of(entry.key)
    others = np.flatnonzero(~is_like)
    if not (walk.is_at(null, others) | ~walk.in_step[others]).all():
        return None
    walk.at = walk.at + np.where(is_like, len(entry.prefix), len(null))
    return walk.at + np.where(is_like, entry.length, 0), np.where(is_like, entry.kind, NULL).astype(np.uint8)


def _enter(walk: "Walk", entry: _Entry) -> tuple[Places, npt.NDArray[np.uint8]]:
    """Move to the values of an entry, which can have different sizes in different records. Return where the values end, and their tags."""
    entry_end = walk.enter(BYTES)
    walk.expect(delimited(b"\x0a", entry.key) + b"\x12")
    walk.check(walk.jump() == entry_end)
    is_null = walk.at == entry_end
    walk.check((walk.enter(entry.kind, where=~is_null) == entry_end) | is_null)
    if entry.kind in _PACKED:
        # Numbers are packed, so a feature has at most one list of numbers.
        empty = walk.at == entry_end
        walk.check((walk.enter(BYTES, where=~empty) == entry_end) | empty)
    return entry_end, np.where(is_null, NULL, entry.kind).astype(np.uint8)


def _with_values(walk: "Walk", data: bytes, entry: _Entry) -> _Entry:
    """Return the leader's entry. If this entry is null and another record has values for the same key, return that record's entry."""
    if entry.kind != NULL:
        return entry
    (others,) = np.nonzero(walk.in_step & ~walk.is_at(entry.prefix))
    found = _entry_at(data, int(walk.at[others[0]])) if len(others) else None
    return found if found is not None and found.key == entry.key else entry


def _null_of(key: bytes) -> bytes:
    """Return the entry of a feature that has no list."""
    return delimited(b"\x0a", delimited(b"\x0a", key) + b"\x12\x00")


class Walk:
    """The current positions in many records: one position in the payload of each record.

    A record that is out of step can have a position after its end, so arbitrary bytes are read. These bytes never bring the record back
    into step, because the caller of `enter` checks that the entered field ends within the payload.
    """

    def __init__(self, data: npt.NDArray[np.uint8], at: Places) -> None:
        self._data = data
        self.at = at
        self.in_step = np.ones(len(at), np.bool_)

    def check(self, is_so: npt.NDArray[np.bool_]) -> None:
        """Mark the records for which `is_so` is false as out of step."""
        self.in_step &= is_so

    def is_at(self, constant: bytes, records: Places | None = None) -> npt.NDArray[np.bool_]:
        """Return whether each record, or each of `records` if given, has these bytes at its current position."""
        at = self.at if records is None else self.at[records]
        if len(constant) > len(self._data):
            return np.zeros(len(at), np.bool_)
        windows = np.lib.stride_tricks.sliding_window_view(self._data, len(constant))
        is_at: npt.NDArray[np.bool_] = (windows[np.minimum(at, len(windows) - 1)] == np.frombuffer(constant, np.uint8)).all(axis=1)
        return is_at

    def expect(self, constant: bytes) -> None:
        """Skip these bytes in every record. A record that doesn't have these bytes at its position is out of step."""
        self.check(self.is_at(constant))
        self.at = self.at + len(constant)

    def enter(self, tag: int, where: npt.NDArray[np.bool_] | None = None) -> Places:
        """Skip a tag and a length, and return where the field with this length ends.

        If `where` is given, records for which `where` is false keep their positions.
        """
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
        """Skip a length, and return where the field with this length ends."""
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

    def _bytes(self, at: Places) -> Places:
        return self._data[np.minimum(at, len(self._data) - 1)].astype(np.int64)


def _entries(payload: bytes) -> list[_Entry] | None:
    """Return an Example's features, or None if it doesn't have the usual form."""
    if not payload:
        return []
    inner = _delimited_at(payload, 0, BYTES)
    if inner is None or inner[1] != len(payload):
        return None
    entries: dict[bytes, _Entry] = {}
    at = inner[0]
    while at < len(payload):
        entry = _entry_at(payload, at)
        if entry is None or entry.key in entries:
            return None
        entries[entry.key] = entry
        at += len(entry.prefix) + entry.length
    return list(entries.values())


def _entry_at(payload: bytes, at: int) -> _Entry | None:
    """Return the entry that begins at `at`, or None if no entry in the usual form begins there."""
    entry = _delimited_at(payload, at, BYTES)
    key = _delimited_at(payload, entry[0], BYTES) if entry is not None else None
    feature = _delimited_at(payload, key[1], 0x12) if key is not None else None
    if entry is None or key is None or feature is None or feature[1] != entry[1]:
        return None
    values: tuple[int, int] | None = feature
    kind = payload[feature[0]] if feature[0] < feature[1] else NULL
    if feature[0] < feature[1]:
        values = _delimited_at(payload, feature[0], kind) if kind in KINDS else None
    if kind in _PACKED and values is not None and values[0] < values[1]:
        values = _delimited_at(payload, values[0], BYTES)
    if values is None or values[1] != entry[1]:
        return None
    return _Entry(payload[key[0] : key[1]], kind, payload[at : values[0]], values[1] - values[0])


def _delimited_at(payload: bytes, at: int, tag: int) -> tuple[int, int] | None:
    """Return (start, end) of the content of a field with this tag, or None."""
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


def one_by_one(state: LockstepState, rows: Places) -> None:
    """Parse records with protobuf, and append their lists to the data, in the usual form."""
    contents: list[bytes] = []
    size = len(state.data)
    for row in rows.tolist():
        payload = state.data[state.starts[row] : state.ends[row]]
        try:
            features = example(payload)
        except NotWhole as exc:
            state.reasons[row] = str(exc).rstrip(".")
            continue
        for name, values in features.items():
            if name not in state.spans:
                if state.is_strict:
                    state.reasons[row] = _unexpected(name)
                continue
            kind, content = _rewrite(values)
            feature_spans = state.spans[name]
            feature_spans.starts[row], feature_spans.ends[row], feature_spans.kinds[row] = size, size + len(content), kind
            contents.append(content)
            size += len(content)
    state.data += b"".join(contents)


def example(payload: bytes) -> dict[str, list[Any]]:
    """Return the features of one record. Raises NotWhole for a damaged record and for a SequenceExample."""
    features = parse_example(payload)
    inner = _delimited_at(payload, 0, BYTES)
    if payload[:1] == b"\x12" or (inner is not None and payload[inner[1] : inner[1] + 1] == b"\x12"):
        raise NotWhole("The record holds a tf.train.SequenceExample, but no feature of source.tfrecord.features is a sequence.")
    return features


def _rewrite(values: Sequence[Any]) -> tuple[int, bytes]:
    """Convert the values to a list in the usual form, which `_steps` finds. Return the list's tag and content."""
    if not values:
        return NULL, b""
    if isinstance(values[0], bytes):
        return BYTES, b"".join(delimited(b"\x0a", value) for value in values)
    if isinstance(values[0], float):
        return FLOATS, np.array(values, "<f4").tobytes()
    return INTS, b"".join(varint(value & (2**64 - 1)) for value in values)


def _unexpected(name: str) -> str:
    return f"the feature {name!r} wasn't found when the job was planned; list the features in source.tfrecord.features"
