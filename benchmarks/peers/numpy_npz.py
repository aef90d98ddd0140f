"""Writes columns in memory with `numpy.savez`.

numpy_npz.py savez INPUT OUTPUT RECORDS
"""

import sys
from pathlib import Path

import numpy as np
from clocked import clocked


def main(source: Path, output: Path, records: int) -> None:
    held = {f"features/{name}": column[:records] for name, column in np.load(source / "table.npz").items()}

    def work() -> int:
        np.savez(output / "data.npz", **held)  # type: ignore[arg-type]  # its stub takes no mapping of arrays
        return records

    clocked(work)


if __name__ == "__main__":
    main(Path(sys.argv[2]), Path(sys.argv[3]), int(sys.argv[4]))
