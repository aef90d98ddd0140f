"""A join of two large tables in a memory cgroup (version 1 or 2), by hand: `make memory-join`, as root.

Not a test of the suite: it takes minutes and the right to make a control group.
"""

# ruff: noqa: T201 - it tells what it saw.

import argparse
import contextlib
import os
import re
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pyarrow as pa
from pyarrow import csv

from dataprep_converter import records

_GROUPS = Path("/sys/fs/cgroup")
_JOB = """
apiVersion: dataprep.io/v1alpha1
kind: DataPrepJob
metadata: {{name: join}}
spec:
  source:
    join:
      keys: [id]
      missing: Drop
      tables:
        - {{name: left, source: {{csv: {{uris: ["{folder}/left.csv"], header: true}}}}}}
        - {{name: right, source: {{csv: {{uris: ["{folder}/right.csv"], header: true}}}}}}
  features:
    - {{name: id}}
    - {{name: x}}
    - {{name: y}}
  output: {{uri: "{folder}/out", shards: {{count: 8}}}}
"""


def write_table(file: Path, column: str, rows: int, *, first: int, seed: int) -> None:
    """Rows `id, <column>` in no order: ids from `first` on, and the column twice the id."""
    ids = np.random.default_rng(seed).permutation(rows).astype(np.int64) + first
    texts = pa.array(ids).cast(pa.string())
    csv.write_csv(pa.table({"id": ids, column: ids * 2, f"{column}_text": texts}), file)


@contextlib.contextmanager
def memory_group(limit: int) -> Iterator[Path]:
    """A control group of this process's own with a limit."""
    lines = Path("/proc/self/cgroup").read_text().splitlines()
    first = next((line for line in lines if "memory" in line.split(":")[1].split(",")), None)
    group = _GROUPS / "memory" / first.split(":", 2)[2].lstrip("/") if first else _GROUPS / lines[-1].split(":", 2)[2].lstrip("/")
    group = group / f"dataprep-join-{os.getpid()}"
    group.mkdir()
    try:
        (group / ("memory.limit_in_bytes" if first else "memory.max")).write_text(str(limit))
        yield group
    finally:
        group.rmdir()


def main() -> None:
    """Makes the tables, joins them in the group, and checks every record."""
    arguments = argparse.ArgumentParser(description=__doc__)
    arguments.add_argument("--rows", type=int, default=5_000_000)
    arguments.add_argument("--mebibytes", type=int, default=512)
    given = arguments.parse_args()
    with tempfile.TemporaryDirectory(prefix="join-memory-") as name, memory_group(given.mebibytes << 20) as group:
        folder = Path(name)
        apart = given.rows // 10
        write_table(folder / "left.csv", "x", given.rows, first=0, seed=1)
        write_table(folder / "right.csv", "y", given.rows, first=apart, seed=2)
        (folder / "job.yaml").write_text(_JOB.format(folder=folder))
        began = time.monotonic()
        ran = subprocess.run(
            [
                "/bin/sh",
                "-c",
                f'echo $$ > {group}/cgroup.procs && exec "$@"',
                "sh",
                sys.executable,
                "-m",
                "dataprep_converter",
                "run",
                folder / "job.yaml",
                "--workers",
                "1",
            ],
            capture_output=True,
            text=True,
            check=False,
        )
        print(ran.stdout[-3000:], ran.stderr[-3000:], f"exit {ran.returncode} after {time.monotonic() - began:.0f} s", sep="\n")
        peak = next(file for file in (group / "memory.peak", group / "memory.max_usage_in_bytes") if file.is_file())
        print(f"peak of the group: {int(peak.read_text()) >> 20} MiB, page cache included")
        print(
            re.sub(
                r"\n",
                " ",
                "".join(
                    line + "\n" for line in (group / "memory.stat").read_text().splitlines() if line.startswith(("total_rss ", "anon "))
                ),
            )
        )
        found = 0
        for file in sorted((folder / "out").glob("*.tfrecords")):
            with file.open("rb") as source:
                for _, payload in records.read(iter(lambda: source.read(1 << 20), b"")):
                    record = records.parse_example(payload)
                    expected = apart + found
                    assert (record["id"], record["x"], record["y"]) == ([expected], [2 * expected], [2 * expected]), record
                    found += 1
        assert found == given.rows - apart, found
        print(f"{found:,} records, each as it should be")


if __name__ == "__main__":
    main()
