"""Convert tf.train.Examples to columns.

`lockstep.py` finds the lists of values in a stretch of records. This module then decodes each feature's lists in one call.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from dataprep_converter.core.tensors import Array, arrow_type, binary, binary_data, masked, to_arrow, to_numpy
from dataprep_converter.formats.tfrecord.lockstep import (
    BYTES,
    FLOATS,
    INTS,
    KINDS,
    NULL,
    LockstepState,
    Places,
    Spans,
    Walk,
    in_lockstep,
    one_by_one,
)

_NUMBERS: Final[Mapping[int, str]] = {FLOATS: "float32", INTS: "int64"}
_WIDEST_VARINT: Final = 10
_SHORT: Final = 64
"""If all non-empty spans have the same size, of at most this many bytes, numpy copies the spans. Otherwise, Arrow copies them."""

_arrow: Any = pa  # the type stubs don't cover numpy's buffers


@dataclass(frozen=True)
class ColumnFeature:
    """A feature that becomes a column."""

    name: str
    kind: int
    """The tag of the feature's list."""
    shape: tuple[int, ...] | None
    """The shape of the tensor. () means one value, and None means any number of values."""
    raw: str | None = None
    """numpy's name for the numeric type, if the feature's bytes hold numbers."""

    @property
    def values(self) -> int | None:
        """The number of values in the list, or None for any number."""
        return self.shape if self.shape is None else 1 if self.raw is not None else math.prod(self.shape)

    @property
    def type(self) -> pa.DataType:
        """The type of the column."""
        if self.raw is not None:
            return arrow_type(self.raw, self.shape or ())
        if self.shape:
            return arrow_type(_NUMBERS[self.kind], self.shape)
        value = pa.large_binary() if self.kind == BYTES else arrow_type(_NUMBERS[self.kind])
        return value if self.shape is not None else pa.large_list(value)


def parse(
    data: bytes, starts: Places, ends: Places, features: Sequence[ColumnFeature], *, is_strict: bool, holds_nulls: bool = False
) -> tuple[list[Array], dict[int, str]]:
    """Parse records. Return a column of the good records' values for each feature, and a dict that describes the bad records.

    The dict maps the number of each bad record to the reason. The payload of record n is `data[starts[n]:ends[n]]`. With `is_strict`, a
    feature that isn't in `features` makes a record bad. With `holds_nulls`, a feature that has a shape but no value is a null, because our
    encoder writes nulls this way. Without `holds_nulls`, a feature that has a shape but no value makes the record bad.
    """
    spans = {feature.name: Spans(starts.copy(), starts.copy(), np.zeros(len(starts), np.uint8)) for feature in features}
    state = LockstepState(data, starts, ends, spans, is_strict)
    remaining = in_lockstep(state)
    one_by_one(state, remaining)
    lists = [_lists(state, feature, holds_nulls) for feature in features]
    is_good = np.ones(len(starts), np.bool_)
    is_good[list(state.reasons)] = False
    return [_column(column, feature, is_good) for column, feature in zip(lists, features, strict=True)], dict(sorted(state.reasons.items()))


def _lists(state: LockstepState, feature: ColumnFeature, holds_nulls: bool) -> Any:
    """Return the values of each record as a list. If a record is bad, its list is arbitrary, and the reason is stored in `state`."""
    spans = state.spans[feature.name]
    name = feature.name
    if feature.shape is not None:
        absent = spans.kinds == 0 if holds_nulls else (spans.kinds == 0) | (spans.kinds == NULL)
        _blame(state, np.flatnonzero(absent), f"the feature {name!r} is missing")
    for kind in set(KINDS) - {feature.kind}:
        wrong = np.flatnonzero((spans.kinds == kind) & (spans.ends > spans.starts))
        _blame(state, wrong, f"the feature {name!r} holds {KINDS[kind]}, expected {KINDS[feature.kind]}")
        spans.ends[wrong] = spans.starts[wrong]
    if feature.kind == BYTES:
        lists = _bytes_lists(state, spans, feature)
    else:
        content, offsets = _gather(state.data, spans)
        lists = _float_lists(state, content, offsets, name) if feature.kind == FLOATS else _int_lists(state, content, offsets, name)
    if feature.values is not None:
        counts = np.diff(np.asarray(lists.offsets))
        wrong = (counts != feature.values) & (counts != 0) if holds_nulls else counts != feature.values
        for row in np.flatnonzero(wrong).tolist():
            state.reasons.setdefault(row, f"the feature {name!r} has {counts[row]:,} values, expected {feature.values:,}")
    return lists


