"""Helpers that the tests with Spark and Ray share. A script in the engine's environment writes data sets, and is killed while it writes."""

import subprocess
import sysconfig
from pathlib import Path
from typing import Final

import environments
from dataprep_converter.inputs.access import Access
from dataprep_converter.tools.verification import verify
from dataprep_reader import open as open_data_set

ROOT: Final = Path(__file__).resolve().parents[2]
PATHS: Final = [str(ROOT / "api"), str(ROOT / "converter"), sysconfig.get_paths()["purelib"]]
"""The folders of our code and its dependencies, which the engine's processes need too."""


def run_until_killed(environment: str, script: Path, wanted: Path) -> None:
    """Run a script that kills itself while its tasks write."""
    command = [str(environments.python(environment)), "-I", str(script), str(wanted)]
    ended = subprocess.run(command, capture_output=True, timeout=environments.SECONDS, check=False)
    assert ended.returncode == -9, ended.stderr.decode(errors="replace")[-2000:]


def files_of(folder: Path) -> list[str]:
    """All files of a data set, including hidden files."""
    return sorted(str(path.relative_to(folder)) for path in folder.rglob("*") if path.is_file())


def numbers_in(folder: Path, split: str = "train") -> list[float]:
    """Verify every record of the data set. Return the values of `n` in a split's records."""
    verify(str(folder), Access(), every_record=True)
    return sorted(row["n"] for batch in open_data_set(folder, split=split, as_="arrow") for row in batch.to_pylist())
