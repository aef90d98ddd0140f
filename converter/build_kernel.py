"""Builds `dataprep_converter/kernel.c` with this machine's C compiler ($CC, or cc), beside its source: what pip and the Dockerfile do.

The library is named after the digest of its source, so that none of another version is ever loaded. Fails where there is no compiler.
"""

import hashlib
import os
import shlex
import subprocess
import sys
from pathlib import Path

SOURCE = Path(__file__).parent / "dataprep_converter" / "kernel.c"
_OPTIONS = ("-O3", "-Wall", "-Wextra", "-Werror", "-shared", "-fPIC")


def library() -> Path:
    """Where the library of the source as it is belongs."""
    return SOURCE.with_name(f"libkernel-{hashlib.sha256(SOURCE.read_bytes()).hexdigest()[:12]}.so")


def build() -> Path:
    """The library, built if it isn't there; others go. Raises OSError without a compiler, CalledProcessError when it fails."""
    wanted = library()
    if not wanted.exists():
        unfinished = wanted.with_name(f".{os.getpid()}-{wanted.name}")
        subprocess.run([*shlex.split(os.environ.get("CC", "cc")), *_OPTIONS, "-o", str(unfinished), str(SOURCE)], check=True)  # noqa: S603
        unfinished.replace(wanted)
    for other in set(SOURCE.parent.glob("libkernel-*.so")) - {wanted}:
        other.unlink()
    return wanted


if __name__ == "__main__":
    try:
        build()
    except (OSError, subprocess.CalledProcessError) as exc:
        sys.exit(f"{SOURCE.name} was not built, and Python will do its work several times slower: {exc}")
