"""Executors on other machines write joined rows to a folder below the output's folder. A new driver continues from there."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from tests.builders.joins import a_table
from tests.builders.sql_engines import DuckDBEngine

from dataprep_api.spec import Source
from dataprep_converter.core.errors import BadData
from dataprep_converter.inputs.access import Access
from dataprep_converter.readers.joins import join, join_folder, joined_tables, part_reader, ranges
from dataprep_converter.readers.joins.join import JoinReader
from dataprep_converter.readers.joins.join_folder import JoinFolder

STREAMS = ["t0", "t1", "keys"]
"""The streams of rows, in the order in which they are written."""


class KilledError(BaseException):
    """Simulates the death of the driver. A dead driver can't remove its files."""


class Killed(DuckDBEngine):
    """An engine on other machines. Its driver is killed after `after` streams of rows have been written."""

    def __init__(self, after: int = 99) -> None:
        super().__init__(is_remote=True)
        self.laid_down = 0
        self._after = after

    def lay_down(self, *arguments: Any) -> list[tuple[Any, ...]]:
        """See `SqlEngine`."""
        if self.laid_down == self._after:
            raise KilledError
        self.laid_down += 1
        return super().lay_down(*arguments)


@pytest.fixture(autouse=True)
def small(monkeypatch: pytest.MonkeyPatch) -> None:
    """Divides even small tables into several parts, ranges and units."""
    monkeypatch.setattr(ranges, "RANGE_RECORDS", 7)
    monkeypatch.setattr(part_reader, "PART_BYTES", 1)
    monkeypatch.setattr(join, "UNIT_RECORDS", 10)
    monkeypatch.setattr(joined_tables, "PIECE_RECORDS", 4)


def two(folder: Path, *, first: int = 0, **options: Any) -> Source:
    """Two tables. The second table lacks some keys and has a bad row without a key."""
    numbers = np.arange(first, first + 40)
    left = a_table(folder, "left", pa.table({"id": [f"k{number}" for number in numbers], "x": numbers}))
    keys = [None, *(f"k{number}" for number in numbers[5:])]
    right = a_table(folder, "right", pa.table({"id": keys, "y": [0, *numbers[5:] / 3]}), **options)
    return Source.model_validate({"join": {"keys": ["id"], "tables": [left, right], "missing": "Drop"}})


def planned(source: Source, output: Path, engine: DuckDBEngine | None) -> Any:
    access = Access()
    access.sql_engine, access.output = engine, str(output)
    discovery = JoinReader.discover(source.member, access)
    units, state = discovery.collect()
    assert discovery.intermediate is not None
    files = [file.read_bytes() for file in sorted(discovery.intermediate.folder.iterdir())]
    discovery.intermediate.remove()
    return units.table.drop_columns("uri").to_pylist(), state, files


def kill(source: Source, output: Path, engine: DuckDBEngine) -> None:
    """Plans until the driver is killed."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(JoinFolder, "remove", lambda _: None)
        with pytest.raises(KilledError):
            planned(source, output, engine)


def folders(output: Path) -> list[Path]:
    return sorted(output.glob("_dataprep/join-*"))


@pytest.mark.parametrize("after", range(len(STREAMS)))
def test_a_new_driver_lays_down_only_what_is_missing(after: int, tmp_path: Path) -> None:
    source, output = two(tmp_path), tmp_path / "out"
    kill(source, output, Killed(after))
    [folder] = folders(output)
    assert {file.name.partition("-")[0] for file in folder.glob("*.arrow")} == set(STREAMS[:after])
    engine = Killed()
    assert planned(source, output, engine) == planned(source, output, None)
    assert engine.laid_down == len(STREAMS) - after
    assert not folders(output)


def test_a_new_driver_asks_the_engine_nothing_if_all_is_laid_down(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    source, output = two(tmp_path), tmp_path / "out"

    def killed(*_: Any, **__: Any) -> Iterator[pa.RecordBatch]:
        raise KilledError
        yield  # makes this function a generator

    with monkeypatch.context() as then:
        then.setattr(ranges, "rows_in_files", killed)
        then.setattr(join, "prefetched", lambda values: values)
        kill(source, output, Killed())
    engine = Killed()
    assert planned(source, output, engine) == planned(source, output, None)
    assert (engine.laid_down, engine.parts_read) == (0, 0)
    assert not folders(output)


def test_a_join_of_other_rows_does_not_go_on_from_the_folder(tmp_path: Path) -> None:
    output = tmp_path / "out"
    kill(two(tmp_path), output, Killed(1))
    source, engine = two(tmp_path, first=1), Killed()
    assert planned(source, output, engine) == planned(source, output, None)
    assert engine.laid_down == len(STREAMS)


def test_rows_of_a_database_are_always_read_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    source, output = two(tmp_path), tmp_path / "out"
    monkeypatch.setattr(join_folder, "_UNPINNED", ("parquet",))
    kill(source, output, Killed(1))
    engine = Killed()
    planned(source, output, engine)
    assert engine.laid_down == len(STREAMS)


def test_a_damaged_state_is_made_again(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    source, output = two(tmp_path), tmp_path / "out"
    kill(source, output, Killed(2))
    [folder] = folders(output)
    (folder / "state.json").write_text('{"answers": [')
    engine = Killed()
    assert planned(source, output, engine) == planned(source, output, None)
    assert engine.laid_down == len(STREAMS)
    assert "state.json is damaged, so the tables are joined from the beginning" in caplog.text


def test_a_join_that_is_refused_leaves_no_folder(tmp_path: Path) -> None:
    source, output = two(tmp_path), tmp_path / "out"
    refused = source.model_copy(update={"join": source.member.model_copy(update={"missing": "Refuse"})})
    with pytest.raises(BadData, match="are missing in the table right"):
        planned(refused, output, Killed())
    assert not folders(output)


def test_the_digest_of_a_join_is_the_same_in_each_process(tmp_path: Path) -> None:
    source = two(tmp_path)
    names = set[str]()
    for _ in range(2):
        kill(source, tmp_path / "out", Killed(0))
        names |= {folder.name for folder in folders(tmp_path / "out")}
    assert len(names) == 1
