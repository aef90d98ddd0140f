"""Turns the files of successful attempts into shards of the plan: gives the files their final names, and stores their reports."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import islice

from dataprep_api import names
from dataprep_api.dataset.plan import PlanHead, Shard, shards
from dataprep_api.dataset.report import Companion, ShardReport
from dataprep_converter.core.errors import NotWhole
from dataprep_converter.dataset.output_folder import RunFolder
from dataprep_converter.runtime.ahead import mapped_ahead
from dataprep_frames.moving import AT_ONCE, Move, Mover
from dataprep_frames.writing import ROW_BITS


@dataclass(frozen=True)
class WrittenFile:
    """A file that a successful attempt has written."""

    partition: int
    nth: int
    folder: str
    """The URI of the attempt's folder."""
    report: ShardReport

    @property
    def first_row(self) -> int:
        """The number of the partition's first row."""
        return self.partition << ROW_BITS


@dataclass(frozen=True)
class Placed:
    """A written file, and the shard of the plan that it becomes."""

    file: WrittenFile
    shard: Shard

    @property
    def companions(self) -> list[Companion]:
        """The companions with their final names, which are in the shard's folder."""
        folder = self.shard.file.rpartition("/")[0]
        last = [companion.file.rpartition("/")[2] for companion in self.file.report.companions]
        return [
            companion.model_copy(update={"file": names.join(folder, name) if folder else name})
            for companion, name in zip(self.file.report.companions, last, strict=True)
        ]

    def moves(self) -> Iterator[Move]:
        """Yields the moves of the shard's file, its companions and its index, in this order."""
        report = self.file.report
        yield Move(names.join(self.file.folder, report.file), self.shard.file, report.size, report.sha256, report.pin)
        for before, after in zip(report.companions, self.companions, strict=True):
            yield Move(names.join(self.file.folder, before.file), after.file, before.size, before.sha256, None)
        if (index := report.index) is not None:
            yield Move(names.join(self.file.folder, index.file), names.index_file(self.shard.file), index.size, index.sha256, index.pin)


def as_shards(files: Sequence[WrittenFile], head: PlanHead, uri: str) -> list[Placed]:
    """Returns the files with the shards of the plan that they become.

    Raises NotWhole if two of the files would get the same final name, or if an earlier shard of the data set already has the name.
    """
    every = shards(head)
    taken = {shard.file for shard in islice(every, head.earlier_shards)}
    placed = [Placed(file, shard) for file, shard in zip(files, every, strict=True)]
    for move in all_moves(placed):
        if move.target in taken:
            raise NotWhole(
                f"Two files of {uri} would have the name {move.target}, so nothing was changed. Set fileName to a template that gives the files "
                "of each split other names, such as '{split}-{shard}.{ext}'.",
                uri=names.join(uri, move.target),
            )
        taken.add(move.target)
    return placed


def all_moves(placed: Sequence[Placed]) -> list[Move]:
    """Returns the moves of all files."""
    return [move for each in placed for move in each.moves()]


def place(placed: Sequence[Placed], plan_sha256: str, folder: RunFolder, mover: Mover) -> None:
    """Gives the files their final names, and stores their reports."""
    moves = all_moves(placed)
    mover.make_room(moves)

    def place_shard(each: Placed) -> ShardReport:
        entries = [mover.move(move) for move in each.moves()]
        report = each.file.report
        index = report.index and report.index.model_copy(update={"file": names.index_file(each.shard.file), "pin": entries[-1].pin})
        return report.model_copy(
            update={
                "plan_sha256": plan_sha256,
                "number": each.shard.number,
                "file": each.shard.file,
                "pin": entries[0].pin,
                "companions": each.companions,
                "index": index,
            }
        )

    reports = list(mapped_ahead(place_shard, placed, most=AT_ONCE))
    mover.make_durable(moves)
    for _ in mapped_ahead(folder.put_report, reports, most=AT_ONCE):
        pass
