"""Builds what `dataprep_converter.core` has in C, with this machine's compiler ($CC, or cc), beside its sources: what pip and the Dockerfile do.

The library is named after the digest of its sources, so that none of another version is ever loaded. Fails where there is no compiler.
"""

import hashlib
import os
import shlex
import subprocess
import sys
from pathlib import Path

FOLDER = Path(__file__).parent / "dataprep_converter" / "core"
SOURCES = (FOLDER / "native.c", FOLDER / "resampling.c")
"""In the order of `native.py`."""
# A product is rounded before it is added to, on every processor: some would do both at once.
_OPTIONS = ("-O3", "-ffp-contract=off", "-Wall", "-Wextra", "-Werror", "-shared", "-fPIC")


def library() -> Path:
    """Where the library of the sources as they are belongs."""
    digest = hashlib.sha256(b"".join(source.read_bytes() for source in SOURCES)).hexdigest()
    return FOLDER / f"libnative-{digest[:12]}.so"


def build() -> Path:
    """The library, built if it isn't there; others go. Raises OSError without a compiler, CalledProcessError when it fails."""
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
            f"{' and '.join(source.name for source in SOURCES)} were not built, and Python will do their work several times slower: {exc}"
        )