def _blame(state: LockstepState, rows: Places, reason: str) -> None:
    for row in rows.tolist():
        state.reasons.setdefault(row, reason)


def _gather(data: bytes, spans: Spans) -> tuple[npt.NDArray[np.uint8], Places]:
    """Return the concatenated bytes of all spans, and the spans' offsets: where each span begins, and where the last span ends."""
    lengths = spans.ends - spans.starts
    width = int(lengths.max(initial=0))
    is_full = lengths == width
    if width <= _SHORT and (is_full | (lengths == 0)).all():
        windows = np.lib.stride_tricks.sliding_window_view(np.frombuffer(data, np.uint8), max(1, width))
        content = windows[spans.starts[is_full]].reshape(-1) if width else np.empty(0, np.uint8)
        return content, np.concatenate((np.zeros(1, np.int64), np.cumsum(lengths)))
    order = np.argsort(spans.starts, kind="stable")
    cuts = np.stack((spans.starts[order], spans.ends[order]), axis=1).reshape(-1)
    # Spans and the gaps between them form a column of byte strings. Taking every second string copies all spans, without computing an index
    # for each byte.
    places = np.empty(len(order), np.int64)
    places[order] = np.arange(0, 2 * len(order), 2)
    column: Array = _arrow.Array.from_buffers(pa.large_binary(), len(cuts) - 1, [None, _arrow.py_buffer(cuts), _arrow.py_buffer(data)])
    content, offsets = binary_data(column.take(to_arrow(places)))
    return content[offsets[0] : offsets[-1]], offsets - offsets[0]


def _large_lists(offsets: Places, values: Array) -> Any:
    return _arrow.LargeListArray.from_arrays(to_arrow(offsets), values)


