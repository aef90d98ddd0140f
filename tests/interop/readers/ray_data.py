"""Writes and reads data sets with Ray Data and `dataprep_ray`. Input: a JSON file of {paths, folder, scenario, code, uri}.

`paths` are the folders of the code, which Ray's processes need too. `code` is code from the documentation that reads the data set `uri`.
The scenario `killed` kills the driver while its tasks write. The scenario `all` writes rows, messages of refused calls, and the attempts of
tasks to `said.json` in the folder.
"""

import importlib.metadata
import json
import logging
import os
import signal
import sys
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

wanted = json.loads(Path(sys.argv[1]).read_text())
sys.path += wanted["paths"]
os.environ |= {
    "PYTHONPATH": os.pathsep.join(wanted["paths"]),
    "RAY_USAGE_STATS_ENABLED": "0",
    "RAY_DATA_DISABLE_PROGRESS_BARS": "1",
    "RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO": "0",
    "RAY_AUTH_MODE": "disabled",  # all processes are on the loopback interface
}

import numpy as np  # noqa: E402 - the path is set above
import pyarrow as pa  # noqa: E402
import ray  # noqa: E402

from dataprep_ray import DataprepDatasink, DataprepDatasource  # noqa: E402

_any: Any = pa
FOLDER = Path(wanted["folder"])
ATTEMPTS = FOLDER / "attempts"
ATTEMPTS.mkdir(parents=True, exist_ok=True)
_OBJECTS = 128 << 20
_TRIES = 3

Fails = Callable[[int, int], str | None]
"""Given a task's first number and the number of an attempt, returns how the attempt fails, or None."""


def start(folder: str) -> None:
    """Starts Ray's processes.

    Ray waits 30 seconds for its processes. If they need longer, another attempt is faster, because their files are then in the page cache.
    """
    for left in reversed(range(_TRIES)):
        try:
            ray.init(
                num_cpus=2,
                include_dashboard=False,
                log_to_driver=False,
                logging_level="error",
                object_store_memory=_OBJECTS,
                _temp_dir=folder,
                _node_ip_address="127.0.0.1",
            )
        except Exception:  # Ray has no specific class for this error
            ray.shutdown()
            if not left:
                raise
        else:
            return


def frame(first: int, count: int, tasks: int, fails: Fails = lambda _first, _attempt: None) -> Any:
    """Returns rows with consecutive numbers, divided among this many tasks.

    Each attempt of a task records that it has begun, and may fail midway.
    """
    folder = str(ATTEMPTS / f"{first}-{count}-{tasks}")

    def rows(batch: dict[str, Any]) -> Iterator[dict[str, Any]]:
        ids = batch["id"] + first
        Path(folder).mkdir(exist_ok=True)
        attempt = len(list(Path(folder).glob(f"{ids[0]}-*")))
        how = fails(int(ids[0]), attempt)
        (Path(folder) / f"{ids[0]}-{attempt}-{how}").touch()
        half = len(ids) // 2
        for part in (ids[:half], ids[half:]):
            yield {"n": part, "word": np.array([f"word {n}" for n in part])}
            if how == "exit":
                os._exit(1)
            if how == "raise":
                raise ConnectionError("this attempt fails")

    return ray.data.range(count, override_num_blocks=tasks).map_batches(rows, batch_size=None)


def saved(table: Any, name: str, **options: Any) -> str | None:
    """Writes a Dataset. If the call fails, returns the error message."""
    try:
        table.write_datasink(DataprepDatasink(str(FOLDER / name), **options))
    except Exception as exc:  # whatever Ray raises
        return str(exc)
    return None


def opened(name: str, **options: Any) -> Any:
    return ray.data.read_datasource(DataprepDatasource(str(FOLDER / name), **options))


def rows_of(dataset: Any, key: str = "n") -> list[dict[str, str]]:
    found = sorted(dataset.take_all(), key=lambda row: row[key])
    return [{name: repr(value.tolist() if hasattr(value, "tolist") else value) for name, value in row.items()} for row in found]


def killed() -> None:
    """Kills the driver when its second task writes."""
    driver = os.getpid()

    def kill(first: int, _attempt: int) -> None:
        if first >= 20:
            os.kill(driver, signal.SIGKILL)

    saved(frame(0, 60, 3, kill), "killed")


def typed() -> pa.Table:
    count = 20
    table: pa.Table = _any.table(
        {
            "n": list(range(count)),
            "half": [n / 4 for n in range(count)],
            "digits": _any.array(list(range(count))).cast(pa.decimal128(38, 3)),
            "at": _any.array(range(count), pa.timestamp("us", "UTC")),
            "day": _any.array(range(count), pa.int32()).cast(pa.date32()),
            "list": [[n, n + 1] for n in range(count)],
            "struct": [{"x": n, "y": ["a", None]} for n in range(count)],
            "bytes": [bytes([n]) for n in range(count)],
            "sometimes": [n if n % 2 else None for n in range(count)],
            "flag": [n % 3 == 0 for n in range(count)],
        }
    )
    return table


