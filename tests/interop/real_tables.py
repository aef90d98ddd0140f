"""Tables that other people made, from packages.

`infer` writes a job for each table, the job runs unchanged, and every value of the data set is compared with what pandas, Python's json or
pyarrow reads from the same file.
"""

import contextlib
import importlib.metadata
import io
import itertools
import json
import re
import shutil
import sysconfig
import tarfile
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import numpy as np
import pyarrow.parquet
import yaml
from tests.converter.cli.commandline import code_of

import dataprep_reader
import environments
from dataprep_converter.inputs.access import Access
from dataprep_converter.tools.verification import verify

_parquet: Any = pyarrow.parquet  # it has no type stubs

READER: Final = Path(__file__).parent / "readers" / "pandas_tables.py"
LARGEST_BYTES: Final = 3 << 20
"""Larger files are left out, because they take as long as all other files together."""
_ENDINGS: Final = (".csv", ".csv.gz", ".tsv", ".json", ".json.gz", ".jsonl", ".parquet")
_FOLDERS: Final[Mapping[str, str]] = {
    "bokeh_sampledata": "bokeh_sampledata/_data",
    "palmerpenguins": "palmerpenguins/data",
    "plotnine": "plotnine/data",
    "statsmodels": "statsmodels/datasets",
    "vega_datasets": "vega_datasets/_data",
}
"""For each package in the environment `tables`, the folder that contains its tables."""
_OWN_FOLDERS: Final[Mapping[str, str]] = {
    "scikit-learn": "sklearn/datasets/data",
    "mlxtend": "mlxtend/data/data",
    "pyarrow": "pyarrow/tests/data",
}
"""For each package that other tests need anyway, the folder that contains its tables."""
_HEAD: Final = """\
# Third-party tables

`make real-data` writes this page. Each file is part of a published package. `dataprep infer` writes a job for the file, `dataprep run` runs this
job unchanged, and `dataprep verify` checks the data set. Then another program reads the same file, and every value in the data set is compared
with the value that this program reads. The other program is pandas for CSV, with the job's own words for missing values
(`keep_default_na=False`), Python's `json` for JSON, and pyarrow for Parquet. The data sets have the format `tfrecord`, so floats are compared
as float32. `make test` does this for some of the files, and `make nightly` for all of them.

Files of more than 3 MiB are left out. Files that aren't converted are listed at the end, with the message of `dataprep infer` or
`dataprep run`.

"""
_GOOD: Final = """
| package | file | source | records | columns | nulls |
|---|---|---|---|---|---|
"""
_REFUSED: Final = """
## Files that aren't converted

| package | file | what the command says |
|---|---|---|
"""


@dataclass(frozen=True, order=True)
class Table:
    """A package's file."""

    package: str
    """The package's name and version."""
    name: str
    path: Path


@dataclass(frozen=True)
class Result:
    """The result for a table."""

    table: Table
    said: str = ""
    """The command's message if there is no data set."""
    source: str = ""
    records: int = 0
    columns: int = 0
    nulls: int = 0

    @property
    def line(self) -> str:
        """The table's line on the page."""
        if self.said:
            return f"| {self.table.package} | `{self.table.name}` | {self.said} |\n"
        return f"| {self.table.package} | `{self.table.name}` | `{self.source}` | {self.records:,} | {self.columns:,} | {self.nulls:,} |\n"


def tables(folder: Path) -> list[Table]:
    """Every table of every package. Tables in archives are unpacked to `folder`."""
    packages = environments.python("tables").parents[1] / "lib"
    (site,) = packages.glob("python*/site-packages")
    own = Path(sysconfig.get_paths()["purelib"])
    found = [
        *itertools.chain.from_iterable(_below(site / path, f"{name} {_version(site, name)}") for name, path in _FOLDERS.items()),
        *itertools.chain.from_iterable(
            _below(own / path, f"{name} {importlib.metadata.version(name)}") for name, path in _OWN_FOLDERS.items()
        ),
        *_tables_of_r(site, folder),
    ]
    return sorted(table for table in found if 0 < table.path.stat().st_size <= LARGEST_BYTES)


