"""Positions: where a reader continues, even with another number of ranks. All functions are pure.

Each rank reads its stretch of an epoch (`order.py`) in a separate order. If another number of ranks takes over in the middle of an epoch,
the unread records of all stretches are joined into one sequence, the epoch's *rest*. The rest is divided among the new ranks. If some of
the earlier ranks have already begun the next epoch, the unread records of that epoch are divided in the same way. Epochs that no rank has
begun are divided as usual.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, NamedTuple

from dataprep_reader import order
from dataprep_reader.order import Share

VERSION: Final = 1
"""Increased by each release in which the same arguments give a different record order."""
VERSION_WITH_REST: Final = 2
"""The version of a state that contains rests of epochs, because another number of ranks began these epochs.

Earlier releases would ignore the rests, so the version makes them refuse the state.
"""
_OF_ORDER: Final = ("data", "shuffle", "shuffle_window", "shuffle_version")
"""The values that determine an epoch's order, which doesn't depend on the number of ranks."""
_STEPS_BEHIND: Final = "_steps_since_snapshot"
"""A key in the state of torchdata's StatefulDataLoader: how many batches the loader has yielded since it took its workers' states."""


class Segment(NamedTuple):
    """Consecutive records of a stretch, in the order in which its rank reads them."""

    first: int
    """The number of the stretch's first record in the epoch."""
    records: int
    """The number of records in the stretch."""
    done: int
    """The number of the stretch's records that come before this segment."""
    size: int
    """The number of records in this segment."""


@dataclass(frozen=True)
class Rest:
    """All records of an epoch that the earlier ranks haven't read."""

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
    rests: tuple[Rest, ...] = ()
    """The rests of the epochs that another number of ranks began. The current ranks read only these records of the epochs."""

    def rest_of(self, epoch: int) -> Rest | None:
        """Returns the rest of an epoch, or None if the current ranks read the complete epoch."""
        return next((rest for rest in self.rests if rest.epoch == epoch), None)

    def rests_from(self, epoch: int) -> tuple[Rest, ...]:
        """Returns the rests of this epoch and of later epochs. An epoch that is read completely has no rest."""
        return tuple(rest for rest in self.rests if rest.epoch >= epoch)


def between(segments: Sequence[Segment], first: int, count: int) -> list[Segment]:
    """Returns `count` records of the concatenated segments, starting with record number `first`."""
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
    rests = [{"epoch": rest.epoch, "segments": [list(segment) for segment in rest.segments]} for rest in place.rests_from(place.epoch)]
    return {**state, "version": VERSION_WITH_REST, "rests": rests} if rests else state


def parsed(state: Mapping[str, Any]) -> Place:
    """Returns the position that a state describes. Raises ValueError for anything that isn't a state."""
    version = state.get("version")
    if version not in (VERSION, VERSION_WITH_REST) or not is_state(state):
        raise ValueError(f"This is not a reader state of version {VERSION} or {VERSION_WITH_REST}: {str(state)[:200]}.")
    first, epoch, batch = (int(state[name]) for name in ("first", "epoch", "batch"))
    rests = state["rests"] if version == VERSION_WITH_REST else ()
    return Place(first, epoch, batch, tuple(_rest(rest) for rest in rests))


def _rest(stored: Mapping[str, Any]) -> Rest:
    return Rest(int(stored["epoch"]), tuple(Segment(*map(int, segment)) for segment in stored["segments"]))


def found(saved: object) -> list[Mapping[str, Any]]:
    """Returns the reader states in the saved state of a loader or a checkpoint. Dictionaries and lists are searched at any depth.

    Raises ValueError if the loader has yielded batches since it took the states.
    """
    if isinstance(saved, Mapping):
        if is_state(saved):
            return [saved]
        if steps := saved.get(_STEPS_BEHIND):
            raise ValueError(
                f"The loader has yielded {steps} batches since it took the states of its workers, so their records would be read twice:"
                " make the StatefulDataLoader with snapshot_every_n_steps=1."
            )
        return [state for each in saved.values() for state in found(each)]
    return [state for each in saved for state in found(each)] if isinstance(saved, list | tuple) else []


def is_state(saved: Mapping[str, Any]) -> bool:
    """Whether this is a state of a reader, of any version."""
    return isinstance(saved.get("of"), Mapping)


def check_same(of: Mapping[str, Any], identity: Mapping[str, Any], names: Sequence[str]) -> None:
    """Raises ValueError, naming the difference, if a state comes from a reader with another order."""
    for name in names:
        if of.get(name) != identity.get(name):
            raise ValueError(
                f"The state comes from a reader with a different record order: {name} was {of.get(name)!r} and is now {identity.get(name)!r}."
            )


