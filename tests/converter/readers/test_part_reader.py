"""The machines of an SQL engine read parts of a table. They report bad rows and errors as rows without keys."""

import pickle
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from dataprep_api.spec.sources.join import JoinTable
from dataprep_converter.core.errors import BrokenRecord, InputChanged
from dataprep_converter.inputs.access import Access
from dataprep_converter.readers import reader_class
from dataprep_converter.readers.joins import part_reader
from dataprep_converter.readers.joins.open_table import OpenTable
from dataprep_converter.readers.joins.part_reader import PartReader, error_of
from dataprep_converter.readers.joins.tables import Columns

KEYS = pa.schema([("id", pa.int64())])


def parts_of(folder: Path, *, keys: list[Any], part_bytes: int, patch: pytest.MonkeyPatch) -> PartReader:
    """The reader of a Parquet file. Each unit is a row group of ten rows. The column `x` contains the row's number."""
    patch.setattr(part_reader, "PART_BYTES", part_bytes)
    rows = pa.table({"id": pa.array(keys, pa.int64()), "x": pa.array(range(len(keys)), pa.int64())})
    pq.write_table(rows, folder / "table.parquet", row_group_size=10, compression="none", use_dictionary=False)
    spec = JoinTable.model_validate({"name": "table", "source": {"parquet": {"uris": [str(folder / "table.parquet")]}}})
    access = Access()
    kind = reader_class(spec.source.kind)
    units, state = kind.discover(spec.source.member, access).collect()
    with kind(spec.source.member, state, access) as reader:
        columns = Columns(KEYS, pa.schema([("x", pa.int64())]))
        table = OpenTable(0, spec, reader, units, ["id"], ["x"], columns, state, access.rules())
        return pickle.loads(pickle.dumps(PartReader.of(table)))  # type: ignore[no-any-return]  # noqa: S301 - it was pickled just now


def rows_of(parts: PartReader, part: int) -> list[dict[str, Any]]:
    batches = list(parts(Access(), part))
    assert all(batch.schema == parts.schema for batch in batches)
    return [row for batch in batches for row in batch.to_pylist()]


@pytest.mark.parametrize(("part_bytes", "parts"), [(1, 3), (1 << 20, 1)])
def test_parts_begin_at_units_and_have_all_rows(part_bytes: int, parts: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    reader = parts_of(tmp_path, keys=list(range(100, 125)), part_bytes=part_bytes, patch=monkeypatch)
    assert reader.parts == parts
    assert reader.borders == ([0, 10, 20, 25] if parts == 3 else [0, 25])
    rows = [row for part in range(reader.parts) for row in rows_of(reader, part)]
    assert rows == [{"row": row, "k0": 100 + row, "c0": row, "what": None, "said": None} for row in range(25)]


def test_a_row_without_a_key_is_said_to_be_bad(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    reader = parts_of(tmp_path, keys=[*range(12), None, 13], part_bytes=1, patch=monkeypatch)
    said = [row for row in rows_of(reader, 1) if row["what"] is not None]
    assert said == [{"row": 12, "k0": None, "c0": None, "what": "bad", "said": "id has no value, and a null is no key of a join"}]


def test_an_error_of_the_reader_is_said_with_the_first_row_of_the_part(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    reader = parts_of(tmp_path, keys=list(range(25)), part_bytes=1, patch=monkeypatch)
    (tmp_path / "table.parquet").write_bytes(b"PAR1")
    (row,) = rows_of(reader, 2)
    assert (row["row"], row["k0"], row["what"]) == (20, None, "error")
    error = error_of(row["said"])
    assert isinstance(error, InputChanged)
    assert str(tmp_path / "table.parquet") in str(error)


def test_an_error_that_cannot_be_pickled_keeps_its_message() -> None:
    assert str(error_of(part_reader.text_of(BrokenRecord("no end", offset=7)))) == "no end at offset 7"


def test_a_table_without_rows_has_an_empty_part(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    reader = parts_of(tmp_path, keys=[], part_bytes=1, patch=monkeypatch)
    assert reader.parts == 1
    assert rows_of(reader, 0) == []