def _version(site: Path, name: str) -> str:
    (info,) = site.glob(f"{name}-*.dist-info")
    return info.name.removesuffix(".dist-info").partition("-")[2]


def _below(folder: Path, package: str) -> Iterator[Table]:
    for path in sorted(folder.rglob("*")):
        if path.name.endswith(_ENDINGS) and path.is_file():
            yield Table(package, str(path.relative_to(folder)), path)


def _tables_of_r(site: Path, folder: Path) -> Iterator[Table]:
    """R's data sets, which the package pydataset ships in an archive."""
    with tarfile.open(site / "pydataset/resources.tar.gz") as archive:
        for member in archive:
            name = member.name.rpartition("/")[2]
            if member.isfile() and name.endswith(".csv") and not name.startswith("."):
                path = folder / re.sub(r"[^A-Za-z0-9._/-]", "_", member.name)
                path.parent.mkdir(parents=True, exist_ok=True)
                content = archive.extractfile(member)
                assert content is not None
                path.write_bytes(content.read())
                yield Table(f"pydataset {_version(site, 'pydataset')}", member.name.partition("/csv/")[2] or name, path)


# --- converting and comparing -------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Made:
    """A data set, and the job that made it."""

    spec: Mapping[str, Any]
    columns: Mapping[str, list[Any]]
    """The values of each feature."""

    @property
    def source(self) -> str:
        """The kind of source that `infer` chose."""
        (name,) = self.spec["source"]
        return str(name)


def made(table: Table, folder: Path) -> Made | str:
    """Converts a table with the job that `infer` writes. Returns the message if `infer` or the job refuses the table."""
    steps: list[list[str | Path]] = [
        ["infer", table.path, "--output", folder / "job.yaml", "--to", folder / "out"],
        ["run", folder / "job.yaml", "--quiet"],
    ]
    for step in steps:
        with contextlib.redirect_stderr(io.StringIO()) as said, contextlib.redirect_stdout(io.StringIO()):
            code = code_of(*step)
        if code != 0:
            message = said.getvalue().strip().replace(str(table.path), "the file")
            assert code in (2, 3), f"{table}: {message}"
            return message.removeprefix("dataprep: error: ")
    verified = verify(str(folder / "out"), Access())
    batches = [batch.to_pydict() for batch in dataprep_reader.open(folder / "out", batch_size=10_000, as_="arrow")]
    columns = {name: [value for batch in batches for value in batch[name]] for name in (batches[0] if batches else ())}
    assert all(len(values) == verified.records_out for values in columns.values())
    return Made(yaml.safe_load((folder / "job.yaml").read_text())["spec"], columns)


def read_by_others(made_tables: Sequence[tuple[Table, Made]], folder: Path) -> list[Mapping[str, list[Any]]]:
    """The values of each column of each table, as read by other programs."""
    asked = [
        {
            "path": str(table.path),
            "source": each.spec["source"]["csv"],
            "texts": [name for name, values in each.columns.items() if any(isinstance(value, str | bytes) for value in values)],
        }
        for table, each in made_tables
        if each.source == "csv"
    ]
    (folder / "asked.json").write_text(json.dumps(asked))
    by_pandas = iter(json.loads(environments.run("tables", READER, [folder / "asked.json"]))["tables"])
    return [next(by_pandas) if each.source == "csv" else _read_records(table.path) for table, each in made_tables]


def _read_records(path: Path) -> dict[str, list[Any]]:
    if path.name.endswith(".parquet"):
        table = _parquet.read_table(path)
        times = {name: "int64" for name, kind in zip(table.schema.names, table.schema.types, strict=True) if "timestamp" in str(kind)}
        return {
            name: table[name].cast(times[name]).to_pylist() if name in times else table[name].to_pylist() for name in table.column_names
        }
    text = path.read_text()
    records = json.loads(text) if text.lstrip().startswith("[") else [json.loads(line) for line in text.splitlines() if line.strip()]
    flat = [dict(_leaves("", record)) for record in records]
    return {name: [record.get(name) for record in flat] for record in flat for name in record}


def _leaves(before: str, record: Mapping[str, Any]) -> Iterator[tuple[str, Any]]:
    for key, value in record.items():
        if isinstance(value, dict):
            yield from _leaves(f"{before}{key}/", value)
        else:
            yield before + key, value