def merged(states: Sequence[Mapping[str, Any]], identity: Mapping[str, Any], *, records: int) -> Place:
    """Combines the states of all ranks into one position, from which any number of ranks can continue.

    `records` is the number of records in an epoch.

    Raises ValueError if a rank's state is missing or repeated, if the states weren't taken at the same time, or if their record order
    differs from `identity`.
    """
    places = [parsed(state) for state in states]
    ranks = [int(state["of"]["rank"]) for state in states]
    sizes = {int(state["of"]["world_size"]) for state in states}
    if len(sizes) != 1 or sorted(ranks) != list(range(min(sizes))):
        raise ValueError(
            f"There are {max(sizes, default=0)} ranks, and the state of each rank is needed exactly once; got the states of the ranks "
            f"{sorted(ranks)}."
        )
    for state in states:
        check_same(state["of"], identity, _OF_ORDER)
    by_rank = {rank: _Rank(state["of"], place) for rank, state, place in zip(ranks, states, places, strict=True)}
    ranked = [by_rank[rank] for rank in range(len(by_rank))]
    _check_same_time(ranked, records)
    first, epoch = min(place.first for place in places), min(place.epoch for place in places)
    last = max((*(place.epoch for place in places), *(rest.epoch for place in places for rest in place.rests)))
    begun = [each for each in range(epoch, last + 1) if any(rank.has_begun(each) for rank in ranked)]
    rests = (Rest(each, tuple(segment for rank in ranked for segment in rank.left_of(each, records))) for each in begun)
    return Place(first, epoch, 0, tuple(rests))


@dataclass(frozen=True)
class _Rank:
    """One of the ranks whose states are merged."""

    of: Mapping[str, Any]
    place: Place

    def has_begun(self, epoch: int) -> bool:
        """Returns whether the rank has begun the epoch. If so, the epoch can't be divided as usual."""
        at = self.place
        return at.epoch > epoch or (at.epoch == epoch and at.batch > 0) or at.rest_of(epoch) is not None

    def left_of(self, epoch: int, records: int) -> list[Segment]:
        """Returns the records of an epoch that this rank hasn't read yet."""
        if self.place.epoch > epoch:
            return []
        done = self.place.batch * int(self.of["batch_size"]) if self.place.epoch == epoch else 0
        return between(own_segments(self.of, self.place.rest_of(epoch), records=records), done, records)

    def batches_until(self, epoch: int, records: int) -> int:
        """Returns the number of batches that the rank still has to read before it reaches this epoch."""
        shares = (own_share(self.of, self.place.rest_of(each), records=records) for each in range(self.place.epoch, epoch))
        return sum(share.batches for share in shares) - self.place.batch


def _check_same_time(ranked: Sequence[_Rank], records: int) -> None:
    """Raises ValueError if two ranks are in different epochs and can't have read the same number of batches.

    In each epoch, a rank has at most one batch less than any other rank, and a worker of a loader may be one batch ahead of another worker.
    A rank that has reached the end of an epoch may wait there.
    """
    ahead = max(range(len(ranked)), key=lambda rank: (ranked[rank].place.epoch, ranked[rank].place.batch))
    place = ranked[ahead].place
    for behind in ranked:
        waits = (place.epoch, place.batch) <= (behind.place.epoch + 1, 0)
        if not waits and behind.batches_until(place.epoch, records) + place.batch > place.epoch + 1:
            raise ValueError(
                f"The states weren't taken at the same time: rank {ahead} is in epoch {place.epoch}, but another rank is in epoch"
                f" {behind.place.epoch}."
            )


def own_share(of: Mapping[str, Any], rest: Rest | None, *, records: int) -> Share:
    """Returns a rank's stretch of an epoch. If there is a `rest`, returns the rank's stretch of the rest."""
    shared = records if rest is None else rest.records
    return order.share(
        shared, rank=of["rank"], world_size=of["world_size"], batch_size=of["batch_size"], drop_remainder=of["drop_remainder"]
    )


def own_segments(of: Mapping[str, Any], rest: Rest | None, *, records: int) -> list[Segment]:
    """Returns the segments of an epoch that a rank reads. If there is a `rest`, returns the rank's segments of the rest."""
    stretch = own_share(of, rest, records=records)
    return [of_stretch(stretch)] if rest is None else between(rest.segments, stretch.first, stretch.records)
