"""What several processes on this machine found in a job's inputs: files in a temporary folder, until the job is planned."""

from contextlib import ExitStack
from pathlib import Path

from dataprep_converter.core.closeable import Closeable
from dataprep_converter.runtime.scan_results import StoredResults
from dataprep_converter.runtime.scans import Document, Piece, results_in


class ScannedHere(StoredResults, Closeable):
    """The results in the files of a folder. A damaged file, such as that of a process that was killed, has none."""

    def __init__(self, folder: Path, cleanup: ExitStack) -> None:
        """Closing `cleanup` removes the folder."""
        self._cleanup = cleanup
        super().__init__(sorted(map(str, folder.iterdir())), _read)

    def close(self) -> None:
        """Removes the folder."""
        self._cleanup.close()


def _read(path: str) -> dict[Piece, Document]:
    return results_in(Path(path).read_bytes())
