"""The tests that every reader must pass. Each reader's test class is a subclass of `ReaderContract` that defines how the inputs are made.

`test_memory_of_readers.py` tests how much memory the readers need.
"""

import contextlib
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pytest

from dataprep_api.dataset.run_id import NullRule
from dataprep_api.spec import Source
from dataprep_converter.core.errors import InputChanged, NotFound
from dataprep_converter.inputs.access import Access
from dataprep_converter.readers import Reader
from dataprep_converter.records.batch import SAMPLE, Batch
from dataprep_converter.sampling import units as units_module
from dataprep_converter.sampling.units import UnitTable

Samples = npt.NDArray[np.int64]


def access_with(nulls: NullRule) -> Access:
    access = Access()
    access.nulls = nulls
    return access


def plan(reader: type[Reader], source: Source, *, nulls: NullRule = "Keep") -> tuple[UnitTable, dict[str, Any]]:
    """Plans a source. Returns the source's units and the complete state."""
    return reader.discover(source.member, access_with(nulls)).collect()


def opened(reader: type[Reader], source: Source, state: dict[str, Any], *, nulls: NullRule = "Keep") -> Reader:
    return reader(source.member, state, access_with(nulls))


def chunks(samples: Samples, size: int) -> Iterator[Samples]:
    return (samples[start : start + size] for start in range(0, len(samples), size))


def batches(
    reader: type[Reader], source: Source, *, size: int = 1000, order: Samples | None = None, nulls: NullRule = "Keep"
) -> list[Batch]:
    """Reads all samples of the source. They are read in the source's order, or in `order` if it is given."""
    units, state = plan(reader, source, nulls=nulls)
    samples = np.arange(units.samples, dtype=np.int64) if order is None else order
    return read_all(opened(reader, source, state, nulls=nulls), units, chunks(samples, size))


def read_all(reader: Reader, units: UnitTable, samples: Iterator[Samples]) -> list[Batch]:
    """Reads all batches and closes the reader."""
    with reader:
        return list(reader.read(units, samples))


def open_files() -> Counter[str]:
    """Counts this process's file descriptors by target. Sockets are left out, because stores keep connections open.

    To find new descriptors, subtract an earlier result. Don't test the two results for equality, because the garbage collector might have
    closed older descriptors in the meantime.
    """
    found = []
    for descriptor in Path("/proc/self/fd").iterdir():
        with contextlib.suppress(FileNotFoundError):  # the descriptor of this listing itself
            found.append(str(descriptor.readlink()))
    return Counter(name for name in found if not name.startswith("socket:"))


def rows(found: list[Batch]) -> list[dict[str, Any]]:
    """The good samples of the batches, as plain values, in the order in which they were read."""
    return [row for batch in found for row in _plain(batch.records)]


def faults(found: list[Batch]) -> dict[int, str]:
    """The reason for each bad sample, by sample number."""
    return {bad.sample: bad.reason for batch in found for bad in batch.bad}


def _plain(records: pa.RecordBatch) -> list[dict[str, Any]]:
    columns = {name: records.column(name) for name in records.schema.names}
    stored = {name: column.storage if isinstance(column, pa.ExtensionArray) else column for name, column in columns.items()}
    return pa.table(stored).to_pylist()


