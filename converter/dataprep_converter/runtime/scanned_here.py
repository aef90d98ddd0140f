"""The results of a scan by several processes on this machine. Until the job is planned, the results are files in a temporary folder."""

from contextlib import ExitStack
from pathlib import Path

from dataprep_converter.core.closeable import Closeable
from dataprep_converter.runtime.scan_results import StoredResults
from dataprep_converter.runtime.scans import Document, Piece, results_in


class ScannedHere(StoredResults, Closeable):
    """The results in the files of a folder. If a file is damaged, for example because a process was killed, its results are ignored."""

    def __init__(self, folder: Path, cleanup: ExitStack) -> None:
        """Closing `cleanup` removes the folder."""
        self._cleanup = cleanup
        super().__init__(sorted(map(str, folder.iterdir())), _read)

    def close(self) -> None:
        """Removes the folder."""
        self._cleanup.close()


def _read(path: str) -> dict[Piece, Document]:
    return results_in(Path(path).read_bytes())
