"""Runs the command of a pod in a process with the memory limit of the pod: `python -m benchmarks.scan_pods.pod BYTES COMMAND...`.

This environment has pandas for the tests, but the image has no pandas. So pandas is hidden here; otherwise pyarrow would import it, which
takes 0.2 s.
"""

import sys
from collections.abc import Sequence
from pathlib import Path
from types import ModuleType


class _WithoutPandas:
    """A module finder that hides pandas."""

    def find_spec(self, name: str, path: Sequence[str] | None, target: ModuleType | None = None) -> None:
        """Raises ModuleNotFoundError for pandas. Leaves other modules to the other finders."""
        del path, target
        if name == "pandas":
            raise ModuleNotFoundError(f"No module named {name!r}", name=name)


def main() -> None:
    """Runs the command. As in a pod, the memory limit determines how many files the command reads at the same time."""
    memory = int(sys.argv.pop(1))
    sys.meta_path.insert(0, _WithoutPandas())

    from dataprep_converter.runtime import limits

    def memory_bytes(**_: Path) -> int:
        return memory

    limits.memory_bytes = memory_bytes
    from dataprep_converter.__main__ import main as run_command

    run_command()


if __name__ == "__main__":
    main()
