"""Units that are kept in a file instead of in memory.

For any number of units, the rows and `units.parquet` are the same as if the units were kept in memory.
"""

import hashlib
import io
import random
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from dataprep_converter.core.errors import StoreFull
from dataprep_converter.planning.planned_inputs import units_sha256
from dataprep_converter.planning.splits import subset_ranges
from dataprep_converter.sampling import units as units_module
from dataprep_converter.sampling.units import Files, Unit, UnitTable
from dataprep_converter.sampling.units_file import UnitsFile

BLOCK = 1000
_write: Any = pq.write_table  # the stubs lack in-memory files
_arrow: Any = pa  # the stubs lack memory pools


@pytest.fixture(autouse=True)
def small_batches(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(units_module, "BLOCK", BLOCK)


def files(count: int) -> Iterator[Files]:
    """Yields names that can't be compressed, a few hundred at a time."""
    dice = random.Random(1)  # noqa: S311 - not used for secrets
    left = count
    while left:
        names = [dice.randbytes(dice.randrange(4, 12)).hex() for _ in range(min(left, dice.randrange(1, 700)))]
        left -= len(names)
        sizes = [dice.randrange(1000) for _ in names]
        yield Files(left % 3, names, [f"/in/{name}" for name in names], sizes, names, ["ab"[left % 2]] * len(names), [""] * len(names))


def in_memory(units: UnitTable) -> bytes:
    """Returns `units.parquet`, written in one call."""
    buffer = io.BytesIO()
    _write(units.table.combine_chunks(), buffer, compression="zstd", row_group_size=BLOCK, write_statistics=False)
    return buffer.getvalue()


@pytest.mark.parametrize("count", [0, BLOCK, BLOCK + 77])
@pytest.mark.parametrize("with_keys", [False, True], ids=["without keys", "with keys"])
def test_the_file_has_the_bytes_that_it_has_in_one_piece(count: int, with_keys: bool) -> None:
    units = UnitTable.of(files(count))
    if with_keys and count:
        units.keys()
    with UnitsFile.of(units) as stored:
        assert b"".join(stored.pieces()) == in_memory(units)
        assert stored.sha256 == hashlib.sha256(in_memory(units)).hexdigest()
        with UnitsFile(stored.pieces()) as copy:
            back = copy.units()
    assert back.table.equals(units.table)
    assert back.samples == units.samples == count


def test_the_row_groups_are_described_without_a_column_in_memory() -> None:
    units = UnitTable.of(files(50 * BLOCK))
    with UnitsFile.of(units) as stored, memory_pool() as pool:
        groups = stored.groups(units)
        assert groups is not None
        assert groups.firsts == list(range(0, 50 * BLOCK, BLOCK))
        assert pool.max_memory() < 2 * BLOCK * 8


@contextmanager
def memory_pool() -> Iterator[Any]:
    """Within the block, Arrow uses a new memory pool. The pool reports the most memory that was in use at any one time."""
    before = _arrow.default_memory_pool()
    pool = _arrow.proxy_memory_pool(before)
    _arrow.set_memory_pool(pool)
    try:
        yield pool
    finally:
        _arrow.set_memory_pool(before)


def test_rows_are_found_in_any_order_and_in_all_batches() -> None:
    units = UnitTable.of(files(2 * BLOCK + 77))
    whole = units.table.combine_chunks()
    index = np.array([2 * BLOCK + 76, 0, BLOCK, BLOCK - 1, BLOCK, 5])
    expected = [{"path": whole["path"][int(row)].as_py(), "size": whole["size"][int(row)].as_py()} for row in index]
    assert units.rows(index, ["path", "size"]) == expected
    assert units.size == int(whole["size"].to_numpy().sum())


def test_one_unit_of_another_kind_gives_all_of_them_numbers_of_their_own() -> None:
    units = UnitTable.of([*files(BLOCK), Unit(0, "rows.csv", "/in/rows.csv", 10, 400, "p", row=3), *files(2)])
    index, within = units.locate(np.array([BLOCK - 1, BLOCK, BLOCK + 9, BLOCK + 10]))
    assert index.tolist() == [BLOCK - 1, BLOCK, BLOCK, BLOCK + 1]
    assert within.tolist() == [0, 0, 9, 0]
    assert units.hash_inputs(np.array([BLOCK + 9]))[1].tolist() == [12]


def test_a_subset_that_goes_on_in_the_next_batch_is_one_range() -> None:
    names = [str(number) for number in range(BLOCK)]
    some = [Files(0, names, names, [1] * BLOCK, names, [subset] * BLOCK, names) for subset in ("a", "a", "b", "a")]
    assert subset_ranges(UnitTable.of(some)) == {"a": [(0, 2 * BLOCK), (3 * BLOCK, 4 * BLOCK)], "b": [(2 * BLOCK, 3 * BLOCK)]}


def test_the_digest_of_the_inputs_is_that_of_a_table_in_memory() -> None:
    units = UnitTable.of(files(BLOCK + 77))
    assert units_sha256(units, None) == units_sha256(UnitTable(units.table), None)


def test_units_in_a_file_take_little_memory() -> None:
    before = pa.total_allocated_bytes()
    units = UnitTable.of(files(20 * BLOCK))
    assert pa.total_allocated_bytes() - before < 1 << 20 < units.table.nbytes


def test_a_full_disk_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    with open("/dev/full", "r+b", buffering=0) as full:  # noqa: PTH123 - a device
        monkeypatch.setattr(tempfile, "TemporaryFile", lambda **_: full)
        with pytest.raises(StoreFull, match=r"has no room for the plan's units: No space left on device\.$"):
            UnitTable.of(files(BLOCK + 1))
