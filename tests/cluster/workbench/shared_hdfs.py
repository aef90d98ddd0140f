"""An HDFS for all processes of a complete test run.

Each start costs ten seconds of processor time, and an idle HDFS costs one second per minute. So only tests that kill HDFS servers start
their own HDFS.
"""

import json
import os
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

from storeservers.hdfs import HdfsCluster
from storeservers.hdfs_files import HdfsFiles

_VARIABLE: Final = "DATAPREP_TEST_HDFS"


@contextmanager
def running(host: str) -> Iterator[None]:
    """Run HDFS during the block. The test processes that start in the block find it with `attached`."""
    with tempfile.TemporaryDirectory(prefix="dataprep-hdfs-") as folder, HdfsCluster(Path(folder), host=host) as hdfs:
        os.environ[_VARIABLE] = json.dumps({"host": host, "port": hdfs.port, "http_port": hdfs.http_port, "user": hdfs.user})
        try:
            yield
        finally:
            del os.environ[_VARIABLE]


def attached() -> HdfsFiles | None:
    """Return the HDFS that the processes of this run share, if there is one."""
    address = os.environ.get(_VARIABLE)
    return HdfsFiles(**json.loads(address)) if address else None
