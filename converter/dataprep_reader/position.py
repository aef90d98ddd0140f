"""Positions: where a reader goes on, also if another number of ranks goes on. Pure: numbers in, numbers out.

A rank reads its stretch of an epoch in the stretch's own order. If another number of ranks takes over in the middle of an epoch, the records
that are left in all stretches follow each other, and the new ranks divide them among themselves. From the next epoch on, they divide the
epoch as usual.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, NamedTuple

from dataprep_reader import order
from dataprep_reader.order import Share

VERSION: Final = 1
"""Increased by each release in which the same arguments give a different record order."""
VERSION_WITH_REST: Final = 2
"""The version of a state in an epoch that another number of ranks began. Earlier releases would ignore the rest, so they must refuse it."""
_OF_ORDER: Final = ("data", "shuffle", "shuffle_window", "shuffle_version")
"""What decides the order of an epoch, whatever the number of ranks."""


class Segment(NamedTuple):
    """Consecutive records of a stretch, in the order in which its rank reads them."""

    first: int
    """The number of the stretch's first record in the epoch."""
    records: int
    """The number of records in the stretch."""
    done: int
    """The number of records of the stretch before this segment."""
    size: int
    """The number of records in this segment."""


@dataclass(frozen=True)
class Rest:
    """The records that were left in the middle of an epoch, for all ranks together."""

    epoch: int
    segments: tuple[Segment, ...]

    @property
    def records(self) -> int:
        """The number of records."""
        return sum(segment.size for segment in self.segments)


@dataclass(frozen=True)
class Place:
    """The reader's position."""

    first: int
    """First epoch of the pass. A pass is all epochs that one `for` loop reads."""
    epoch: int
    batch: int
    """Number of the epoch's next batch."""
    rest: Rest | None = None
    """What is read of an epoch that another number of ranks began."""

    def rest_of(self, epoch: int) -> Rest | None:
        """Returns what is read of an epoch, or None if all of it is read."""
        return self.rest if self.rest is not None and self.rest.epoch == epoch else None


def between(segments: Sequence[Segment], first: int, count: int) -> list[Segment]:
    """Returns `count` records of the segments, starting with record number `first` of them all."""
    found: list[Segment] = []
    begin = 0
    for segment in segments:
        low, high = max(begin, first), min(begin + segment.size, first + count)
        if low < high:
            found.append(segment._replace(done=segment.done + low - begin, size=high - low))
        begin += segment.size
    return found


def of_stretch(stretch: Share) -> Segment:
    """Returns a stretch as one segment."""
    return Segment(stretch.first, stretch.records, 0, stretch.records)


# Any, because states are JSON.
def described(place: Place, identity: Mapping[str, Any]) -> dict[str, Any]:
    """Returns a state, as JSON values."""
    state = {"version": VERSION, "first": place.first, "epoch": place.epoch, "batch": place.batch, "of": dict(identity)}
    rest = place.rest_of(place.epoch)
    return state if rest is None else {**state, "version": VERSION_WITH_REST, "rest": [list(segment) for segment in rest.segments]}


def parsed(state: Mapping[str, Any]) -> Place:
    """Returns the position that a state describes. Raises ValueError for anything that isn't a state."""
    version = state.get("version")
    if version not in (VERSION, VERSION_WITH_REST) or not isinstance(state.get("of"), Mapping):
        raise ValueError(f"This is not a reader state of version {VERSION} or {VERSION_WITH_REST}: {str(state)[:200]}.")
    first, epoch, batch = (int(state[name]) for name in ("first", "epoch", "batch"))
    if version == VERSION:
        return Place(first, epoch, batch)
    return Place(first, epoch, batch, Rest(epoch, tuple(Segment(*map(int, segment)) for segment in state["rest"])))


def check_same(of: Mapping[str, Any], identity: Mapping[str, Any], names: Sequence[str]) -> None:
    """Raises ValueError, naming the difference, if a state comes from a reader with another order."""
    for name in names:
        if of.get(name) != identity.get(name):
            raise ValueError(
                f"The state comes from a reader with a different record order: {name} was {of.get(name)!r} and is now {identity.get(name)!r}."
            )


def merged(states: Sequence[Mapping[str, Any]], identity: Mapping[str, Any], *, records: int) -> Place:
    """Returns the position after those of all ranks. `records` is the number of records of an epoch.

    Raises ValueError if these aren't the states of all ranks, each once, at the same time, or if their order differs from ours.
    """
    places = [parsed(state) for state in states]
    ranks = [int(state["of"]["rank"]) for state in states]
    sizes = {int(state["of"]["world_size"]) for state in states}
    if len(sizes) != 1 or sorted(ranks) != list(range(min(sizes))):
        raise ValueError(
            f"The states of all ranks are needed, each once, but got those of the ranks {sorted(ranks)} of {max(sizes, default=0)}."
        )
    for state in states:
        check_same(state["of"], identity, _OF_ORDER)
    epoch, first = min(place.epoch for place in places), min(place.first for place in places)
    for rank, place in zip(ranks, places, strict=True):
        if place.epoch > epoch and (place.epoch, place.batch) != (epoch + 1, 0):
            raise ValueError(
                f"The states weren't taken at the same time: rank {rank} is in epoch {place.epoch}, another rank in epoch {epoch}."
            )
    if all((place.epoch, place.batch, place.rest_of(epoch)) == (epoch, 0, None) for place in places):
        return Place(first, epoch, 0)
    left = [
        segment
        for _, state, place in sorted(zip(ranks, states, places, strict=True), key=lambda each: each[0])
        if place.epoch == epoch
        for segment in between(
            own_segments(state["of"], place.rest_of(epoch), records=records), place.batch * int(state["of"]["batch_size"]), records
        )
    ]
    return Place(first, epoch, 0, Rest(epoch, tuple(left)))


def own_segments(of: Mapping[str, Any], rest: Rest | None, *, records: int) -> list[Segment]:
    """Returns what a rank reads of an epoch, or of the rest of one."""
    shared = records if rest is None else rest.records
    stretch = order.share(
        shared, rank=of["rank"], world_size=of["world_size"], batch_size=of["batch_size"], drop_remainder=of["drop_remainder"]
    )
    return [of_stretch(stretch)] if rest is None else between(rest.segments, stretch.first, stretch.records)
