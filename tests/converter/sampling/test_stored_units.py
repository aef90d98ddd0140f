"""Units that are read one row group at a time equal those of the complete table. A worker reads only the row groups that it needs."""

import io
from contextlib import nullcontext
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from tests.builders.files import put, visible
from tests.builders.jobs import run_job

from dataprep_api.dataset.plan import PlanHead, UnitGroups, shards
from dataprep_api.resources.job import DataPrepJob
from dataprep_converter.core.errors import NotWhole, OutputLost
from dataprep_converter.dataset.output_folder import OutputFolder, RunFolder
from dataprep_converter.inputs.access import Access
from dataprep_converter.pipeline.shard_samples import samples_of
from dataprep_converter.sampling import units as units_module
from dataprep_converter.sampling import units_file
from dataprep_converter.sampling.stored_units import StoredUnits
from dataprep_converter.sampling.units import Unit, Units, UnitTable
from dataprep_converter.sampling.units_file import UnitsFile

BLOCK = 100
_parquet: Any = pq  # the stubs lack in-memory files


@pytest.fixture(autouse=True)
def small_groups(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(units_module, "BLOCK", BLOCK)


class Stored:
    """A stored table of units, and the ranges of it that were read."""

    def __init__(self, table: UnitTable) -> None:
        with UnitsFile.of(table) as file:
            self.content = b"".join(file.pieces())
            groups = file.groups(table)
        assert groups is not None
        self.groups: UnitGroups = groups
        self.reads: list[int] = []
        self.head = head_of(table)

    def open(self) -> StoredUnits:
        def read_range(offset: int, length: int) -> bytes:
            self.reads.append(offset)
            return self.content[offset : offset + length]

        return StoredUnits(self.head, self.groups, read_range, errors=nullcontext)


def head_of(table: UnitTable) -> PlanHead:
    return PlanHead(
        run_id="r",
        encoding_version=1,
        spec_sha256="",
        inputs_sha256="",
        units_sha256="",
        reader="idx",
        samples=table.samples,
        bytes_in=0,
        splits=[],
        extension="",
        tasks=1,
    )


def table_of(records: list[int], *, with_keys: bool = False) -> UnitTable:
    """Returns units with these numbers of records. The units of a file follow each other."""
    table = UnitTable.of(
        Unit(number % 3, f"{number // 7}.csv", f"/in/{number // 7}.csv", count, 10 * count, f"pin {number}", row=number % 7)
        for number, count in enumerate(records)
    )
    if with_keys:
        table.keys()
    return table


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.lists(st.integers(0, 3), min_size=BLOCK + 1, max_size=4 * BLOCK), st.booleans(), st.randoms(use_true_random=False))
def test_units_equal_those_of_the_complete_table(records: list[int], with_keys: bool, dice: Any) -> None:
    table = table_of(records, with_keys=with_keys)
    units = Stored(table).open()

    assert (len(units), units.samples) == (len(table), table.samples)
    samples = np.array(dice.sample(range(table.samples), min(table.samples, 50)), np.int64)
    for stored, whole in ((units.locate(samples), table.locate(samples)), (units.hash_inputs(samples), table.hash_inputs(samples))):
        assert [column.tolist() for column in stored] == [column.tolist() for column in whole]
    index = np.array(dice.sample(range(len(table)), 20), np.int64)
    assert units.rows(index, ["uri", "first", "pin"]) == table.rows(index, ["uri", "first", "pin"])
    assert [units.unit(number) for number in index.tolist()] == [table.unit(number) for number in index.tolist()]
    if table.samples:
        assert units.origin(table.samples - 1) == table.origin(table.samples - 1)


def test_the_file_says_where_its_groups_are() -> None:
    stored = Stored(table_of([2] * (2 * BLOCK + 5)))
    metadata = _parquet.read_metadata(io.BytesIO(stored.content))

    assert stored.groups.firsts == [0, 2 * BLOCK, 4 * BLOCK]
    assert (stored.groups.rows, stored.groups.units) == (BLOCK, metadata.num_rows)
    assert stored.groups.offsets[-1] == len(stored.content)
    # A Parquet file ends with the footer, its length in four bytes, and PAR1.
    assert stored.groups.offsets[-2] == len(stored.content) - metadata.serialized_size - 8


def test_one_group_is_no_list_of_groups() -> None:
    table = table_of([1] * BLOCK)
    with UnitsFile.of(table) as file:
        assert file.groups(table) is None


def test_samples_in_order_read_each_group_once_and_keep_few() -> None:
    stored = Stored(table_of([3] * (10 * BLOCK)))
    units = stored.open()
    for first in range(0, units.samples, 50):
        units.locate(np.arange(first, first + 50))
        units.hash_inputs(np.arange(first, first + 50))

    footer, first, *others = stored.reads
    assert footer == stored.groups.offsets[-2]
    assert [first, *others] == stored.groups.offsets[:-2]


@pytest.mark.parametrize("place", [50, -50], ids=["a group", "the footer"])
def test_damage_is_named(place: int) -> None:
    stored = Stored(table_of([1] * (2 * BLOCK)))
    content = bytearray(stored.content)
    content[place] ^= 1
    stored.content = bytes(content)

    with pytest.raises(NotWhole, match=r"units\.parquet of run r doesn't have the digest in plan\.json\. The plan step or dataprep repair"):
        stored.open().unit(0)


