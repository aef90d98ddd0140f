"""Files that are made from code and committed: write them, or show which are stale.

Apart from the generators (`crd`, `reasons`), which only say what the text is. `make generate` runs them, `make verify` with `--check`.
"""

import argparse
import difflib
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path


def stale(files: Mapping[Path, str]) -> str:
    """A diff from what lies there to what should; empty when every file is current."""
    diffs: list[str] = []
    for path, text in files.items():
        found = path.read_text(encoding="utf-8") if path.exists() else ""
        diffs += difflib.unified_diff(
            found.splitlines(keepends=True), text.splitlines(keepends=True), fromfile=str(path), tofile=f"{path} (as generated)"
        )
    return "".join(diffs)


def main(description: str, files: Mapping[Path, str], arguments: Sequence[str] | None = None) -> int:
    """The command line of a generator: writes `files` below the working folder, or compares them with --check."""
    parser = argparse.ArgumentParser(description=description)
    parser.add_argument("--check", action="store_true", help="write nothing; exit with 1 and a diff when a file is stale")
    if not parser.parse_args(arguments).check:
        for path, text in files.items():
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text, encoding="utf-8")
        return 0
    diff = stale(files)
    if diff:
        sys.stdout.write(f"{diff}\nGenerated files are stale: run `make generate` and commit the result.\n")
    return 1 if diff else 0
