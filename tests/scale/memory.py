"""Converts large inputs within 512 MiB of memory: `make memory`, or `make memory SIZE=500M KINDS="csv images"`.

This program isn't part of the test suite, because it takes many minutes and needs disk space of three times the input's size. Only root can
use control groups.
"""

# ruff: noqa: T201 - this program prints its results.

import argparse
import os
import sys
import tempfile
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import yaml
from tests.scale import groups, inputs

_UNITS = {"K": 10, "M": 20, "G": 30}


def bytes_of(text: str) -> int:
    """`500M` → 524288000."""
    return int(text[:-1]) << _UNITS[text[-1]] if text[-1:] in _UNITS else int(text)


def main() -> int:
    """Converts an input of each kind. The exit status is the number of kinds that failed."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("kinds", nargs="*", metavar="KIND", help=f"one of {', '.join(inputs.KINDS)}; default: all kinds")
    parser.add_argument("--size", type=bytes_of, default=2 << 30, help="the size of each input, such as 500M; default: 2G")
    parser.add_argument("--limit", type=bytes_of, default=512 << 20, help="the memory limit; default: 512M")
    parser.add_argument("--workers", type=int, help="the number of processes; default: chosen by dataprep")
    parser.add_argument("--shuffle", action="store_true", help="shuffle the records")
    given = parser.parse_args()
    if unknown := set(given.kinds) - set(inputs.KINDS):
        parser.error(f"unknown kind: {', '.join(sorted(unknown))}")
    more = {"shuffle": {"seed": 1}} if given.shuffle else {}
    kinds = given.kinds or list(inputs.KINDS)
    return sum(not is_within(kind, more, size=given.size, limit=given.limit, workers=given.workers) for kind in kinds)


def is_within(kind: str, more: Mapping[str, Any], *, size: int, limit: int, workers: int | None) -> bool:
    """Makes the input, converts it within the limit, checks every record and prints the result."""
    with tempfile.TemporaryDirectory(prefix="dataprep-scale-") as name, groups.group(limit) as inside:
        folder = Path(name)
        (folder / "tmp").mkdir()
        made = inputs.KINDS[kind](folder, size)
        output = folder / "out"
        job = {
            "apiVersion": "dataprep.io/v1alpha1",
            "kind": "DataPrepJob",
            "metadata": {"name": kind},
            "spec": {**made.spec, **more, "output": {"uri": str(output), "shards": {"count": 16}}},
        }
        (folder / "job.yaml").write_text(yaml.safe_dump(job))
        command: list[str | Path] = [
            sys.executable,
            "-m",
            "dataprep_converter",
            "run",
            folder / "job.yaml",
            *(["--workers", str(workers)] if workers else []),
        ]
        used = groups.run(command, inside, {**os.environ, "TMPDIR": str(folder / "tmp")})
        if inside is None:
            print(f"{kind}: no control group can be created here, so the limit is not enforced; the processes' memory was measured instead")
        charged = "" if used.charged is None else f", {used.charged >> 20} MiB with page cache"
        print(
            f"{kind}: {made.records:,} records of {made.size >> 20:,} MiB in {used.seconds:.0f} s with {workers or 'the default'} workers; "
            f"peak {used.own >> 20} MiB of {limit >> 20} MiB{charged}; {used.killed} killed; exit {used.code}",
            flush=True,
        )
        if used.code or used.killed or used.own > limit:
            print(used.output[-4000:])
            return False
        began = time.monotonic()
        inputs.check(output, made)
        print(f"{kind}: every record occurs exactly once and is correct ({time.monotonic() - began:.0f} s)", flush=True)
        return True


if __name__ == "__main__":
    sys.exit(main())
