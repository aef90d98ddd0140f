"""`make scale`: measures the steps of large jobs on a simulated store, and writes docs/scale.md. It fails if a figure exceeds its limit.

The usual sizes take about ten minutes on two cores. `SCALE=all` also measures 100 million files and a million shards. `--small`
tries out all measurements with little data and keeps no results.
"""

import argparse
import json
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Final

from benchmarks.scale.measured_process import ROOT, MeasurementFailed
from benchmarks.scale.page import page_of
from benchmarks.scale.played_job import Figures
from benchmarks.scale.rows import ROWS, Bench, Row, Sizes

RESULTS: Final = ROOT / "docs" / "scale.json"
PAGE: Final = ROOT / "docs" / "scale.md"
_SECONDS: Final = 3600.0
"""The time limit of one measurement."""


def main() -> int:
    """Runs the measurements. Returns 1 if a figure is beyond its limit or a row could not be measured."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.scale", description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--only", nargs="+", choices=[row.name for row in ROWS], default=[row.name for row in ROWS])
    parser.add_argument("--sizes", choices=["usual", "all"], default="usual")
    parser.add_argument("--at", nargs="+", type=int, default=[], metavar="SIZE", help="measure only these sizes")
    parser.add_argument("--small", action="store_true", help="little data; no result is kept")
    parser.add_argument("--page", action="store_true", help="measure nothing; write the page from the results again")
    parser.add_argument("--folder", type=Path, help="a folder on a disk with 40 GB for SCALE=all, otherwise with 5 GB")
    options = parser.parse_args()
    if options.page:
        PAGE.write_text(page_of(json.loads(RESULTS.read_text())))
        return 0
    with tempfile.TemporaryDirectory(prefix="dataprep-scale-", dir=options.folder) as folder:
        return measure(
            [row for row in ROWS if row.name in options.only],
            Bench(Path(folder), _SECONDS),
            sizes="small" if options.small else options.sizes,
            at=options.at,
            results=None if options.small else RESULTS,
            page=PAGE,
        )


def measure(rows: Sequence[Row], bench: Bench, *, sizes: Sizes, results: Path | None, page: Path, at: Sequence[int] = ()) -> int:
    """Measures each row with the sizes in `at` or, if `at` is empty, with the row's own sizes.

    When a row ends, its figures or its error are written. The figures of sizes that aren't measured this time are kept.
    """
    found: dict[str, Any] = json.loads(results.read_text()) if results is not None and results.exists() else {}
    beyond: list[str] = []
    for row in rows:
        measured: dict[int, Figures] = {}
        entry: dict[str, Any] = {"sizes": {**found.get(row.name, {}).get("sizes", {})}}
        for size in at or row.sizes(sizes):
            sys.stderr.write(f"{row.name}: {row.title}, {size:,}\n")
            try:
                measured[size] = row.measure(bench, size)
            except (MeasurementFailed, subprocess.TimeoutExpired) as exc:
                entry["error"] = f"{size:,}: {type(exc).__name__}: {str(exc)[-300:]}"
                beyond.append(f"{row.name}: not measured: {type(exc).__name__}: {exc}")
                break
            sys.stdout.write(f"{row.title}, {size:,}\n" + "".join(f"  {name:26} {value:14.2f}\n" for name, value in measured[size].items()))
            sys.stdout.flush()
            entry["sizes"][str(size)] = {"at": datetime.now(UTC).date().isoformat(), "figures": _rounded(measured[size])}
        beyond += row.beyond(measured)
        found[row.name] = entry
        if results is not None:
            results.write_text(json.dumps(found, indent=1) + "\n")
            page.write_text(page_of(found))
    sys.stderr.write("".join(f"{line}\n" for line in beyond))
    return 1 if beyond else 0


def _rounded(figures: Figures) -> Figures:
    return {name: round(value, 4) for name, value in figures.items()}


if __name__ == "__main__":
    sys.exit(main())
