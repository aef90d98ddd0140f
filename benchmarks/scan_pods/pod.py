"""Runs the command of a pod in a process with the memory limit of the pod: `python -m benchmarks.scan_pods.pod BYTES COMMAND...`."""

import sys
from pathlib import Path

from dataprep_converter.runtime import limits


def main() -> None:
    """Runs the command. As in a pod, its memory limit determines how many files it reads at the same time."""
    memory = int(sys.argv.pop(1))

    def memory_bytes(**_: Path) -> int:
        return memory

    limits.memory_bytes = memory_bytes
    from dataprep_converter.__main__ import main as run_command

    run_command()


if __name__ == "__main__":
    main()