def faults(made_table: Made, others: Mapping[str, list[Any]]) -> Iterator[str]:
    """Yields each column in which a value differs, with the first such value."""
    expected = dict(_as_features(made_table.spec, others))
    if set(expected) != set(made_table.columns):
        yield f"columns {sorted(made_table.columns)}, expected {sorted(expected)}"
        return
    for name, values in made_table.columns.items():
        if len(values) != len(expected[name]):
            yield f"{name}: {len(values)} records, expected {len(expected[name])}"
            continue
        differences = (row for row, pair in enumerate(zip(values, expected[name], strict=True)) if not _same(*pair))
        row = next(differences, None)
        if row is not None:
            yield f"{name}, record {row}: {values[row]!r}, expected {expected[name][row]!r}"


def _as_features(spec: Mapping[str, Any], others: Mapping[str, list[Any]]) -> Iterator[tuple[str, list[Any]]]:
    """The columns in the form of the job's features.

    If a table has unnamed columns of numbers, `infer` may combine all columns except the last into one vector.
    """
    names = list(others)
    chosen = [*spec.get("features", []), *spec.get("labels", [])]
    if "features" not in spec:
        labels = {entry["columns"][0]: entry["name"] for entry in chosen if "columns" in entry}
        yield from ((labels.get("-1", name) if name == names[-1] and "-1" in labels else name, others[name]) for name in names)
        return
    for entry in chosen:
        if entry.get("columns") == ["0..-2"]:
            yield entry["name"], [list(row) for row in zip(*(others[name] for name in names[:-1]), strict=True)]
        else:
            yield entry["name"], others[names[-1] if entry.get("columns") == ["-1"] else entry["name"]]


def _same(ours: Any, theirs: Any) -> bool:
    if ours is None or theirs is None:
        return ours is None and theirs is None
    if isinstance(ours, list | np.ndarray):
        return len(ours) == len(theirs) and all(map(_same, ours, theirs))
    if isinstance(ours, bytes):
        return ours.decode() == str(theirs)
    if isinstance(ours, float):
        with np.errstate(over="ignore"):
            return isinstance(theirs, int | float) and bool(np.float32(ours) == np.float32(theirs) or (ours != ours and theirs != theirs))
    return (ours == int(theirs) if isinstance(theirs, bool) else ours == theirs) or (isinstance(ours, str) and ours == str(theirs))


# --- the page -----------------------------------------------------------------------------------------------------


def results(chosen: Sequence[Table], folder: Path) -> list[Result]:
    """Converts and compares the tables. Raises AssertionError with every value that differs."""
    refused: list[Result] = []
    converted: list[tuple[Table, Made]] = []
    for number, table in enumerate(chosen):
        (folder / str(number)).mkdir()
        each = made(table, folder / str(number))
        if isinstance(each, str):
            refused.append(Result(table, said=each))
        else:
            converted.append((table, each))
        shutil.rmtree(folder / str(number))
    others = read_by_others(converted, folder)
    wrong = [f"{table}: {fault}" for (table, each), read in zip(converted, others, strict=True) for fault in faults(each, read)]
    assert not wrong, "\n".join(wrong)
    return refused + [_result(table, each) for table, each in converted]


def _result(table: Table, each: Made) -> Result:
    nulls = sum(value is None for values in each.columns.values() for value in values)
    columns = sum(
        len(values[0]) if values and isinstance(values[0], list) and each.source == "csv" else 1 for values in each.columns.values()
    )
    return Result(table, source=each.source, records=len(next(iter(each.columns.values()), [])), columns=columns, nulls=nulls)


def page(found: Iterable[Result]) -> str:
    """The page as Markdown."""
    by_table = sorted(found, key=lambda each: each.table)
    good = [each for each in by_table if not each.said]
    refused = [each for each in by_table if each.said]
    count = f"{len(good):,} of {len(by_table):,} files are converted, and every value is equal.\n"
    return "".join((_HEAD, count, _GOOD, *(each.line for each in good), _REFUSED, *(each.line for each in refused)))
