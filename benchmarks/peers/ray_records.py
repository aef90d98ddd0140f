"""Converts a Parquet file to TFRecord with Ray Data's `write_tfrecords`, on two cores.

ray_records.py parquet INPUT OUTPUT RECORDS
"""

import logging
import os
import shutil
import sys
import tempfile
from pathlib import Path

os.environ |= {
    "RAY_USAGE_STATS_ENABLED": "0",
    "RAY_AUTH_MODE": "disabled",  # all processes are on the loopback interface
    "TF_CPP_MIN_LOG_LEVEL": "3",
}

import ray
from clocked import clocked

_OBJECTS = 256 << 20
_TRIES = 3


def start(folder: str) -> None:
    """Starts Ray's processes, which keep their logs and sockets in `folder`. Ray gives its processes 30 seconds to start, and this limit
    can't be changed. A second attempt is faster, because the loaded files are then in the page cache."""
    for left in reversed(range(_TRIES)):
        try:
            ray.init(
                num_cpus=2,
                _node_ip_address="127.0.0.1",
                include_dashboard=False,
                log_to_driver=False,
                logging_level="error",
                object_store_memory=_OBJECTS,
                _temp_dir=folder,
            )
            return
        except Exception:  # Ray has no specific class for this error
            ray.shutdown()
            if not left:
                raise


def convert(source: Path, output: Path, records: int) -> int:
    ray.data.read_parquet(str(source / "table.parquet")).limit(records).write_tfrecords(str(output))
    return records


def main(source: Path, output: Path, records: int) -> None:
    context = ray.data.DataContext.get_current()
    context.enable_progress_bars = False
    context.execution_options.preserve_order = True
    logging.getLogger("ray.data").setLevel(logging.ERROR)
    # Ray's workers import TensorFlow when they write their first records. So convert the records once before the clock starts. There are
    # enough records for Ray to start both workers.
    convert(source, output / "tried", records)
    shutil.rmtree(output / "tried")

    clocked(lambda: convert(source, output / "made", records), waits=False)
    # Ray's file names look like the names of tar files, so rename the files.
    for number, part in enumerate(sorted((output / "made").iterdir())):
        part.rename(output / f"{number:05d}.tfrecords")


if __name__ == "__main__":
    with tempfile.TemporaryDirectory(prefix="ray-", ignore_cleanup_errors=True) as folder:
        start(folder)
        main(Path(sys.argv[2]), Path(sys.argv[3]), int(sys.argv[4]))
        ray.shutdown()