class ReaderContract:
    """The tests that every reader must pass."""

    reader: ClassVar[type[Reader]]

    def a_source(self, folder: Path) -> Source:
        """Writes a few dozen good samples to `folder`."""
        raise NotImplementedError

    def an_empty_source(self, folder: Path) -> Source:
        """A source that exists but has no samples."""
        raise NotImplementedError

    def a_missing_source(self, folder: Path) -> tuple[Source, str]:
        """A source whose input doesn't exist, and the URI that the error must name."""
        raise NotImplementedError

    def change(self, folder: Path) -> Path:
        """Changes a file of `a_source`, and returns its path."""
        raise NotImplementedError

    def open_files(self) -> Counter[str]:
        """The files that this process has open. The tests check that a reader leaves no file open."""
        return open_files()

    def test_the_batches_have_the_columns_of_the_schema(self, tmp_path: Path) -> None:
        source = self.a_source(tmp_path)
        units, state = plan(self.reader, source)
        with opened(self.reader, source, state) as reader:
            expected = reader.schema().append(pa.field(SAMPLE, pa.int64()))
            for batch in reader.read(units, chunks(np.arange(units.samples, dtype=np.int64), 7)):
                assert batch.records.schema.equals(expected)

    def test_every_sample_is_read_once_and_in_order(self, tmp_path: Path) -> None:
        source = self.a_source(tmp_path)
        units, _ = plan(self.reader, source)
        found = rows(batches(self.reader, source))
        assert [row[SAMPLE] for row in found] == list(range(units.samples))
        assert units.samples >= 20

    def test_the_size_of_a_batch_changes_no_row(self, tmp_path: Path) -> None:
        source = self.a_source(tmp_path)
        units, state = plan(self.reader, source)
        samples = np.arange(units.samples, dtype=np.int64)
        at_once = rows(read_all(opened(self.reader, source, state), units, chunks(samples, 10_000)))
        for size in (1, 3, 8):
            found = read_all(opened(self.reader, source, state), units, chunks(samples, size))
            assert rows(found) == at_once, size
            assert all(batch.records.num_rows <= size for batch in found)

    def test_any_order_gives_the_rows_of_the_first(self, tmp_path: Path) -> None:
        source = self.a_source(tmp_path)
        units, state = plan(self.reader, source)
        in_order = rows(read_all(opened(self.reader, source, state), units, chunks(np.arange(units.samples, dtype=np.int64), 1000)))
        order = np.random.default_rng(3).permutation(len(in_order)).astype(np.int64)
        for size in (1, 5, 10_000):
            for samples in (order, order[::2][::-1]):
                found = rows(read_all(opened(self.reader, source, state), units, chunks(samples, size)))
                assert found == [in_order[sample] for sample in samples], size

    def test_some_samples_give_the_rows_of_all(self, tmp_path: Path) -> None:
        source = self.a_source(tmp_path)
        in_order = rows(batches(self.reader, source))
        every_third = np.arange(1, len(in_order), 3, dtype=np.int64)
        assert rows(batches(self.reader, source, size=4, order=every_third)) == in_order[1::3]

    def test_a_reader_can_be_asked_again(self, tmp_path: Path) -> None:
        source = self.a_source(tmp_path)
        units, state = plan(self.reader, source)
        samples = np.arange(units.samples, dtype=np.int64)
        with opened(self.reader, source, state) as reader:
            first = rows(list(reader.read(units, chunks(samples[10:], 4))))
            again = rows(list(reader.read(units, chunks(samples, 4))))
        assert again[10:] == first

    def test_a_closed_reader_leaves_no_file_open(self, tmp_path: Path) -> None:
        source = self.a_source(tmp_path)
        before = self.open_files()
        units, state = plan(self.reader, source)
        assert self.open_files() - before == Counter()
        in_order = np.arange(units.samples, dtype=np.int64)
        with opened(self.reader, source, state) as reader:
            for samples in (in_order, in_order[::-1], np.random.default_rng(3).permutation(in_order)):
                list(reader.read(units, chunks(samples, 5)))
            unfinished = reader.read(units, chunks(in_order, 3))
            next(unfinished)
        assert self.open_files() - before == Counter()
        reader.close()

    def test_an_error_leaves_no_file_open(self, tmp_path: Path) -> None:
        source = self.a_source(tmp_path)
        units, state = plan(self.reader, source)
        before = self.open_files()

        def failing() -> Iterator[Samples]:
            samples = np.random.default_rng(3).permutation(units.samples).astype(np.int64)
            yield samples[:5]
            yield samples[5:10]
            raise ZeroDivisionError

        with pytest.raises(ZeroDivisionError) as caught, opened(self.reader, source, state) as reader:
            list(reader.read(units, failing()))
        assert self.open_files() - before == Counter()
        assert caught.value.__context__ is None

    def test_a_listing_that_nobody_ends_leaves_no_file_open(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        def fail(*_: object) -> None:
            raise ZeroDivisionError

        source = self.a_source(tmp_path)
        before = self.open_files()
        discovery = self.reader.discover(source.member, Access())
        monkeypatch.setattr(units_module._Block, "add", fail)
        with pytest.raises(ZeroDivisionError) as caught:
            discovery.collect()
        assert self.open_files() - before == Counter()
        assert caught.value.__context__ is None

    def test_planning_again_finds_the_same(self, tmp_path: Path) -> None:
        source = self.a_source(tmp_path)
        first, state = plan(self.reader, source)
        again, other_state = plan(self.reader, source)
        assert first.table.equals(again.table)
        assert state == other_state

    def test_the_bytes_read_are_about_those_of_the_input(self, tmp_path: Path) -> None:
        source = self.a_source(tmp_path)
        units, _ = plan(self.reader, source)
        size = int(units.table["size"].to_numpy().sum())
        assert 0.5 * size <= sum(batch.bytes_in for batch in batches(self.reader, source)) <= 2 * size + 200

    def test_an_empty_source_has_no_units(self, tmp_path: Path) -> None:
        units, _ = plan(self.reader, self.an_empty_source(tmp_path))
        assert len(units) == units.samples == 0

    def test_a_missing_input_is_named(self, tmp_path: Path) -> None:
        source, uri = self.a_missing_source(tmp_path)
        with pytest.raises(NotFound) as caught:
            plan(self.reader, source)
        assert uri in str(caught.value)
        assert caught.value.uri == uri

    def test_a_changed_input_is_named(self, tmp_path: Path) -> None:
        source = self.a_source(tmp_path)
        units, state = plan(self.reader, source)
        changed = self.change(tmp_path)
        with pytest.raises(InputChanged) as caught:
            read_all(opened(self.reader, source, state), units, iter([np.arange(units.samples, dtype=np.int64)]))
        assert caught.value.uri == str(changed)

    def test_an_input_that_is_gone_is_named(self, tmp_path: Path) -> None:
        source = self.a_source(tmp_path)
        units, state = plan(self.reader, source)
        gone = self.change(tmp_path)
        gone.unlink()
        with pytest.raises(InputChanged, match="but no longer exists"):
            read_all(opened(self.reader, source, state), units, iter([np.arange(units.samples, dtype=np.int64)]))
