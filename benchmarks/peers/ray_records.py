"""Ray Data: a Parquet file, or JPEG files, to TFRecord by `write_tfrecords`, on two cores.

ray_records.py parquet|images INPUT OUTPUT RECORDS
"""

import os
import sys
from pathlib import Path
from typing import Any

os.environ |= {
    "RAY_USAGE_STATS_ENABLED": "0",
    "RAY_AIR_NEW_OUTPUT": "0",
    "TF_CPP_MIN_LOG_LEVEL": "3",
    "RAY_DATA_DISABLE_PROGRESS_BARS": "1",
}

import ray
from clocked import clocked


def parquet(source: Path) -> Any:
    return ray.data.read_parquet(str(source / "table.parquet"))


def images(source: Path) -> Any:
    classes = sorted(folder.name for folder in source.iterdir())

    def named(row: dict[str, Any]) -> dict[str, Any]:
        name = Path(row["path"]).parent.name
        return {"image/encoded": row["bytes"], "image/class/label": classes.index(name), "image/class/text": name}

    return ray.data.read_binary_files(str(source), include_paths=True).map(named)


def main(kind: str, source: Path, output: Path, records: int) -> None:
    ray.init(num_cpus=2, include_dashboard=False, log_to_driver=False, logging_level="error", object_store_memory=256 << 20)
    context = ray.data.DataContext.get_current()
    context.enable_progress_bars = False
    context.execution_options.preserve_order = True

    def work() -> int:
        {"parquet": parquet, "images": images}[kind](source).limit(records).write_tfrecords(str(output))
        return records

    clocked(work, waits=False)
    ray.shutdown()


if __name__ == "__main__":
    main(sys.argv[1], Path(sys.argv[2]), Path(sys.argv[3]), int(sys.argv[4]))
