"""An archive of the Java classes that HDFS's servers load.

With this archive, a server starts in half the time: without it, each of the hundred servers that the tests start would spend most of its
start parsing the same classes. The JVM ignores the archive if it was made by another JVM or for other jars.
"""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Mapping
from pathlib import Path

from storeservers import cache, hdfs

_NAME = "classes.jsa"


def archive() -> Path:
    """Return the archive; the first call on a machine makes it."""
    java = Path(shutil.which("java") or "java").resolve()
    return cache.entry(f"hdfs-classes-{cache.key_of(hdfs.POM, java)}", _make) / _NAME


def _make(into: Path) -> None:
    with tempfile.TemporaryDirectory(prefix="dataprep-hdfs-classes-") as folder:
        cluster = _Recorded(Path(folder))
        try:
            cluster.launch()
            cluster.wait_until_ready()
            cluster.write("/file", b"content")
            cluster.read("/file")
            # The lists are complete only after an orderly exit.
            for process in cluster.processes:
                process.stop(grace_seconds=60)
        finally:
            cluster.stop()
        lists = [file.read_text().splitlines() for file in sorted(cluster.lists.iterdir())]
    classes = into / "classes.txt"
    classes.write_text("\n".join(dict.fromkeys(line for lines in lists for line in lines)) + "\n")
    options = ["-Xshare:dump", f"-XX:SharedClassListFile={classes}", f"-XX:SharedArchiveFile={into / _NAME}"]
    cache.build(["java", *hdfs.JVM, *options, "-cp", hdfs.class_path()], cwd=into)


class _Recorded(hdfs.HdfsCluster):
    """A cluster whose servers list the classes that they load."""

    def __init__(self, run_dir: Path) -> None:
        super().__init__(run_dir, datanodes=1)
        self.lists = run_dir / "classes"
        self.lists.mkdir()

    def _java(self, name: str, settings: Mapping[str, str]) -> list[str]:
        return [*super()._java(name, settings), f"-XX:DumpLoadedClassList={self.lists / name}"]

    def _shared_classes(self) -> list[str]:
        return []
