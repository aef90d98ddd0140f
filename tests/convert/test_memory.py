"""Memory doesn't grow with the input: ten times the data within a fixed bound."""

import gzip
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from workbench import mnist

_RUN = """
import re, sys
from pathlib import Path
from dataprep_converter.access import Access
from dataprep_converter.convert_to_records import mnist_job
from dataprep_converter.display import Display
from dataprep_converter.run import run
job = mnist_job(source=sys.argv[1], output=sys.argv[2], validation=100, suffix=sys.argv[3])
run(job, access=Access(), workers=1, display=Display(quiet=True))
print(re.search(r"VmHWM:\\s+(\\d+)", Path("/proc/self/status").read_text())[1])  # ru_maxrss would count the parent's memory too
"""


@pytest.mark.parametrize("suffix", [pytest.param(".gz", id="gzip"), pytest.param("", id="plain")])
def test_ten_times_the_images_need_no_more_memory(tmp_path: Path, suffix: str) -> None:
    peaks = []
    for count in (20_000, 200_000):
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
