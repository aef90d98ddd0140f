"""Builds the C parts of `dataprep_converter.core` next to their sources, with this machine's compiler ($CC, or cc). pip and the Dockerfile
run this module.

The library is named after the digest of its sources, so that a library of another version is never loaded. Fails if there is no compiler.
"""

import hashlib
import os
import shlex
import subprocess
import sys
from pathlib import Path

FOLDER = Path(__file__).parent / "dataprep_converter" / "core"
SOURCES = (FOLDER / "native.c", FOLDER / "resampling.c")
"""The sources, in the same order as in `native.py`."""
# Products are rounded before they are added, so that results are equal on all processors. Otherwise some processors would multiply and add
# in one instruction.
_OPTIONS = ("-O3", "-ffp-contract=off", "-Wall", "-Wextra", "-Werror", "-shared", "-fPIC")


def library() -> Path:
    """Returns the path of the library for the current sources."""
    digest = hashlib.sha256(b"".join(source.read_bytes() for source in SOURCES)).hexdigest()
    return FOLDER / f"libnative-{digest[:12]}.so"


def build() -> Path:
    """Builds the library if it doesn't exist, and returns its path. Removes libraries that were built from other sources.

    Raises OSError if there is no compiler, and CalledProcessError when the compiler fails.
    """
    wanted = library()
    if not wanted.exists():
        unfinished = wanted.with_name(f".{os.getpid()}-{wanted.name}")
        subprocess.run([*shlex.split(os.environ.get("CC", "cc")), *_OPTIONS, "-o", str(unfinished), *map(str, SOURCES)], check=True)  # noqa: S603
        unfinished.replace(wanted)
    for other in set(FOLDER.glob("libnative-*.so")) - {wanted}:
        other.unlink()
    return wanted


if __name__ == "__main__":
    try:
        build()
    except (OSError, subprocess.CalledProcessError) as exc:
        sys.exit(
            f"{' and '.join(source.name for source in SOURCES)} were not built; Python code replaces them, but is several times slower: {exc}"
        )
