"""Tests the base class of readers that decode complete units: which blocks and files are cached, and the errors if a unit has changed."""

from collections.abc import Iterator
from pathlib import Path

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pytest
from tests.converter.readers.reader_contract import faults, rows

from dataprep_converter.core.errors import InputChanged
from dataprep_converter.core.lru import LruCache
from dataprep_converter.inputs.access import Access
from dataprep_converter.readers.base import blocks
from dataprep_converter.readers.base.blocks import Block, BlockReader
from dataprep_converter.readers.base.open_files import KEPT_FILES, OpenFiles
from dataprep_converter.sampling.units import Unit, UnitTable
from dataprep_converter.stores import Entry, Input
from dataprep_converter.stores.files import FileInput

SCHEMA = pa.schema([("byte", pa.int64())])


class Bytes(BlockReader):
    """A reader whose records are single bytes; `!` is a bad record. It remembers which units it has loaded."""

    def __init__(self) -> None:
        super().__init__(Access())
        self.loaded: list[int] = []

    def schema(self) -> pa.Schema:
        return SCHEMA

    def load(self, unit: Unit, source: Input) -> Block:
        self.loaded.append(unit.offset)
        data = source.read_at(unit.offset, unit.size)
        return Block.of(
            pa.record_batch({"byte": pa.array(list(data), pa.int64())}), {n: "a shout" for n, c in enumerate(data) if c == ord("!")}
        )


def units_of(file: Path, *, each: int) -> UnitTable:
    entry = Access().store(str(file)).stat(str(file))
    assert entry is not None

    def cut(entry: Entry) -> Iterator[Unit]:
        for offset in range(0, entry.size, each):
            yield Unit(root=0, path=file.name, uri=str(file), records=each, size=each, pin=entry.pin, offset=offset, row=offset)

    return UnitTable.of(cut(entry))


@pytest.fixture
def file(tmp_path: Path) -> Path:
    (tmp_path / "a").write_bytes(b"abcdefgh!jklmnop")
    return tmp_path / "a"


def asked(*orders: list[int]) -> Iterator[npt.NDArray[np.int64]]:
    return (np.array(order, np.int64) for order in orders)


def test_in_order_each_unit_is_loaded_once(file: Path) -> None:
    reader = Bytes()
    found = list(reader.read(units_of(file, each=4), asked([0, 1, 2], [3, 4, 5], [6, 7, 8, 9, 10, 11, 12])))
    assert reader.loaded == [0, 4, 8, 12]
    assert [row["byte"] for row in rows(found)] == list(b"abcdefghjklm")
    assert faults(found) == {8: "a shout"}
    assert [batch.bytes_in for batch in found] == [4, 4, 8]


def test_the_units_loaded_last_are_kept(file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(blocks, "KEPT_BLOCKS", 2)
    reader = Bytes()
    found = list(reader.read(units_of(file, each=4), asked([0], [4], [1], [12], [5], [2])))
    assert reader.loaded == [0, 4, 12, 4, 0]
    assert [row["byte"] for row in rows(found)] == list(b"aebmfc")


def test_a_batch_of_bad_records_only_has_the_columns(file: Path) -> None:
    (batch,) = Bytes().read(units_of(file, each=4), asked([8]))
    assert batch.records.num_rows == 0
    assert batch.records.schema.names == ["byte", "_sample"]
    assert [bad.sample for bad in batch.bad] == [8]


def test_a_batch_of_no_samples_is_empty(file: Path) -> None:
    (batch,) = Bytes().read(units_of(file, each=4), asked([]))
    assert batch.records.num_rows == len(batch.bad) == batch.bytes_in == 0


def test_a_unit_with_another_number_of_records_has_changed(file: Path) -> None:
    units = units_of(file, each=4)
    table = units.table.set_column(units.table.schema.get_field_index("size"), "size", pa.array([3] * len(units), pa.int64()))
    with pytest.raises(InputChanged, match=r"/a: 4 records were planned from record 4 on, got 3\."):
        list(Bytes().read(UnitTable(table), asked([5])))


def test_a_block_knows_where_its_good_rows_are() -> None:
    block = Block.of(pa.record_batch({"n": [0, 2, 3, 5]}), {1: "missing", 4: "missing", 3: "wrong"}, missing=[1, 4])
    assert block.records.column("n").to_pylist() == [0, 2, 5]
    assert block.places.tolist() == [0, -1, 1, -1, -1, 2]


def test_values_are_kept_within_a_weight_but_always_the_last_one() -> None:
    kept: LruCache[int, str] = LruCache(10, 5, len)
    assert [kept.get(key, lambda key=key: "x" * key) for key in (2, 3, 4)] == ["xx", "xxx", "xxxx"]  # type: ignore[misc]  # mypy can't infer a lambda's default
    assert [key for key in (2, 3, 4) if key in kept] == [4]
    kept.get(9, lambda: "x" * 9)
    assert [key for key in (4, 9) if key in kept] == [9]
    kept.get(1, lambda: "x")
    assert [key for key in (9, 1) if key in kept] == [1]


def test_what_reads_from_a_file_ends_before_the_file_does(tmp_path: Path) -> None:
    ended: list[str] = []
    with OpenFiles(Access()) as files:
        views: LruCache[str, Input] = files.views(close=lambda file: ended.append(file.read_at(0, 2).decode()))
        for number in range(KEPT_FILES + 2):
            path = tmp_path / str(number)
            path.write_text(f"{number:02}")
            views.get(str(path), lambda path=path: files.get(str(path), lambda: FileInput(str(path))))  # type: ignore[misc]  # mypy can't infer a lambda's default
        assert ended == ["00", "01"]
        kept = views.get(str(tmp_path / "2"), lambda: FileInput(str(path)))
    assert sorted(ended) == [f"{number:02}" for number in range(KEPT_FILES + 2)]
    with pytest.raises(ValueError, match="is closed"):
        kept.read_at(0, 2)


def test_a_reader_opens_a_closed_file_again(file: Path) -> None:
    with Bytes() as reader:
        for _ in range(2):
            (batch,) = reader.read(units_of(file, each=4), asked([0]))
            assert batch.records.num_rows == 1
            reader.close()
