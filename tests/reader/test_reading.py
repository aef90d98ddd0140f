"""A data set's batches: counts, epochs, order, ranks, and continuing at any position."""

import json
import pickle
import shutil
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.builders import pairs
from tests.builders.examples import examples
from tests.reader.sets import exactly, flat, halves, ns, numbers, opened

from dataprep_converter.core.errors import BadData
from dataprep_reader import Reader, shards

COUNT = 137


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return numbers(tmp_path_factory.mktemp("reading"), count=COUNT)


@pytest.fixture(scope="module")
def folders(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """Data sets with the same records, each in three files.

    Depending on the data set, its files can be read from any record, from any group of records, or only from the beginning.
    """
    made = tmp_path_factory.mktemp
    return {
        "index": numbers(made("index"), count=COUNT),
        "gzip": numbers(made("gzip"), count=COUNT, tfrecord={"compression": "Gzip"}),
        "parquet": numbers(made("parquet"), count=COUNT, format="parquet", parquet={"rowGroupRecords": 9}),
        "arrow": numbers(made("arrow"), count=COUNT, format="arrow", arrow={"batchRecords": 11}),
        "jsonl": numbers(made("jsonl"), count=COUNT, format="jsonl"),
    }


@pytest.fixture(autouse=True)
def small_parts(monkeypatch: pytest.MonkeyPatch) -> None:
    """Makes parts so small that even small data sets have many parts."""
    monkeypatch.setattr(shards, "PART_BYTES", 300)


@pytest.fixture(autouse=True)
def no_thread_is_left() -> Iterator[None]:
    yield
    assert [thread.name for thread in threading.enumerate() if thread.name.startswith("dataprep-")] == []


# --- counts and epochs ------------------------------------------------------------------------------------------------


def test_two_epochs_of_the_55000_digits_in_batches_of_100(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.undo()
    folder = numbers(tmp_path, count=55_000)
    reader = opened(folder, batch_size=100, epochs=2, as_="arrow")
    assert (len(reader), reader.batches, reader.records) == (1_100, 550, 55_000)
    assert [batch.num_rows for batch in reader] == [100] * 1_100
    reader = opened(folder, batch_size=32)
    assert [len(batch["n"]) for batch in reader] == [32] * 1_718 + [24]
    assert [len(batch["n"]) for batch in opened(folder, batch_size=32, drop_remainder=True)] == [32] * 1_718
    assert [len(opened(folder, batch_size=128, drop_remainder=drop)) for drop in (False, True)] == [430, 429]


FORMATS = ("index", "gzip", "parquet", "arrow", "jsonl")


@pytest.mark.parametrize("kind", FORMATS)
def test_records_come_in_the_stored_order(folders: dict[str, Path], kind: str) -> None:
    found = ns(opened(folders[kind], batch_size=10, epochs=2, threads=3))
    assert [len(batch) for batch in found] == ([10] * 13 + [7]) * 2
    assert [number for batch in found for number in batch] == [*range(COUNT), *range(COUNT)]


@pytest.mark.parametrize("kind", FORMATS)
def test_what_is_dropped_does_not_come_in_the_next_epoch(folders: dict[str, Path], kind: str) -> None:
    assert ns(opened(folders[kind], batch_size=50, epochs=2, drop_remainder=True)) == [list(range(50)), list(range(50, 100))] * 2
    found = ns(opened(folders[kind], batch_size=50, epochs=3, drop_remainder=True, shuffle=1, shuffle_window=30))
    for epoch in range(3):
        mine = found[2 * epoch] + found[2 * epoch + 1]
        assert len(set(mine)) == 100


def test_a_reader_without_an_end(folder: Path) -> None:
    reader = opened(folder, batch_size=COUNT, epochs=None)
    with pytest.raises(TypeError, match="has no length; `batches` is the number of batches in one epoch"):
        len(reader)
    assert reader.batches == 1
    for found, batch in enumerate(reader):
        assert batch["n"].tolist() == list(range(COUNT))
        if found == 4:
            break


@pytest.mark.parametrize("epochs", [1, None])
def test_a_data_set_without_records_has_no_batches(tmp_path: Path, epochs: int | None) -> None:
    reader = opened(numbers(tmp_path, count=0), epochs=epochs)
    assert (reader.records, reader.batches, list(reader)) == (0, 0, [])
    few = opened(numbers(tmp_path / "few", count=3), epochs=epochs, batch_size=4, drop_remainder=True, shuffle=1)
    assert (few.records, few.batches, list(few)) == (3, 0, [])


@pytest.mark.parametrize("options", [{"prefetch": 0, "threads": 1}, {"prefetch": 1, "threads": 4}, {"prefetch": 5}])
def test_threads_and_prefetch_change_no_record(folder: Path, options: dict[str, Any]) -> None:
    assert flat(opened(folder, **options)) == list(range(COUNT))
    assert flat(opened(folder, shuffle=3, shuffle_window=20, **options)) == flat(opened(folder, shuffle=3, shuffle_window=20))


# --- shuffle ----------------------------------------------------------------------------------------------------------


@pytest.mark.slow
@pytest.mark.parametrize(
    ("kind", "window"),
    pairs.chosen(
        ((kind, window) for kind in FORMATS for window in (9, None)), lambda kind, window: pairs.has_turn(kind, window, FORMATS, (9, None))
    ),
)
def test_every_epoch_has_every_record_once_in_an_order_of_its_own(folders: dict[str, Path], kind: str, window: int | None) -> None:
    reader = opened(folders[kind], batch_size=10, epochs=3, shuffle=5, shuffle_window=window)
    found = flat(reader)
    epochs = [found[first : first + COUNT] for first in range(0, 3 * COUNT, COUNT)]
    assert all(sorted(epoch) == list(range(COUNT)) for epoch in epochs)
    assert len({tuple(epoch) for epoch in [*epochs, list(range(COUNT))]}) == 4
    assert flat(opened(folders[kind], epochs=3, shuffle=5, shuffle_window=window)) == found
    assert flat(opened(folders[kind], epochs=3, shuffle=6, shuffle_window=window)) != found


def test_a_window_that_holds_all_mixes_all(folder: Path) -> None:
    """By default, a small data set fits into one shuffle window.

    So the first tenth of the shuffled records comes from all tenths of the data set.
    """
    first = flat(opened(folder, shuffle=5))[: COUNT // 10]
    assert len({number * 10 // COUNT for number in first}) >= 6


def test_the_next_pass_goes_on_with_the_next_epochs(folder: Path) -> None:
    whole = flat(opened(folder, shuffle=5, epochs=4))
    reader = opened(folder, shuffle=5, epochs=2)
    assert flat(reader) + flat(reader) == whole
    one = opened(folder, shuffle=5)
    one.set_epoch(2)
    assert flat(one) + flat(one) == whole[2 * COUNT :]


def test_a_pass_that_was_left_is_begun_again(folder: Path) -> None:
    reader = opened(folder, shuffle=5, batch_size=10)
    first = next(iter(reader))["n"].tolist()
    assert ns(reader)[0] == first


# --- ranks ------------------------------------------------------------------------------------------------------------


@pytest.mark.slow
@settings(max_examples=examples(15))
@given(st.integers(1, 5), st.integers(1, 30), st.booleans(), st.sampled_from([None, 1, 2]), st.sampled_from([1, 25, 1000]))
def test_ranks_share_every_epoch(folder: Path, ranks: int, size: int, drop: bool, seed: int | None, window: int) -> None:
    options: dict[str, Any] = {"batch_size": size, "drop_remainder": drop, "shuffle": seed, "shuffle_window": window, "epochs": 2}
    readers = [opened(folder, rank=rank, world_size=ranks, **options) for rank in range(ranks)]
    found = [ns(reader) for reader in readers]
    assert [len(batches) for batches in found] == [len(reader) for reader in readers]
    for epoch in range(2):
        mine = [batches[epoch * reader.batches : (epoch + 1) * reader.batches] for batches, reader in zip(found, readers, strict=True)]
        seen = [number for batches in mine for batch in batches for number in batch]
        assert len(set(seen)) == len(seen)
        if drop:
            assert {tuple(len(batch) for batch in batches) for batches in mine} == {(size,) * (COUNT // ranks // size)}
        else:
            assert sorted(seen) == list(range(COUNT))


@pytest.mark.parametrize("kind", FORMATS)
def test_a_rank_begins_anywhere(folders: dict[str, Path], kind: str) -> None:
    readers = [opened(folders[kind], rank=rank, world_size=4, batch_size=8) for rank in range(4)]
    assert [number for reader in readers for number in flat(reader)] == list(range(COUNT))


def test_parts_of_a_rank_are_ranks_themselves(folder: Path) -> None:
    whole = opened(folder, rank=1, world_size=2, shuffle=4, batch_size=6)
    assert flat(whole.part(2, 3)) == flat(opened(folder, rank=5, world_size=6, shuffle=4, batch_size=6))
    assert sorted(n for part in range(3) for n in flat(whole.part(part, 3))) == sorted(flat(whole))


# --- state ------------------------------------------------------------------------------------------------------------


@pytest.mark.slow
@settings(max_examples=examples(30))
@given(
    st.sampled_from(FORMATS),
    st.integers(0, 30),
    st.sampled_from([None, 8]),
    st.sampled_from([1, 7, 25, 1000]),
    st.booleans(),
    st.integers(0, 1),
)
def test_a_restored_reader_goes_on_with_the_next_batch(
    folders: dict[str, Path], kind: str, taken: int, seed: int | None, window: int, drop: bool, rank: int
) -> None:
    def reader() -> Reader:
        return opened(
            folders[kind], batch_size=6, epochs=3, shuffle=seed, shuffle_window=window, drop_remainder=drop, rank=rank, world_size=2
        )

    whole = ns(reader())
    first = reader()
    batches = iter(first)
    before = [next(batches)["n"].tolist() for _ in range(taken)]
    state = json.loads(json.dumps(first.state()))
    batches.close()  # type: ignore[attr-defined]  # a generator, but the type doesn't say so
    other = reader()
    other.restore(state)
    assert other.state() == state
    assert before + ns(other) == whole
    assert other.state() == {**state, "first": 3, "epoch": 3, "batch": 0}


def test_a_state_is_small_and_knows_its_place(folder: Path) -> None:
    reader = opened(folder, batch_size=50, epochs=2, shuffle=5)
    places = [(reader.state()["epoch"], reader.state()["batch"]) for _ in reader]
    assert places == [(0, 1), (0, 2), (1, 0), (1, 1), (1, 2), (2, 0)]
    assert len(json.dumps(reader.state())) < 400


def test_a_state_as_earlier_releases_stored_it_is_restored(folder: Path) -> None:
    reader = opened(folder, batch_size=10, shuffle=5, shuffle_window=40)
    of = {"batch_size": 10, "shuffle": 5, "drop_remainder": False, "rank": 0, "world_size": 1, "shuffle_window": 40, "shuffle_version": 2}
    state = {"version": 1, "first": 0, "epoch": 0, "batch": 2, "of": {"data": reader.state()["of"]["data"]} | of}
    reader.restore(state)
    assert reader.state() == state
    assert ns(reader) == ns(opened(folder, batch_size=10, shuffle=5, shuffle_window=40))[2:]


def test_a_state_after_some_batches_is_that_of_a_loop_that_used_them(folder: Path) -> None:
    for options in ({"shuffle": 5}, {"drop_remainder": True, "rank": 1, "world_size": 2}):
        reader, ahead = (opened(folder, batch_size=10, epochs=3, **options) for _ in range(2))
        states = [reader.state(), *(reader.state() for _ in reader)]
        assert [ahead.state(batches=number) for number in range(len(states))] == states
        iterator = iter(ahead)
        for _ in range(5):
            next(iterator)
        assert ahead.state(batches=3) == states[3]
        ahead.restore(states[8])
        assert ahead.state(batches=4) == states[12]
        assert len(list(ahead)) == len(states) - 9
        assert ahead.state(batches=4) == states[12]


def test_a_state_after_more_batches_than_the_loop_has_is_refused(folder: Path) -> None:
    reader = opened(folder, batch_size=10, epochs=2)
    with pytest.raises(ValueError, match=exactly("batches must be at most 28, the number of batches that the loop has left; got 29.")):
        reader.state(batches=29)
    with pytest.raises(ValueError, match=exactly("batches must be at least 0; got -1.")):
        reader.state(batches=-1)
    assert opened(folder, batch_size=10, epochs=None).state(batches=29)["epoch"] == 2


def test_a_reader_restored_at_the_end_has_nothing_more_of_that_pass(folder: Path) -> None:
    reader = opened(folder, batch_size=COUNT)
    batches = iter(reader)
    next(batches)
    state = reader.state()
    other = opened(folder, batch_size=COUNT)
    other.restore(state)
    assert [ns(other), len(ns(other))] == [[], 1]


@pytest.mark.parametrize(
    ("options", "fault"),
    [
        ({"batch_size": 7}, "batch_size was 10 and is now 7."),
        ({"shuffle": 6}, "shuffle was 5 and is now 6."),
        ({"world_size": 2}, "world_size was 1 and is now 2."),
        ({"shuffle_window": 9}, "shuffle_window was "),
        ({"drop_remainder": True}, "drop_remainder was False and is now True."),
    ],
)
def test_a_state_of_another_order_is_refused(folder: Path, options: dict[str, Any], fault: str) -> None:
    state = opened(folder, batch_size=10, shuffle=5).state()
    with pytest.raises(ValueError, match=exactly(f"The state comes from a reader with a different record order: {fault}")):
        opened(folder, **{"batch_size": 10, "shuffle": 5} | options).restore(state)


def test_a_state_that_was_saved_before_orders_had_versions_is_refused_if_it_is_shuffled(folder: Path) -> None:
    shuffled, plain = (opened(folder, batch_size=10, shuffle=seed).state() for seed in (5, None))
    del shuffled["of"]["shuffle_version"]
    with pytest.raises(
        ValueError, match=exactly("The state comes from a reader with a different record order: shuffle_version was None and is now 2.")
    ):
        opened(folder, batch_size=10, shuffle=5).restore(shuffled)
    assert "shuffle_version" not in plain["of"]
    opened(folder, batch_size=10).restore(plain)


def test_a_state_of_another_data_set_is_refused(folder: Path, tmp_path: Path) -> None:
    state = opened(folder).state()
    with pytest.raises(ValueError, match="The state comes from a reader with a different record order: data was"):
        opened(numbers(tmp_path, count=5)).restore(state)
    with pytest.raises(ValueError, match="This is not a reader state of version 1"):
        opened(folder).restore({"epoch": 1})


def test_a_copy_of_the_folder_goes_on_too(folder: Path, tmp_path: Path) -> None:
    state = opened(folder).state()
    opened(shutil.copytree(folder, tmp_path / "copied")).restore(state)


def test_a_reader_can_be_sent_to_another_process(folder: Path) -> None:
    reader = opened(folder, batch_size=10, shuffle=5)
    batches = iter(reader)
    before = [next(batches)["n"].tolist() for _ in range(3)]
    state = reader.state()
    batches.close()  # type: ignore[attr-defined]  # a generator, but the type doesn't say so
    sent = pickle.loads(pickle.dumps(reader))  # noqa: S301 - our own
    assert sent.state() == state
    sent.restore(state)
    assert before + ns(sent) == ns(opened(folder, batch_size=10, shuffle=5))


def test_a_remote_store_is_not_read_behind_a_fork(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    reader = opened(folder)
    monkeypatch.setattr("os.getpid", lambda: -1)
    assert len(flat(reader)) == COUNT
    monkeypatch.setattr("dataprep_reader.reader.scheme_of", lambda _: "hdfs")
    with pytest.raises(RuntimeError, match="start workers with the spawn method"):
        next(iter(reader))


# --- damage -----------------------------------------------------------------------------------------------------------


def test_a_broken_record_is_named_with_its_file_and_offset(tmp_path: Path) -> None:
    for options in ({}, {"index": False}):
        folder = halves(tmp_path / str(len(options)), **options)
        file = folder / "train-00001-of-00003.tfrecords"
        content = bytearray(file.read_bytes())
        content[-1] ^= 1
        file.write_bytes(content)
        with pytest.raises(BadData, match=rf"{file}: bad data CRC at offset \d+"):
            list(opened(folder, split="train"))
        assert flat(opened(folder, split="test")) == list(range(30, 40))


def test_a_file_of_another_length_is_refused(tmp_path: Path) -> None:
    folder = halves(tmp_path)
    file = folder / "train-00001-of-00003.tfrecords"
    size = file.stat().st_size
    file.write_bytes(file.read_bytes()[:-1])
    with pytest.raises(BadData, match=exactly(f"{file} has {size - 1:,} bytes instead of {size:,}. See dataprep verify.")):
        list(opened(folder, split="train"))


def test_an_index_of_something_else_is_refused(tmp_path: Path) -> None:
    folder = halves(tmp_path)
    index = folder / "_dataprep/index/train-00001-of-00003.tfrecords.idx"
    index.write_text("0 10\n")
    with pytest.raises(BadData, match=exactly(f"{index} is not the index of train-00001-of-00003.tfrecords.")):
        list(opened(folder, split="train"))


@pytest.mark.parametrize("format_", ["parquet", "arrow", "jsonl"])
def test_a_damaged_table_is_named(tmp_path: Path, format_: str) -> None:
    folder = halves(tmp_path, format=format_)
    (file,) = folder.glob("train-00001-of-00003.*")
    file.write_bytes(bytes(file.stat().st_size))
    with pytest.raises(BadData, match=exactly(str(file))):
        list(opened(folder, split="train"))
