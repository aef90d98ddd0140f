"""How several pytest processes share the tests: which process runs which file, and when the processes start.

Each process starts its own store servers and imports TensorFlow itself. The servers and the import each cost at least ten seconds of
processor time, so files with the same needs stay together. One process takes the files with store tests, and another process takes the
files with tests of third-party readers. When a process has finished its own files, it takes any other file. So all processes end at about
the same time. HDFS servers cost the most, so the process for store tests begins with the files that use HDFS. Then the files that are left
for other processes at the end don't need HDFS.
"""

import functools
import re
import tempfile
import time
from collections.abc import Iterable
from pathlib import Path
from typing import Final

import pytest
from xdist.scheduler import LoadFileScheduling  # type: ignore[import-untyped]  # it ships no types
from xdist.workermanage import WorkerController  # type: ignore[import-untyped]  # as above

_TESTS: Final = Path(__file__).parent
ON_STORES: Final = (
    "tests/converter/stores/",
    "tests/converter/inputs/test_input_uris.py",
    "tests/converter/steps/test_preflight.py",
    "tests/converter/steps/test_remove.py",
)
"""The files whose tests need store servers."""
_TOGETHER: Final = (ON_STORES, ("tests/interop/",))
_ON_HDFS: Final = re.compile(r"\b(?:hdfs_cluster|PLACES|remote: Place)\b|hdfs_lane\b|places import (?:\([^)]*|.*)\bhdfs\b")
"""Text that a file contains if it uses the HDFS that a process's tests share."""
_COLLECTION_SECONDS: Final = 180.0
"""The longest time that the other processes wait for the first process, which might have died."""
_COLLECTED: Final = pytest.StashKey[Path]()
"""The file that the first process makes when it has finished collecting."""


class ByWhatFilesStart(LoadFileScheduling):  # type: ignore[misc]  # mypy takes the base for Any
    """Gives a process complete files. Files that need the servers or libraries that the process has already started come first."""

    def _assign_work_unit(self, node: WorkerController) -> None:
        self.workqueue.move_to_end(next_file(self.workqueue, self.nodes.index(node)), last=False)
        super()._assign_work_unit(node)


def next_file(files: Iterable[str], process: int) -> str:
    """Return the file that a process takes next.

    Its own files come first, then files that need no servers and no third-party readers, and then all other files. The process for
    store tests takes files that use HDFS first, and other processes take them last.
    """
    own = _TOGETHER[process] if process < len(_TOGETHER) else None

    def rank(file: str) -> int:
        group = next((each for each in _TOGETHER if file.startswith(each)), None)
        if group is None:
            return 2
        is_on_hdfs = group is ON_STORES and on_hdfs(file)
        return int(not is_on_hdfs) if group is own else 3 + is_on_hdfs

    return min(files, key=rank)


@functools.cache
def on_hdfs(file: str) -> bool:
    """Whether the file's tests use the HDFS that all tests of a process share."""
    return _ON_HDFS.search((_TESTS.parent / file).read_text(encoding="utf-8")) is not None


def collect_one_after_the_other(node: WorkerController) -> None:
    """Start the first process. Start the other processes when the first one has collected the tests, or at once if the byte code exists.

    Half of the time for collecting is spent on rewriting assertions. If all processes started together, each of them would rewrite the
    assertions of the same files.
    """
    stash = node.config.stash
    if _COLLECTED in stash:
        deadline = time.monotonic() + _COLLECTION_SECONDS
        while not stash[_COLLECTED].exists() and time.monotonic() < deadline:
            time.sleep(0.1)
    elif not any(_TESTS.rglob(f"*-pytest-{pytest.__version__}.pyc")):
        folder = tempfile.TemporaryDirectory(prefix="dataprep-collected-")
        node.config.add_cleanup(folder.cleanup)
        stash[_COLLECTED] = Path(folder.name) / "collected"
        node.workerinput["collected"] = str(stash[_COLLECTED])
