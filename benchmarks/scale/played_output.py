"""Simulated shards, their reports and bundles of reports, as workers leave them for the commit step. The reports are in one local file, the
pack."""

import hashlib
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import numpy as np
from benchmarks.scale.played_files import pins
from benchmarks.scale.played_store import OUTPUT, ComputedFiles

from dataprep_api import names
from dataprep_api.dataset.plan import PlanHead, Shard, bundles, shards
from dataprep_api.dataset.report import IndexFile, ShardReport
from dataprep_converter.stores import Entry

_SHARD_BYTES: Final = 128 << 20
_INDEX_BYTES: Final = 10_000
_PACK: Final = "reports.pack"
_ENDS: Final = "reports.npy"
_BLOCK: Final = 1024


def report_of(shard: Shard, *, like: ShardReport, entry: Entry, index: Entry) -> ShardReport:
    """Returns the report of a shard. `entry` and `index` are the entries of the shard and of its index.

    The statistics are copied from the report `like`. The shard has an index only if the shard of `like` has one.
    """
    sha256 = hashlib.sha256(shard.file.encode()).hexdigest()
    update: dict[str, Any] = {"number": shard.number, "split": shard.split, "file": shard.file, "pin": entry.pin}
    update |= {"records_in": shard.records, "records_out": shard.records, "bad": 0, "filtered": 0, "added": 0}
    update |= {"size": entry.size, "raw_size": entry.size, "sha256": sha256, "raw_sha256": sha256}
    if like.index is not None:
        update["index"] = IndexFile(file=names.index_file(shard.file), size=index.size, sha256=sha256, pin=index.pin)
    return like.model_copy(update=update)


def write_reports(folder: Path, head: PlanHead, like: ShardReport) -> None:
    """Writes the pack with a report for each shard of the plan, in order. So each bundle is a part of the pack."""
    ends = np.empty(head.shards, np.int64)
    with (folder / _PACK).open("wb") as pack:
        for shard, entry, index in zip(shards(head), _Shards(head).entries(), _Shards(head, is_index=True).entries(), strict=True):
            pack.write(report_of(shard, like=like, entry=entry, index=index).to_bytes())
            ends[shard.number] = pack.tell()
    np.save(folder / _ENDS, ends)


def played_output(folder: Path, head: PlanHead) -> dict[str, ComputedFiles]:
    """Returns the simulated files (shards, indexes, and reports with their bundles) for the store, keyed by the prefixes of their URIs."""
    (split,) = head.splits
    return {
        f"{OUTPUT}/{split.name}-": _Shards(head),
        f"{OUTPUT}/{names.INDEX}/": _Shards(head, is_index=True),
        f"{OUTPUT}/{names.reports_folder(head.run_id)}/": _Reports(head, folder),
    }


@dataclass(frozen=True)
class _Shards:
    """The shards of a plan with one split, or their indexes. All have the same size. They can be listed, but not read."""

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
    """The reports in a pack, and their bundles. Each bundle is a part of the pack. Only the requested reports are in memory."""

    def __init__(self, head: PlanHead, folder: Path) -> None:
        self._run_id = head.run_id
        self._pack = folder / _PACK
        self._ends = np.load(folder / _ENDS, mmap_mode="r")
        self._bundles = {names.bundle_file(head.run_id, bundle.start): bundle for bundle in bundles(head)}

    def entries(self) -> Iterator[Entry]:
        """See `ComputedFiles`."""
        for number in range(len(self._ends)):
            yield self._entry(names.report_file(self._run_id, number), range(number, number + 1))
        for path, bundle in self._bundles.items():
            yield self._entry(path, bundle)

    def entry(self, uri: str) -> Entry | None:
        """See `ComputedFiles`."""
        path = uri.removeprefix(f"{OUTPUT}/")
        numbers = self._numbers(path)
        return self._entry(path, numbers) if numbers else None

    def read(self, uri: str, offset: int, length: int) -> bytes:
        """See `ComputedFiles`."""
        with self._pack.open("rb") as pack:
            pack.seek(self._start(self._numbers(uri.removeprefix(f"{OUTPUT}/")).start) + offset)
            return pack.read(length)

    def _numbers(self, path: str) -> range:
        """Returns the numbers of the reports in this file. The range is empty if there is no such file."""
        digits = path.rpartition("/")[2].removesuffix(".json")
        if digits.isdigit():
            return range(int(digits), min(int(digits) + 1, len(self._ends)))
        return self._bundles.get(path, range(0))

    def _start(self, number: int) -> int:
        return int(self._ends[number - 1]) if number else 0

    def _entry(self, path: str, numbers: range) -> Entry:
        size = int(self._ends[numbers.stop - 1]) - self._start(numbers.start)
        return Entry(f"{OUTPUT}/{path}", size, f"{numbers.start:032x}")


def _pins(count: int) -> Iterator[str]:
    for start in range(0, count, _BLOCK):
        yield from pins(range(start, min(start + _BLOCK, count)))
