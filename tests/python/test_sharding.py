"""How rows are divided into shards, and how threads write them."""

import threading
from collections.abc import Iterator

import pyarrow as pa
import pytest

from dataprep_io.data.sharding import Limits, shards_of, written_by_threads
from dataprep_io.data.streams import Stream


def a_stream(rows: int, *, in_batches: int, size: int | None = None) -> Stream:
    table = pa.table({"n": pa.array(range(rows), pa.int64())})
    return Stream(table.schema, iter(table.to_batches(max_chunksize=in_batches)), size)


def counts(stream: Stream, limits: Limits) -> list[int]:
    return [sum(batch.num_rows for batch in shard) for shard in shards_of(stream, limits)]


def test_a_shard_ends_at_its_number_of_records() -> None:
    assert counts(a_stream(10, in_batches=3), Limits(records=4)) == [4, 4, 2]


def test_a_shard_ends_at_its_size() -> None:
    assert counts(a_stream(100, in_batches=30), Limits(size=320)) == [40, 40, 20]


def test_a_record_larger_than_the_size_is_a_shard() -> None:
    assert counts(a_stream(3, in_batches=2), Limits(size=1)) == [1, 1, 1]


def test_rows_of_known_size_are_divided_evenly() -> None:
    assert counts(a_stream(100, in_batches=30, size=800), Limits(size=320)) == [34, 34, 32]


def test_rows_that_fit_are_one_shard_even_if_a_column_of_splits_was_added() -> None:
    assert counts(a_stream(100, in_batches=30, size=500), Limits(size=1000)) == [100]


def test_results_are_in_the_order_of_the_shards() -> None:
    shards = shards_of(a_stream(40, in_batches=7), Limits(records=4))
    seen = written_by_threads(shards, lambda number, first, rows: (number, first, rows[0]["n"][0].as_py()), workers=3)
    assert seen == [(number, 4 * number, 4 * number) for number in range(10)]


def test_only_a_few_shards_are_collected_ahead() -> None:
    asked = 0
    most = 0
    done = threading.Lock()
    written = 0

    def shards() -> Iterator[list[pa.RecordBatch]]:
        nonlocal asked
        for _ in range(20):
            asked += 1
            yield []

    def write(number: int, first: int, rows: list[pa.RecordBatch]) -> None:
        nonlocal most, written
        del number, first, rows
        with done:
            most = max(most, asked - written)
            written += 1

    written_by_threads(shards(), write, workers=2)
    assert written == 20
    assert most <= 4


def test_after_an_error_no_further_shard_is_collected() -> None:
    asked = 0

    def shards() -> Iterator[list[pa.RecordBatch]]:
        nonlocal asked
        for _ in range(1000):
            asked += 1
            yield []

    def fail(number: int, first: int, rows: list[pa.RecordBatch]) -> None:
        del first, rows
        if number == 3:
            raise ValueError("the disk is full")

    with pytest.raises(ValueError, match="the disk is full"):
        written_by_threads(shards(), fail, workers=2)
    assert asked < 10
