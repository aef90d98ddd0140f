"""Played shards and their reports, as workers leave them for the commit step. The reports are in one local file, the pack."""

import hashlib
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import numpy as np
from benchmarks.scale.played_files import pins
from benchmarks.scale.played_store import OUTPUT, ComputedFiles

from dataprep_api import names
from dataprep_api.dataset.plan import PlanHead, Shard, shards
from dataprep_api.dataset.report import IndexFile, ShardReport
from dataprep_converter.stores import Entry

_SHARD_BYTES: Final = 128 << 20
_INDEX_BYTES: Final = 10_000
_PACK: Final = "reports.pack"
_ENDS: Final = "reports.npy"
_BLOCK: Final = 1024


def report_of(shard: Shard, *, like: ShardReport, entry: Entry, index: Entry) -> ShardReport:
    """Returns the report of a shard. `entry` and `index` are the entries of the shard and of its index.

    The statistics are copied from the report `like`. The shard has an index only if `like` has one.
    """
    sha256 = hashlib.sha256(shard.file.encode()).hexdigest()
    update: dict[str, Any] = {"number": shard.number, "split": shard.split, "file": shard.file, "pin": entry.pin}
    update |= {"records_in": shard.records, "records_out": shard.records, "bad": 0, "filtered": 0, "added": 0}
    update |= {"size": entry.size, "raw_size": entry.size, "sha256": sha256, "raw_sha256": sha256}
    if like.index is not None:
        update["index"] = IndexFile(file=names.index_file(shard.file), size=index.size, sha256=sha256, pin=index.pin)
    return like.model_copy(update=update)


def write_reports(folder: Path, head: PlanHead, like: ShardReport) -> None:
    """Writes the pack with a report for each shard of the plan."""
    ends = np.empty(head.shards, np.int64)
    with (folder / _PACK).open("wb") as pack:
        for shard, entry, index in zip(shards(head), _Shards(head).entries(), _Shards(head, is_index=True).entries(), strict=True):
            pack.write(report_of(shard, like=like, entry=entry, index=index).to_bytes())
            ends[shard.number] = pack.tell()
    np.save(folder / _ENDS, ends)


def played_output(folder: Path, head: PlanHead) -> dict[str, ComputedFiles]:
    """Returns the played shards, indexes and reports by their prefixes, for the store."""
    (split,) = head.splits
    return {
        f"{OUTPUT}/{split.name}-": _Shards(head),
        f"{OUTPUT}/{names.INDEX}/": _Shards(head, is_index=True),
        f"{OUTPUT}/{names.report_file(head.run_id, 0).rpartition('/')[0]}/": _Reports(head, folder),
    }


@dataclass(frozen=True)
class _Shards:
    """The shards of a plan with one split, or their indexes. All have the same size, and only their entries exist."""

    head: PlanHead
    is_index: bool = False

    def entries(self) -> Iterator[Entry]:
        """See `ComputedFiles`."""
        for shard, pin in zip(shards(self.head), _pins(self.head.shards), strict=True):
            yield self._entry(f"{OUTPUT}/{names.index_file(shard.file) if self.is_index else shard.file}", pin)

    def entry(self, uri: str) -> Entry | None:
        """See `ComputedFiles`."""
        number = int(uri.rpartition("/")[2].split("-")[1])
        return self._entry(uri, pins(range(number, number + 1))[0])

    def read(self, uri: str, offset: int, length: int) -> bytes:
        """Raises NotImplementedError, because the commit step reads no shards."""
        raise NotImplementedError(f"{uri} has no contents")

    def _entry(self, uri: str, pin: str) -> Entry:
        return Entry(uri, _INDEX_BYTES if self.is_index else _SHARD_BYTES, pin)


class _Reports:
    """The reports in a pack. Only the requested reports are in memory."""

    def __init__(self, head: PlanHead, folder: Path) -> None:
        self._run_id = head.run_id
        self._pack = folder / _PACK
        self._ends = np.load(folder / _ENDS, mmap_mode="r")

    def entries(self) -> Iterator[Entry]:
        """See `ComputedFiles`."""
        for number in range(len(self._ends)):
            yield self._entry(number)

    def entry(self, uri: str) -> Entry | None:
        """See `ComputedFiles`."""
        digits = uri.rpartition("/")[2].removesuffix(".json")
        return self._entry(int(digits)) if digits.isdigit() and int(digits) < len(self._ends) else None

    def read(self, uri: str, offset: int, length: int) -> bytes:
        """See `ComputedFiles`."""
        number = int(uri.rpartition("/")[2].removesuffix(".json"))
        with self._pack.open("rb") as pack:
            pack.seek(self._start(number) + offset)
            return pack.read(length)

    def _start(self, number: int) -> int:
        return int(self._ends[number - 1]) if number else 0

    def _entry(self, number: int) -> Entry:
        size = int(self._ends[number]) - self._start(number)
        return Entry(f"{OUTPUT}/{names.report_file(self._run_id, number)}", size, f"{number:032x}")


def _pins(count: int) -> Iterator[str]:
    for start in range(0, count, _BLOCK):
        yield from pins(range(start, min(start + _BLOCK, count)))
