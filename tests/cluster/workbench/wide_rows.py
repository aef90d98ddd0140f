"""Jobs that read large CSV files with few rows: pods take a while to read the files, and everything else takes little time."""

from pathlib import Path
from typing import Any, Final

from workbench.jobs import Document, Namespace
from workbench.stores import BUCKET, Stores, mount

ROWS: Final = 23_040
"""The number of rows in each file."""
_FILLING: Final = b"x" * (16 << 10)
_ROWS_AT_ONCE: Final = 1024


def write(folder: Path, *, files: int) -> None:
    """Writes CSV files of 361 MiB, in which each row has a number and a text.

    All of them are links to one file beside the folder, so additional files take no space. That file is written only once.
    """
    data = folder.parent / "wide-rows.csv"
    if not data.exists():
        with data.open("wb") as file:
            for number in range(0, ROWS, _ROWS_AT_ONCE):
                file.write(b"".join(b"%d,%b\n" % (row, _FILLING) for row in range(number, min(number + _ROWS_AT_ONCE, ROWS))))
        data.chmod(0o644)
    folder.mkdir()
    folder.chmod(0o755)
    for number in range(files):
        (folder / f"{number}.csv").hardlink_to(data)


def large_job(namespace: Namespace, stores: Stores, *, files: int, **spec: Any) -> Document:
    """A job named `large` that reads only the column of numbers from `files` files in the shared folder.

    It writes two shards to the OSS fake.
    """
    source = stores.volume / namespace.name
    write(source, files=files)
    mounted = mount(namespace, stores)
    return {
        "apiVersion": "dataprep.io/v1alpha1",
        "kind": "DataPrepJob",
        "metadata": {"name": "large"},
        "spec": {
            "source": {
                "csv": {
                    "uris": [f"/data/{source.name}"],
                    "columns": [{"name": "n", "type": "Int64"}, {"name": "filling", "type": "String"}],
                }
            },
            "features": [{"name": "n", "columns": ["n"], "dtype": "int64"}],
            "output": {"uri": f"oss://{BUCKET}/{namespace.name}", "format": "jsonl", "shards": {"count": 2}},
            "stores": stores.settings(),
            "workers": {
                "parallelism": 2,
                "volumes": mounted["workers__volumes"],
                "volumeMounts": mounted["workers__volumeMounts"],
                "resources": {"requests": {"cpu": "200m", "memory": "64Mi"}, "limits": {"memory": "1Gi"}},
            },
        }
        | spec,
    }