def everything() -> dict[str, Any]:
    refusals: dict[str, Any] = {}
    table = ray.data.from_arrow(typed())
    refusals["types"] = saved(table, "types", format="parquet")
    back = opened("types")

    images = ray.data.from_numpy(np.arange(240, dtype=np.uint8).reshape(10, 4, 3, 2))
    refusals["tensors"] = saved(images, "tensors", format="tfrecord")
    batch = next(iter(opened("tensors").iter_batches(batch_size=10, batch_format="numpy")))

    def sometimes(first: int, attempt: int) -> str | None:
        # Each of the ten tasks fails. The workers of seven tasks are killed, and seven tasks raise an error. Some tasks fail in both ways.
        ways: list[str | None] = ["exit", "raise"] if first % 60 == 30 else ["raise"] if first % 60 == 50 else ["exit"]
        return ways[attempt] if attempt < len(ways) else None

    refusals["first"] = saved(frame(0, 30, 2), "failing")
    refusals["exists"] = saved(frame(0, 30, 2), "failing")
    refusals["ignored"] = saved(frame(90, 30, 2), "failing", mode="ignore")
    refusals["appended"] = saved(frame(30, 200, 10, sometimes), "failing", mode="append")
    refusals["failed"] = saved(frame(900, 40, 2, lambda first, _: "raise" if first > 900 else None), "failing", mode="overwrite")
    refusals["continued"] = saved(frame(0, 60, 3), "killed")
    refusals["format"] = str(_refusal(lambda: DataprepDatasink(str(FOLDER / "none"), format="tfrecrod")))
    refusals["empty"] = saved(frame(0, 10, 1).filter(lambda row: row["n"] < 0), "failing", mode="append")
    mixed = ray.data.range(20, override_num_blocks=2).map_batches(
        lambda batch: {"n": batch["id"] / 2 if batch["id"][0] else batch["id"]}, batch_size=None
    )
    refusals["mixed"] = saved(mixed, "mixed")
    refusals["schema"] = saved(mixed, "mixed", schema=pa.schema([("n", pa.float64())]))
    parts = ray.data.range(20, override_num_blocks=2).map(lambda row: {"n": row["id"], "part": "train" if row["id"] % 2 else "test"})
    refusals["splits"] = saved(parts.sort(["part", "n"]), "splits", split_column="part")
    # Ray's sampling uses the current thread to find the number of its task.
    refusals["sampled"] = saved(ray.data.range(100, override_num_blocks=2).random_sample(0.5, seed=1), "sampled")
    refusals["pandas"] = saved(ray.data.from_pandas(typed().select(["n", "half"]).to_pandas()), "pandas", min_rows_per_file=5)
    killed_once = ATTEMPTS / "read"

    def read(batch: dict[str, Any]) -> dict[str, Any]:
        if not killed_once.exists():
            killed_once.touch()
            os._exit(1)
        return batch

    return {
        "versions": {"ray": importlib.metadata.version("ray")},
        "refusals": refusals,
        "written": rows_of(table),
        "read": rows_of(back),
        "documented": documented(),
        "schemas": [str(table.schema()), str(back.schema())],
        "images": {name: [list(column.shape), str(column.dtype), int(column.sum())] for name, column in batch.items()},
        "splits": rows_of(opened("splits", split_column="part")),
        "pruned": rows_of(opened("killed", columns=["n"])),
        "limited": len(opened("failing").take(7)),
        "read_after_a_kill": sorted(row["n"] for row in opened("failing").map_batches(read, batch_size=None).take_all()),
        "attempts": sorted(str(path.relative_to(ATTEMPTS)) for path in ATTEMPTS.rglob("*")),
    }


def documented() -> list[Any]:
    """Runs the code from the documentation. Returns the images with which the code trains."""
    found: list[Any] = []
    names = {"uri": wanted["uri"], "train": lambda images, _labels: found.append(images.tolist())}
    exec("\n".join(wanted["code"]), names)  # noqa: S102 - the code is ours
    return found


def _refusal(call: Callable[[], Any]) -> Exception | None:
    try:
        call()
    except Exception as exc:  # whatever the call raises
        return exc
    return None


if __name__ == "__main__":
    with tempfile.TemporaryDirectory(prefix="ray-", ignore_cleanup_errors=True) as sockets:
        start(sockets)
        logging.getLogger("ray.data").setLevel(logging.CRITICAL)
        context = ray.data.DataContext.get_current()
        context.enable_progress_bars = False
        context.retried_map_errors, context.max_map_retries = ["this attempt fails"], 2
        if wanted["scenario"] == "killed":
            killed()
        else:
            # Don't use stdout, because Ray may print there at any moment.
            (FOLDER / "said.json").write_text(json.dumps(everything()))
        ray.shutdown()
