"""Gives the files of successful attempts their final names, and stores their reports."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import islice
from typing import Final

from dataprep_api import names
from dataprep_api.dataset.plan import PlanHead, Shard, shards
from dataprep_api.dataset.report import Companion, ShardReport
from dataprep_converter.core.errors import NotFound, NotWhole
from dataprep_converter.dataset.output_folder import RunFolder
from dataprep_converter.inputs.access import Access
from dataprep_converter.runtime.ahead import mapped_ahead
from dataprep_converter.stores import Entry, MovesFiles, Store, SyncsFolders
from dataprep_converter.stores.publish import copy_file
from dataprep_spark.writing import ROW_BITS

_AT_ONCE: Final = 8


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


Placed = tuple[WrittenFile, Shard]
"""A written file, and the shard of the plan that it becomes."""


def as_shards(files: Sequence[WrittenFile], head: PlanHead, uri: str) -> list[Placed]:
    """Returns the files with the shards of the plan that they become.

    Raises NotWhole if the final name of a file belongs to a shard of the data set that is extended, or to another of the files.
    """
    every = shards(head)
    taken = {shard.file for shard in islice(every, head.earlier_shards)}
    placed = list(zip(files, every, strict=True))
    for file, shard in placed:
        for _, target, _ in _moves(file, shard):
            if target in taken:
                raise NotWhole(
                    f"Two files of {uri} would have the name {target}, so nothing was changed. Set fileName to a template that gives the files "
                    "of each split other names, such as '{split}-{shard}.{ext}'.",
                    uri=names.join(uri, target),
                )
            taken.add(target)
    return placed


def check_sources(placed: Sequence[Placed], access: Access) -> None:
    """Raises NotWhole unless all files are as their tasks wrote them. Called before anything in the output folder is changed."""

    def check(item: Placed) -> None:
        report = item[0].report
        # Tasks report no pins of companions.
        expected = [(report.size, report.pin), *((companion.size, None) for companion in report.companions)]
        expected += [(report.index.size, report.index.pin)] if report.index is not None else []
        for (source, _, _), (size, pin) in zip(_moves(*item), expected, strict=True):
            entry = access.store(source).stat(source)
            if entry is None:
                raise NotWhole(f"{source} is gone, although its task has succeeded: something has removed it.", uri=source)
            if entry.size != size or pin not in (None, entry.pin):
                raise NotWhole(f"{source} has changed since its task wrote it.", uri=source)

    for _ in mapped_ahead(check, placed, most=_AT_ONCE):
        pass


def place(new: Sequence[Placed], plan_sha256: str, folder: RunFolder, access: Access) -> None:
    """Gives the files their final names, and stores their reports. Files of replaced runs with these names are removed first."""
    store = access.store(folder.uri)
    targets = {target for file, shard in new for _, target, _ in _moves(file, shard)}
    present = {path for path, _ in (*folder.visible(), *folder.indexes())}
    folder.remove(sorted(targets & present))
    folders = sorted({folder.at(target).rpartition("/")[0] for target in targets})
    if isinstance(store, MovesFiles):
        for each in folders:
            store.make_folder(each)

    def place_shard(item: Placed) -> ShardReport:
        file, shard = item
        folder.check_owner()
        entries = [_move(store, source, folder.at(target), sha256, folder) for source, target, sha256 in _moves(file, shard)]
        report = file.report
        index = report.index.model_copy(update={"file": names.index_file(shard.file), "pin": entries[-1].pin}) if report.index else None
        return report.model_copy(
            update={
                "plan_sha256": plan_sha256,
                "number": shard.number,
                "file": shard.file,
                "pin": entries[0].pin,
                "companions": _companions(file, shard),
                "index": index,
            }
        )

    reports = list(mapped_ahead(place_shard, new, most=_AT_ONCE))
    if isinstance(store, SyncsFolders):
        for each in folders:
            store.sync_folder(each)
    for _ in mapped_ahead(folder.put_report, reports, most=_AT_ONCE):
        pass


def _companions(file: WrittenFile, shard: Shard) -> list[Companion]:
    """Returns the companions with their final names: in the shard's folder."""
    beside = shard.file.rpartition("/")[0]
    last = [companion.file.rpartition("/")[2] for companion in file.report.companions]
    return [
        companion.model_copy(update={"file": names.join(beside, name) if beside else name})
        for companion, name in zip(file.report.companions, last, strict=True)
    ]


def _moves(file: WrittenFile, shard: Shard) -> Iterator[tuple[str, str, str]]:
    """Yields (URI in the attempt's folder, final path, SHA-256) of the shard's file, its companions and its index, in this order."""
    report = file.report
    yield names.join(file.folder, report.file), shard.file, report.sha256
    for before, after in zip(report.companions, _companions(file, shard), strict=True):
        yield names.join(file.folder, before.file), after.file, before.sha256
    if report.index is not None:
        yield names.join(file.folder, report.index.file), names.index_file(shard.file), report.index.sha256


def _move(store: Store, source: str, target: str, sha256: str, folder: RunFolder) -> Entry:
    """Moves a file to a name that no file has. On a store that can't move files, copies it. Returns the moved file's entry."""
    try:
        if not isinstance(store, MovesFiles):
            return copy_file(store, source, store, target, sha256=sha256, on_piece=lambda: None, before_publishing=folder.check_owner)
        store.move(source, target)
    except NotFound as exc:
        # The response to an earlier request to move the file may have been lost.
        if store.stat(source) is not None or store.stat(target) is None:
            folder.check_owner()
            raise NotWhole(f"{source} is gone, although its task has succeeded: something has removed it.", uri=source) from exc
    entry = store.stat(target)
    if entry is None:
        raise NotWhole(f"{target} is gone: something has removed it.", uri=target)
    return entry
