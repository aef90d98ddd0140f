"""The memory that `dataprep_io.write` needs for an endless generator doesn't grow with the number of records."""

import subprocess
import sys
from pathlib import Path
from typing import Final

import pytest

FIRST: Final = 600
LAST: Final = 2400
"""The peak is measured after FIRST and after LAST records of 100 KB. FIRST is more than the shards and batches in memory can hold."""
MOST_GROWTH: Final = 24 << 20
"""The number of bytes by which the peak may grow. Between the two measurements, 180 MB of records are written."""
_ENDLESS: Final = """
import re, sys
from itertools import count
from pathlib import Path
import numpy as np
import dataprep_io as dp

class Stopped(Exception):
    pass

def endless():
    for number in count():
        if number in (int(sys.argv[2]), int(sys.argv[3])):
            peaks.append(int(re.search(r"VmHWM:\\s+(\\d+)", Path("/proc/self/status").read_text())[1]) << 10)
        if len(peaks) == 2:
            raise Stopped
        yield {"number": number, "content": random.bytes(100_000), "vector": np.zeros(10, np.float32)}

peaks, random = [], np.random.default_rng(1)
try:
    dp.write(endless(), sys.argv[1], shard_size="4Mi", workers=2)
except Stopped:
    print(*peaks)
"""


@pytest.mark.disk
@pytest.mark.slow
def test_a_generator_without_end_needs_bounded_memory_and_leaves_nothing_when_it_stops(tmp_path: Path) -> None:
    command = [sys.executable, "-c", _ENDLESS, str(tmp_path / "set"), str(FIRST), str(LAST)]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    first, last = map(int, done.stdout.split())
    assert last - first < MOST_GROWTH
    assert [path for path in (tmp_path / "set").rglob("*") if path.is_file()] == []
