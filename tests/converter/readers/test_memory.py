"""The memory that a job needs doesn't grow with its input. `test_memory_of_readers.py` tests the readers alone."""

import gzip
import json
import os
import shutil
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from tests.scale import inputs

from workbench import mnist

pytestmark = [pytest.mark.slow, pytest.mark.disk]

_RUN = """
import re, sys
from pathlib import Path
from dataprep_converter.inputs.access import Access
from dataprep_converter.cli.convert_to_records import mnist_job
from dataprep_converter.cli.display import Display
from dataprep_converter.steps.run import run
job = mnist_job(source=sys.argv[1], output=sys.argv[2], validation=100, suffix=sys.argv[3])
run(job, access=Access(), workers=1, display=Display(quiet=True))
print(re.search(r"VmHWM:\\s+(\\d+)", Path("/proc/self/status").read_text())[1])  # ru_maxrss would count the parent's memory too
"""


@pytest.mark.parametrize(
    ("suffix", "most"),
    [
        pytest.param(".gz", 100_000, id="gzip"),
        pytest.param(".gz", 200_000, id="more in gzip", marks=pytest.mark.nightly),
        pytest.param("", 200_000, id="plain", marks=pytest.mark.nightly),
    ],
)
def test_five_or_ten_times_the_images_need_no_more_memory(tmp_path: Path, suffix: str, most: int) -> None:
    peaks = []
    for count in (20_000, most):
        folder = mnist.write(tmp_path / f"in-{count}", train=count, test=100)
        if not suffix:
            for file in folder.glob("*.gz"):
                with gzip.open(file) as packed, file.with_suffix("").open("wb") as plain:
                    shutil.copyfileobj(packed, plain)
        ran = subprocess.run(
            [sys.executable, "-c", _RUN, folder, tmp_path / f"out-{count}", suffix], capture_output=True, text=True, check=True
        )
        peaks.append(int(ran.stdout) * 1024)
    assert peaks[1] - peaks[0] <= 32 * 2**20, [f"{peak / 2**20:.0f} MiB" for peak in peaks]


_RUN_IN_LITTLE = """
import json, re, sys, threading, time
from pathlib import Path
from dataprep_api.resources.job import DataPrepJob
from dataprep_converter.runtime import limits
from dataprep_converter.inputs.access import Access
from dataprep_converter.cli.display import Display
from dataprep_converter.steps.run import run
limits.memory_bytes = lambda: 400 << 20
def own():
    return int(re.search(r"RssAnon:\\s+(\\d+)", Path("/proc/self/status").read_text())[1])
peak = own()
def watch():
    global peak
    while True:
        peak = max(peak, own())
        time.sleep(0.01)
threading.Thread(target=watch, daemon=True).start()
run(DataPrepJob.parse(json.loads(Path(sys.argv[1]).read_text())), access=Access(), workers=1, display=Display(quiet=True))
print(peak)
"""
"""A script that runs a job in a process with the memory limit of a small pod, and prints its peak memory. Memory-mapped files don't count."""
_EXACT = {"MALLOC_ARENA_MAX": "1", "MALLOC_MMAP_THRESHOLD_": "131072", "MALLOC_TRIM_THRESHOLD_": "131072"}
"""Makes malloc return freed memory to the system immediately, so that only memory in use is measured."""
_MIB = 1 << 20


def _peak(folder: Path, kind: str, size: int) -> int:
    folder.mkdir()
    made = inputs.KINDS[kind](folder, size)
    spec = {**made.spec, "output": {"uri": str(folder / "out"), "shards": {"targetSize": "2Mi"}}}
    peak = _peak_of(folder, kind, spec)
    shutil.rmtree(folder)
    return peak


def _peak_of(folder: Path, kind: str, spec: Mapping[str, Any]) -> int:
    """Runs a job with a memory limit of 400 MiB, and returns its peak memory in bytes."""
    job = {"apiVersion": "dataprep.io/v1alpha1", "kind": "DataPrepJob", "metadata": {"name": kind}, "spec": spec}
    (folder / "job.json").write_text(json.dumps(job))
    ran = subprocess.run(
        [sys.executable, "-c", _RUN_IN_LITTLE, folder / "job.json"],
        capture_output=True,
        text=True,
        check=False,
        env={**os.environ, **_EXACT},
    )
    assert ran.returncode == 0, ran.stderr
    return int(ran.stdout.split()[-1]) * 1024  # DuckDB might print its progress first, as if the session were interactive


def test_a_join_of_long_rows_stays_within_the_memory(tmp_path: Path) -> None:
    """If DuckDB sorted the rows, it would need more memory than the limit."""
    random, tables = np.random.default_rng(4), []
    for name in "ab":
        rows = pa.table({"id": random.permutation(25_000), name: pa.array([random.bytes(8192) for _ in range(25_000)])})
        pq.write_table(rows, tmp_path / f"{name}.parquet", row_group_size=1000)
        tables.append({"name": name, "source": {"parquet": {"uris": [str(tmp_path / f"{name}.parquet")]}}})
    spec = {"source": {"join": {"keys": ["id"], "tables": tables}}, "output": {"uri": str(tmp_path / "out")}}
    assert _peak_of(tmp_path, "join", spec) <= 400 * _MIB


SIZES = {"csv": (22, 88), "csv-shuffled": (22, 88), "images": (22, 88), "jsonl": (22, 88), "parquet": (22, 88), "join": (60, 90)}
"""The sizes of the small and the large input in MiB. Both inputs of a join are so large that the join uses the disk."""


# Only `make nightly` runs these jobs. In `make test`, other tests replace them: `test_memory_of_readers.py` tests the readers,
# `test_joined_tables.py` tests the limits of joins, and the test above runs a whole job. `test_memory_of_shuffle.py` tests the memory of a
# job that reads in a scattered order.
@pytest.mark.nightly
@pytest.mark.parametrize("kind", SIZES)
def test_more_input_needs_no_more_memory(tmp_path: Path, kind: str) -> None:
    """The peak memory grows by at most two thirds of the additional input."""
    small, large = (size * _MIB for size in SIZES[kind])
    # DuckDB's peak varies by more than 20 MiB from run to run.
    runs = range(2 if kind == "join" else 1)
    low, high = ([_peak(tmp_path / f"{size}-{run}", kind, size) for run in runs] for size in (small, large))
    assert min(high) - max(low) <= (large - small) * 2 // 3, [f"{peak / _MIB:.0f} MiB" for peak in (*low, *high)]