def a_job(folder: Path, out: str, **rest: Any) -> DataPrepJob:  # Any, because fields of a spec have many types
    put(folder / "in", {f"{number:04}.txt": f"file {number}".encode() for number in range(5 * BLOCK + 7)})
    spec = {"source": {"wholeFile": {"uris": [str(folder / "in")]}}, "output": {"uri": str(folder / out), "shards": {"count": 10}}}
    return DataPrepJob.parse({"metadata": {"name": "files"}, "spec": spec | rest})


JOBS: dict[str, dict[str, Any]] = {
    "in order": {},
    "shuffled": {"shuffle": {"seed": 3}},
    "splits by fraction": {"splits": {"seed": 1, "into": [{"name": "train", "fraction": 0.8}, {"name": "test", "fraction": 0.2}]}},
}


@pytest.mark.parametrize("rest", JOBS.values(), ids=list(JOBS))
def test_a_data_set_has_the_same_bytes_however_its_units_are_stored(
    tmp_path: Path, rest: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    run_job(a_job(tmp_path, "groups", **rest))
    monkeypatch.setattr(units_module, "BLOCK", 65_536)
    run_job(a_job(tmp_path, "whole", **rest))

    plans = {path.parent.parent.parent.name: path.read_text() for path in tmp_path.glob("*/_dataprep/*/plan.json")}
    assert ["unitGroups" in plans[name] for name in ("groups", "whole")] == [True, False]
    assert ['"version":3' in plans[name] for name in ("groups", "whole")] == [True, False]
    files = visible(tmp_path / "whole")
    assert files == visible(tmp_path / "groups")
    for file in set(files) - {"_SUCCESS"}:
        assert (tmp_path / "groups" / file).read_bytes() == (tmp_path / "whole" / file).read_bytes()


def test_a_worker_reads_the_groups_of_its_shards_alone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    job = a_job(tmp_path, "out")
    result, _ = run_job(job)
    read: list[int] = []
    inner = StoredUnits._read

    def counted(units: StoredUnits, number: int) -> pa.RecordBatch:
        read.append(number)
        return inner(units, number)

    monkeypatch.setattr(StoredUnits, "_read", counted)

    plan = OutputFolder(job.spec.output.uri, Access()).of_run(result.run_id).plan_for_work()
    assert plan is not None
    units: Units = plan.units
    last = list(shards(plan.head))[-1]
    for samples in samples_of(last, plan=plan, most_records=100):
        index, _ = units.locate(samples)
        units.rows(index, ["uri"])

    assert (last.first, last.records, read) == (456, 51, [4, 5])


def test_groups_that_are_too_large_or_of_different_sizes_are_not_listed(monkeypatch: pytest.MonkeyPatch) -> None:
    table = table_of([1] * (2 * BLOCK))
    with UnitsFile.of(table) as file:
        monkeypatch.setattr(units_file, "_LARGEST_GROUP", 1000)
        assert file.groups(table) is None

    parts = [table.table.slice(0, 7), table.table.slice(7, BLOCK), table.table.slice(7 + BLOCK)]
    buffer = io.BytesIO()
    with _parquet.ParquetWriter(buffer, table.table.schema) as writer:
        for part in parts:
            writer.write_table(part)
    monkeypatch.undo()
    with UnitsFile([buffer.getvalue()]) as file:
        assert file.groups(table) is None


def a_plan_for_work(tmp_path: Path) -> tuple[RunFolder, Units]:
    job = a_job(tmp_path, "out")
    result, _ = run_job(job)
    folder = OutputFolder(job.spec.output.uri, Access()).of_run(result.run_id)
    plan = folder.plan_for_work()
    assert plan is not None
    assert isinstance(plan.units, StoredUnits)
    return folder, plan.units


def test_a_plan_that_is_removed_during_the_work_is_named(tmp_path: Path) -> None:
    folder, units = a_plan_for_work(tmp_path)
    file = tmp_path / "out/_dataprep" / folder.run_id / "units.parquet"
    content = file.read_bytes()
    file.write_bytes(content[:1000] + bytes([content[1000] ^ 1]) + content[1001:])
    with pytest.raises(NotWhole, match=rf"^{tmp_path}/out: units\.parquet of run {folder.run_id} doesn't have the digest in plan\.json"):
        units.rows(np.arange(5 * BLOCK), ["uri"])
    file.unlink()
    with pytest.raises(NotWhole, match=rf"{file}.* The plan names this file\. The plan step creates a new plan"):
        units.unit(5 * BLOCK)


def test_the_run_that_has_taken_over_the_folder_is_named(tmp_path: Path) -> None:
    folder, units = a_plan_for_work(tmp_path)
    other = OutputFolder(str(tmp_path / "out"), Access()).of_run("0123456789abcdef")
    (tmp_path / "out/_dataprep" / folder.run_id / "units.parquet").unlink()
    (tmp_path / "out/_dataprep/OWNER").write_text((tmp_path / "out/_dataprep/OWNER").read_text().replace(folder.run_id, other.run_id))
    with pytest.raises(OutputLost, match="0123456789abcdef"):
        units.unit(0)
