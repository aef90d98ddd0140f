"""Runs every reader on damaged files.

A reader must raise an error that names the file, or count bad records. It must never crash, hang or return a wrong record.

The inputs are those of the readers' contract tests, so a reader with contract tests is covered automatically. `make fuzz FUZZ=1000` runs
1,000 rounds of each test, and `make nightly` runs 60. A failure names its round, and ROUND=<number> runs only that round.
"""

import os
import resource
import shutil
import tempfile
import zlib
from collections.abc import Callable, Iterator
from importlib import import_module
from pathlib import Path
from typing import Any, Final

import numpy as np
import pytest
from tests.builders.data_sets import data_set, dataset_source, lines
from tests.builders.jobs import run_spec
from tests.converter.formats.cases import OF_ROWS
from tests.converter.readers.dataset_contract import DatasetReaderContract
from tests.converter.readers.reader_contract import ReaderContract, batches, plan, rows
from tests.fuzz.damage import damaged

from dataprep_api.spec import Source
from dataprep_converter.core.errors import ConvertError
from dataprep_converter.readers import READERS, Reader, reader_class
from dataprep_converter.readers.columnar import avro, parquet
from dataprep_converter.readers.databases import sql
from dataprep_converter.readers.databases.table import TableReader
from dataprep_converter.readers.dataset import DatasetReader
from dataprep_converter.readers.joins import join, joined_tables
from dataprep_converter.readers.joins.join import JoinReader
from dataprep_converter.readers.text import stretches
from dataprep_converter.readers.tfrecord import tfrecord
from dataprep_converter.records.batch import SAMPLE, Batch
from dataprep_converter.runtime import plugins

ROUNDS: Final = int(os.environ.get("FUZZ", "4"))
ONLY: Final = os.environ.get("ROUND")
_MOST_MEMORY: Final = 4 << 30
"""The address space that a test may allocate in addition to the space that it uses at its start. Whatever the header of a small file
says, the reader must not allocate more.
"""
_CONVERTER: Final = Path(__file__).resolve().parent.parent / "converter"


_ELSEWHERE: Final = "test_reader_table"
"""The module that tests the MaxCompute reader. It is left out here, because this reader's rows come from a service instead of files.
test_table_answers tests damaged responses."""


def contracts() -> dict[str, type[ReaderContract]]:
    """The contract tests of all readers, by module and class."""
    found: dict[str, type[ReaderContract]] = {}
    for file in sorted(_CONVERTER.rglob("test_*.py")):
        if file.stem == _ELSEWHERE or "ReaderContract)" not in file.read_text(encoding="utf-8"):
            continue
        module = import_module(".".join(["tests", "converter", *file.relative_to(_CONVERTER).with_suffix("").parts]))
        for name, value in vars(module).items():
            if name.startswith("Test") and isinstance(value, type) and issubclass(value, ReaderContract):
                found[f"{file.stem.removeprefix('test_').removeprefix('reader_')}-{name.removeprefix('Test')}"] = value
    return found


def data_sets() -> dict[str, type[ReaderContract]]:
    """Contract tests for the source `dataset`, with a data set in each format."""

    def of(make: Callable[[Path, int], Path]) -> type[ReaderContract]:
        class DataSet(DatasetReaderContract):
            def a_source(self, folder: Path) -> Source:
                return dataset_source(make(folder, 40))

        return DataSet

    def rows_as(format_: str) -> type[ReaderContract]:
        return of(lambda folder, count: data_set(folder, lines(count), format=format_))

    def arrays_as(format_: str) -> type[ReaderContract]:
        numbers = [{"name": "v", "columns": ["a", "b"]}]
        return of(
            lambda folder, count: data_set(folder, lines(count), features=numbers, format=format_, granularity="Minibatch", minibatchSize=8)
        )

    texts = [*(format_ for format_ in OF_ROWS if format_ != "tfrecord"), "recordioProtobuf"]
    found = {format_: rows_as(format_) for format_ in texts} | {format_: arrays_as(format_) for format_ in ("npz", "dl4jDataset")}
    return {f"dataset-{format_}": kind for format_, kind in (found | {"fileBatch": of(of_files)}).items()}


def of_files(folder: Path, count: int) -> Path:
    """A data set of small files, several of which fit into a batch."""
    inputs = folder / "files"
    inputs.mkdir()
    for number in range(count):
        (inputs / f"{number:03}.bin").write_bytes(bytes([number % 256]) * number)
    run_spec(
        {
            "source": {"wholeFile": {"uris": [str(inputs)]}},
            "features": [{"name": "content"}, {"name": "path"}],
            "output": {"uri": str(folder / "set"), "format": "fileBatch", "granularity": "Minibatch", "minibatchSize": 8},
        }
    )
    shutil.rmtree(inputs)
    return folder / "set"


CONTRACTS: Final = contracts() | data_sets()


