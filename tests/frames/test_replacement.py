"""A data set that is replaced while it is read never gives a mixture of old and new records."""

from pathlib import Path
from typing import Any

import pytest
from tests.builders.dataframes import begin, numbers, run_tasks, write_frame

from dataprep_api.dataset.report import Manifest
from dataprep_converter.core.errors import BadData
from dataprep_frames import publishing, reading
from dataprep_spark.options import read_options
from dataprep_spark.spark_types import TYPES

OLD = [[numbers(0, 2)], [numbers(2, 2)]]


@pytest.fixture
def parts(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> tuple[reading.Source, list[reading.Partition]]:
    """A data set of Parquet files in two partitions."""
    monkeypatch.setattr(reading, "PARTITION_BYTES", 1)
    write_frame(tmp_path / "out", OLD, format="parquet")
    source, manifest = opened(tmp_path / "out")
    return source, source.partitions(manifest)


def opened(folder: Path) -> tuple[reading.Source, Manifest]:
    return reading.open_source(read_options({"path": str(folder)}), TYPES)


def numbers_in(source: reading.Source, partition: reading.Partition) -> list[int]:
    return [row["n"] for batch in source.batches(partition) for row in batch.to_pylist()]


@pytest.mark.parametrize("new", [[[numbers(2, 2)], [numbers(0, 2)]], [[numbers(0, 2)]]], ids=["other records", "fewer files"])
def test_a_partition_that_is_read_after_an_overwrite_names_the_replacement(tmp_path: Path, parts: Any, new: Any) -> None:
    source, (first, second) = parts
    assert numbers_in(source, first) == [0, 1]
    write_frame(tmp_path / "out", new, format="parquet", overwrite=True)
    with pytest.raises(BadData, match="out was replaced while it was read. Read it again."):
        numbers_in(source, second)


def test_an_overwrite_during_a_partition_is_noticed_at_its_end(tmp_path: Path, parts: Any) -> None:
    source, (first, _) = parts
    batches = source.batches(first)
    next(batches)
    write_frame(tmp_path / "out", [[numbers(50, 2)]], format="parquet", overwrite=True)
    with pytest.raises(BadData, match="was replaced while it was read"):
        list(batches)


def test_an_append_does_not_disturb_a_read(tmp_path: Path, parts: Any) -> None:
    source, (first, second) = parts
    assert numbers_in(source, first) == [0, 1]
    write_frame(tmp_path / "out", [[numbers(50, 2)]], format="parquet")
    assert numbers_in(source, second) == [2, 3]


@pytest.mark.parametrize("overwrite", [False, True])
def test_a_commit_that_is_going_on_matters_only_if_it_replaces(
    tmp_path: Path, parts: Any, overwrite: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    source, (first, _) = parts
    write = begin(tmp_path / "out", OLD[0][0].schema, format="parquet", overwrite=overwrite)
    written = run_tasks(write, [[numbers(50, 2)]])

    class Killed(BaseException):
        """Simulates the death of the driver after it has claimed the folder."""

    def killed(*_: object) -> None:
        raise Killed

    monkeypatch.setattr(publishing, "place", killed)
    with pytest.raises(Killed):
        publishing.commit(write, written)
    if overwrite:
        with pytest.raises(BadData, match="was replaced while it was read"):
            numbers_in(source, first)
    else:
        assert numbers_in(source, first) == [0, 1]


def test_a_read_after_success_was_removed_by_hand_is_refused(tmp_path: Path, parts: Any) -> None:
    source, (first, _) = parts
    (tmp_path / "out/_SUCCESS").unlink()
    (tmp_path / "out/_dataprep/OWNER").unlink()
    with pytest.raises(BadData, match="was replaced while it was read"):
        numbers_in(source, first)
