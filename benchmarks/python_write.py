"""`make bench-write`: how fast `dataprep_io.write` is, compared with `dataprep run` on the same data in Parquet.

Runs of the job alternate with writes of each library's data. Each run has a new process. The command prints the medians, and their ratios
to the job's median. The shards of equal data must have equal bytes. The command fails if an Arrow table or a pandas DataFrame is written at
less than 0.9 times the speed of the job.
"""

import argparse
import os
import shutil
import statistics
import sys
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Final

from benchmarks import inputs, measuring
from benchmarks.measuring import Took

import environments
from dataprep_converter.dataset.output_folder import OutputFolder
from dataprep_converter.inputs.access import Access

JOB: Final = "job"
NAMES: Final[Mapping[str, str]] = {
    JOB: "dataprep run, from Parquet",
    "arrow": "an Arrow table",
    "pandas": "a DataFrame of pandas",
    "polars": "a DataFrame of Polars",
    "numpy": "NumPy arrays",
    "duckdb": "a DuckDB relation",
    "iterator": "an iterator of dictionaries",
}
GOALS: Final[Mapping[str, float]] = {"arrow": 0.9, "pandas": 0.9}
"""The lowest accepted ratio of a writer's speed to the job's speed."""
_SHARES: Final = {"iterator": 0.1}
"""The share of the records that a slow writer gets."""
_SEED: Final = 7


def main(arguments: Sequence[str] | None = None) -> int:
    """Measures, prints the ratios, and returns 1 if a ratio is below its goal or if shards differ."""
    parser = argparse.ArgumentParser(prog="make bench-write", description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--records", type=int, default=1_000_000, help="rows of 22 numbers (%(default)s)")
    parser.add_argument("--rounds", type=int, default=3, help="runs of each writer (%(default)s)")
    parser.add_argument("--only", nargs="+", choices=[name for name in NAMES if name != JOB], help="only these libraries")
    parser.add_argument("--folder", help="folder for data and outputs while the benchmark runs")
    options = parser.parse_args(arguments)
    kinds = [JOB, *(options.only or [name for name in NAMES if name != JOB])]
    runs: dict[str, list[Took]] = {kind: [] for kind in kinds}
    digests: dict[str, list[str]] = {}
    with tempfile.TemporaryDirectory(prefix="dataprep-write-", dir=options.folder) as folder:
        source = inputs.kept(Path(folder), "parquet_table", options.records, _SEED)
        os.environ["BENCH_BYTES_AT_HAND"] = str(4 * measuring.size_of(source))
        for turn in range(options.rounds):
            for kind in [*kinds[turn % len(kinds) :], *kinds[: turn % len(kinds)]]:
                output = Path(folder) / "output"
                runs[kind].append(_run(kind, source, output, max(1, round(options.records * _SHARES.get(kind, 1)))))
                if kind not in _SHARES:
                    digests[kind] = _digests(output)
                shutil.rmtree(output)
    different = [kind for kind, found in digests.items() if not found or found != digests[JOB]]
    sys.stdout.write(report(runs, options.records))
    for kind in different:
        sys.stdout.write(f"The shards of {NAMES[kind]} differ from the job's shards.\n")
    return int(bool(different) or any(ratio(runs, kind) < goal for kind, goal in GOALS.items() if kind in runs))


def ratio(runs: Mapping[str, Sequence[Took]], kind: str) -> float:
    """Returns the median speed of a writer as a multiple of the job's median speed."""
    return _per_second(runs[kind]) / _per_second(runs[JOB])


def report(runs: Mapping[str, Sequence[Took]], records: int) -> str:
    """Returns a table of the writers, in Markdown."""
    lines = ["| data | records/s | ratio | goal | peak MiB |", "|---|--:|--:|--:|--:|"]
    for kind, found in runs.items():
        goal = f"≥ {GOALS[kind]} {'✓' if ratio(runs, kind) >= GOALS[kind] else '✗'}" if kind in GOALS else ""
        peak = max(each.peak_bytes for each in found) >> 20
        lines.append(f"| {NAMES[kind]} | {_per_second(found):,.0f} | {ratio(runs, kind):.2f} | {goal} | {peak:,} |")
    rounds = max(map(len, runs.values()))
    return "\n".join([*lines, "", f"{records:,} rows of 22 numbers to TFRecord, medians of {rounds} rounds.", ""])


def _per_second(runs: Sequence[Took]) -> float:
    return statistics.median(each.records / each.seconds for each in runs)


def _run(kind: str, source: Path, output: Path, records: int) -> Took:
    output.mkdir()
    interpreter = environments.python("datasets") if kind == "polars" else None
    arguments: list[str | Path] = [kind, source, output, str(records)]
    printed, peak = measuring.python_run(interpreter, "python_write.py", arguments, borrows=interpreter is not None)
    return measuring.took(printed, peak, measuring.size_of(output))


def _digests(output: Path) -> list[str]:
    """Returns the digests of the shards, in order."""
    folder = OutputFolder(str(output), Access())
    success = folder.success()
    return [] if success is None else [file.sha256 for file in folder.manifest(success).files]


if __name__ == "__main__":
    sys.exit(main())
