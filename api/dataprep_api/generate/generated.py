"""Writes the files that are generated from code and committed, or shows which of them are stale.

The generators (`crd`, `fields_page`, `json_schema`, `reasons_page`) only produce the texts. `make generate` runs the generators, and `make verify` runs
the generators with `--check`.
"""

import argparse
import difflib
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path


def stale(files: Mapping[Path, str]) -> str:
    """Return a diff from the existing files to the generated files. The diff is empty if every file is current."""
    diffs: list[str] = []
    for path, text in files.items():
        current = path.read_text(encoding="utf-8") if path.exists() else ""
        diffs += difflib.unified_diff(
            current.splitlines(keepends=True), text.splitlines(keepends=True), fromfile=str(path), tofile=f"{path} (as generated)"
        )
    return "".join(diffs)


def main(description: str, files: Mapping[Path, str], arguments: Sequence[str] | None = None) -> int:
    """Run a generator's command line: write `files` below the working folder or, with `--check`, compare them with the existing files."""
    parser = argparse.ArgumentParser(description=description)
    parser.add_argument("--check", action="store_true", help="don't write files; if a file is stale, print a diff and exit with 1")
    if not parser.parse_args(arguments).check:
        for path, text in files.items():
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text, encoding="utf-8")
        return 0
    diff = stale(files)
    if diff:
        sys.stdout.write(f"{diff}\nGenerated files are stale: run `make generate` and commit the result.\n")
    return 1 if diff else 0