def _float_lists(state: LockstepState, content: npt.NDArray[np.uint8], offsets: Places, name: str) -> Any:
    odd = np.flatnonzero(np.diff(offsets) % 4)
    if len(odd):
        _blame(state, odd, f"the feature {name!r} has a size that isn't a multiple of 4 bytes, the size of a float")
        content, offsets = _empty_rows(content, offsets, odd)
    return _large_lists(offsets // 4, to_arrow(content.view("<f4")))


def _int_lists(state: LockstepState, content: npt.NDArray[np.uint8], offsets: Places, name: str) -> Any:
    last = content[offsets[1:] - 1] >= 0x80 if len(content) else np.zeros(len(offsets) - 1, np.bool_)
    open_ended = np.flatnonzero((np.diff(offsets) > 0) & last)
    if len(open_ended):
        _blame(state, open_ended, f"the feature {name!r} ends within a number")
        content, offsets = _empty_rows(content, offsets, open_ended)
    stops = np.flatnonzero(content < 0x80) + 1
    starts = np.concatenate((np.zeros(1, np.int64), stops))[:-1]
    numbers = np.searchsorted(stops, offsets, side="right") if len(stops) != len(content) else offsets
    widths = stops - starts
    if len(widths) and widths.max() > _WIDEST_VARINT:
        rows = np.unique(np.searchsorted(numbers, np.flatnonzero(widths > _WIDEST_VARINT), side="right") - 1)
        _blame(state, rows, f"the feature {name!r} holds a number of more than 64 bits")
        content, offsets = _empty_rows(content, offsets, rows)
        return _int_lists(state, content, offsets, name)
    return _large_lists(numbers, to_arrow(_numbers(content, starts, widths)))


def _numbers(content: npt.NDArray[np.uint8], starts: Places, widths: Places) -> npt.NDArray[np.int64]:
    """Decode the varints that begin at `starts`."""
    if len(content) == len(starts):
        return content.astype(np.int64)
    values = (content[starts] & 0x7F).astype(np.uint64)
    for group in range(1, int(widths.max(initial=1))):
        wide = np.flatnonzero(widths > group)
        values[wide] |= (content[starts[wide] + group] & 0x7F).astype(np.uint64) << np.uint64(7 * group)
    return values.view(np.int64)


def _empty_rows(content: npt.NDArray[np.uint8], offsets: Places, rows: Places) -> tuple[npt.NDArray[np.uint8], Places]:
    """Remove the contents of the given rows. Return the remaining contents and the new offsets."""
    lengths = np.diff(offsets)
    keep = np.ones(len(lengths), np.bool_)
    keep[rows] = False
    remaining = content[np.repeat(keep, lengths)]
    return remaining, np.concatenate((np.zeros(1, np.int64), np.cumsum(np.where(keep, lengths, 0))))


def _bytes_lists(state: LockstepState, spans: Spans, feature: ColumnFeature) -> Any:
    """Return lists of byte strings. Every value has its own tag and length, so one vectorised step locates the n-th value of every
    record."""
    data = np.frombuffer(state.data, np.uint8)
    rows = np.flatnonzero(spans.ends > spans.starts)
    at, end = spans.starts[rows], spans.ends[rows]
    pieces: list[tuple[Places, Places, Places]] = []
    while len(rows):
        walk = Walk(data, at)
        stop = walk.enter(BYTES)
        walk.check(stop <= end)
        good = walk.in_step
        _blame(state, rows[~good], f"the feature {feature.name!r} isn't a list of bytes")
        pieces.append((rows[good], walk.at[good], stop[good]))
        more = good & (stop < end)
        rows, at, end = rows[more], stop[more], end[more]
    if not pieces:
        return _large_lists(np.zeros(len(spans.starts) + 1, np.int64), pa.array([], pa.large_binary()))
    owners, starts, stops = (np.concatenate(parts) for parts in zip(*pieces, strict=True))
    counts = np.bincount(owners, minlength=len(spans.starts))
    order = np.argsort(owners, kind="stable") if len(pieces) > 1 else slice(None)
    content, offsets = _gather(state.data, Spans(starts[order], stops[order], np.empty(0, np.uint8)))
    lists = _large_lists(np.concatenate((np.zeros(1, np.int64), np.cumsum(counts))), binary(content, offsets))
    if feature.raw is not None:
        _check_raw(state, owners, stops - starts, feature)
    return lists


def _check_raw(state: LockstepState, rows: Places, sizes: Places, feature: ColumnFeature) -> None:
    expected_size = math.prod(feature.shape or ()) * np.dtype(feature.raw).itemsize
    wrong = sizes != expected_size
    expectation = f"a tensor {feature.raw}{list(feature.shape or ())} has {expected_size:,}"
    for row, size in zip(rows[wrong].tolist(), sizes[wrong].tolist(), strict=True):
        state.reasons.setdefault(row, f"the feature {feature.name!r} has {size:,} bytes, {expectation}")


def _column(lists: Any, feature: ColumnFeature, is_good: npt.NDArray[np.bool_]) -> Array:
    """Convert the lists of the good records to the feature's column."""
    if not is_good.all():
        lists = lists.filter(to_arrow(is_good))
    if feature.shape is None:
        return lists  # type: ignore[no-any-return] # a large_list array
    values = lists.flatten()
    if feature.values and len(values) < len(lists) * feature.values:
        return _with_nulls(values, np.diff(np.asarray(lists.offsets)) == 0, feature)
    return _tensors(values, feature)


def _tensors(values: Any, feature: ColumnFeature) -> Array:
    """Convert the values of all records to a column with the feature's type."""
    if feature.raw is not None:
        content, offsets = binary_data(values)
        dtype = np.dtype(feature.raw).newbyteorder("<")
        numbers = content[offsets[0] : offsets[-1]]
        tensors = numbers != 0 if dtype.kind == "b" else numbers.view(dtype).astype(dtype.newbyteorder("="), copy=False)
        return to_arrow(tensors.reshape(len(values), *(feature.shape or ())))
    if not feature.shape:
        return values  # type: ignore[no-any-return] # an array of the values
    return to_arrow(np.asarray(values).reshape(-1, *feature.shape))


def _with_nulls(values: Any, missing: npt.NDArray[np.bool_], feature: ColumnFeature) -> Array:
    """Convert the records' values to a column. The records that `missing` marks have no values and become nulls."""
    present = _tensors(values, feature)
    if feature.kind == BYTES and feature.raw is None:
        return present.take(_arrow.array(np.cumsum(~missing) - 1, mask=missing))
    numbers = to_numpy(present)
    filled = np.zeros((len(missing), *numbers.shape[1:]), numbers.dtype)
    filled[~missing] = numbers
    return masked(to_arrow(filled), missing)