@pytest.fixture(autouse=True)
def small_units(monkeypatch: pytest.MonkeyPatch, tmp_path_factory: pytest.TempPathFactory) -> None:
    """Makes parts so small that even a few dozen samples have several parts."""
    monkeypatch.setattr(stretches, "UNIT_BYTES", 512)
    monkeypatch.setattr(parquet, "PART_BYTES", 1500)
    monkeypatch.setattr(avro, "UNIT_BYTES", 2000)
    monkeypatch.setattr(sql, "BLOCK_ROWS", 25)
    monkeypatch.setattr(tfrecord, "_UNIT_BYTES", 2000)
    monkeypatch.setattr(join, "UNIT_RECORDS", 8)
    monkeypatch.setattr(joined_tables, "PIECE_RECORDS", 4)
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path_factory.mktemp("temporary")))
    code = tmp_path_factory.mktemp("code")
    (code / "mine.py").write_text(import_module("tests.converter.readers.test_reader_plugin").CODE)
    monkeypatch.setenv(plugins.CODE_VARIABLE, str(code))


@pytest.fixture(autouse=True)
def little_memory() -> Iterator[None]:
    """Larger allocations raise MemoryError, which fails the test."""
    before = resource.getrlimit(resource.RLIMIT_AS)
    used = int(Path("/proc/self/statm").read_text().split()[0]) * resource.getpagesize()
    resource.setrlimit(resource.RLIMIT_AS, (used + _MOST_MEMORY, before[1]))
    yield
    resource.setrlimit(resource.RLIMIT_AS, before)


def is_checked(name: str, original: bytes, damage: bytes) -> bool:
    """Whether the reader verifies checksums of the complete content.

    If the first bytes of a gzip file are damaged, the reader doesn't recognize gzip and verifies nothing. It doesn't verify uncompressed
    arrays either, because it reads them by offset.
    """
    is_known = damage.startswith(original[:2]) or not original.startswith(b"\x1f\x8b")
    return is_known and name.startswith(("tfrecord", "numpy-DeflatedNpz"))


def records(found: list[Batch]) -> list[str]:
    """The good samples without their numbers. They are text, because NaN is unequal to itself."""
    return [repr({key: value for key, value in row.items() if key != SAMPLE}) for row in rows(found)]


def test_every_reader_is_covered() -> None:
    fuzzed = {contract.reader for contract in CONTRACTS.values()}
    assert fuzzed == {reader_class(name) for name in READERS} - {TableReader}
    assert {"archives", "image_lists", "partitions"} <= {name.partition("-")[0] for name in CONTRACTS}


@pytest.mark.timeout(60 + 2 * ROUNDS)
@pytest.mark.parametrize("name", CONTRACTS)
def test_damage_raises_an_error_that_names_the_file_or_counts_bad_records(name: str, tmp_path: Path) -> None:
    contract = CONTRACTS[name]()
    folder = tmp_path / "in"
    folder.mkdir()
    source = contract.a_source(folder)
    whole = set(records(batches(contract.reader, source)))
    assert whole
    files = sorted(file for file in folder.rglob("*") if file.is_file())
    for number in [int(ONLY)] if ONLY else range(ROUNDS):
        a_round(number, name, source, files, whole)


def a_round(number: int, name: str, source: Source, files: list[Path], whole: set[str]) -> None:
    """Damages a file, plans and reads it, and restores it."""
    rng = np.random.default_rng([number, zlib.crc32(name.encode())])
    file = files[int(rng.integers(len(files)))]
    original = file.read_bytes()
    damage = damaged(original, rng)
    file.write_bytes(damage)
    where = f"round {number} of {name}: {file.name}, {len(original)} bytes, then {len(damage)}"
    try:
        check(CONTRACTS[name], source, file, whole if is_checked(name, original, damage) else None)
    except Exception as exc:
        if keep := os.environ.get("KEEP"):
            shutil.copy(file, Path(keep) / f"{name}-{number}-{file.name}")
        raise AssertionError(where) from exc
    finally:
        file.write_bytes(original)


def check(contract: type[ReaderContract], source: Source, file: Path, allowed: set[str] | None) -> None:
    """Raises AssertionError for a wrong result. Errors that a reader must not raise aren't caught."""
    try:
        units, _ = plan(contract.reader, source)
        found = batches(contract.reader, source, size=16)
    except ConvertError as exc:
        check_text(str(exc), contract, file)
        return
    for batch in found:
        batch.records.validate(full=True)
    read, bad = sum(batch.records.num_rows for batch in found), sum(len(batch.bad) for batch in found)
    assert read + bad == units.samples
    reasons: list[Any] = [each.reason for batch in found for each in batch.bad]
    assert all(reasons)
    assert allowed is None or allowed.issuperset(records(found)), "a record that was never written"


def check_text(text: str, contract: type[ReaderContract], file: Path) -> None:
    """Raises AssertionError for an error that doesn't name the file."""
    # If a row is missing, a join's error names the table instead of a file, because a table can have many files. A data set's error
    # names the folder, followed by the file's path in the manifest, or reports what _SUCCESS states about the manifest.
    also: dict[type[Reader], list[str]] = {
        JoinReader: [f"the table {file.stem}", f" {file.stem} ("],
        DatasetReader: [*(f"{folder}: {file.relative_to(folder)}" for folder in file.parents), f" {file.name} states"],
    }
    names = [str(file), *also.get(contract.reader, [])]
    assert any(name in text for name in names), f"it doesn't name the file: {text}"
