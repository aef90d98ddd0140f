"""Builds `stored-<commit>.tar.xz`: inputs, jobs and a release's output on a local disk, with the times of all files.

    python tests/compat/making.py CHECKOUT ARCHIVE     # CHECKOUT: a release's sources with a compiled kernel

The committed archive was made by the last release in which parts and formats had no versions. It is never rebuilt: when a format gets a new
version, another archive is added beside it. On a local disk, a pin consists of a file's size and its modification time in nanoseconds. tar
doesn't keep the nanoseconds, so the times are also stored in `times.json`.

Each folder is a data set. `in/` is the input, `job.yaml` is the job with relative paths, `out/` is the release's output, and `state` names
the step that the job has reached.
"""

import gzip
import io
import json
import os
import struct
import subprocess
import sys
import tarfile
import tempfile
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, Final

import yaml
from PIL import Image

ROWS: Final = 60
KEY: Final = "a key that only the tests have"
_TIME: Final = 1_700_000_000

Job = dict[str, Any]
CSV: Final[Job] = {
    "csv": {
        "uris": ["in"],
        "header": True,
        "columns": [{"name": "x", "type": "Int64"}, {"name": "y", "type": "Float32"}, {"name": "label", "type": "Int64"}],
    }
}
TEXT: Final[Job] = {
    "csv": {
        "uris": ["in"],
        "header": True,
        "columns": [{"name": "x", "type": "String"}, {"name": "y", "type": "Float32"}, {"name": "label", "type": "Int64"}],
    }
}
INFERRED: Final[Job] = {"csv": {"uris": ["in"], "header": True}}
IMAGES: Final[Job] = {"images": {"uris": ["in"]}}
HALVES: Final[Job] = {"seed": 3, "into": [{"name": "train", "fraction": 0.5}, {"name": "test", "fraction": 0.5}]}
IRIS: Final[Job] = {"features": [{"name": "features", "columns": ["x", "y"]}], "labels": [{"name": "label"}]}


def rows(folder: Path) -> None:
    """Two files of rows."""
    for number in range(2):
        lines = [f"{number * 1000 + row},{row / 4},{row % 3}" for row in range(ROWS // 2)]
        (folder / f"rows-{number}.csv").write_text("x,y,label\n" + "\n".join(lines) + "\n")


def rows_with_a_bad_one(folder: Path) -> None:
    rows(folder)
    with (folder / "rows-1.csv").open("a") as more:
        more.write("not a number,1,1\n")


def sparse(folder: Path) -> None:
    (folder / "rows.svm").write_text("".join(f"{row % 2} 1:{row} 3:{row / 8}\n" for row in range(ROWS)))


def digits(folder: Path) -> None:
    """IDX files, one of them gzipped."""
    pixels = bytes((row * 7 + pixel) % 256 for row in range(ROWS) for pixel in range(16))
    (folder / "images.idx").write_bytes(struct.pack(">IIII", 0x803, ROWS, 4, 4) + pixels)
    labels = struct.pack(">II", 0x801, ROWS) + bytes(row % 10 for row in range(ROWS))
    (folder / "labels.idx.gz").write_bytes(gzip.compress(labels, mtime=0))


def photos(folder: Path) -> None:
    for number in range(12):
        picture = io.BytesIO()
        Image.new("RGB", (3, 2), (number * 20, 10, 200)).save(picture, "PNG")
        (folder / ("cat", "dog")[number % 2]).mkdir(exist_ok=True)
        (folder / ("cat", "dog")[number % 2] / f"{number:02}.png").write_bytes(picture.getvalue())


IDX: Final[Job] = {"idx": {"subsets": [{"name": "train", "images": "in/images.idx", "labels": "in/labels.idx.gz"}]}}


def to(format_: str, source: Mapping[str, Any] = CSV, *, output: Mapping[str, Any] | None = None, **spec: Any) -> Job:
    """The spec of a job that writes two shards, or minibatches if `output` has a granularity."""
    written: Job = {"uri": "out", "format": format_, "shards": {"count": 2}, **(output or {})}
    if "granularity" in written:
        del written["shards"]
    return {"source": dict(source), **spec, "output": written}


Inputs = Callable[[Path], None]
SETS: Final[Mapping[str, tuple[Inputs, Job]]] = {
    "tfrecord": (rows, to("tfrecord")),
    "tfrecord-gzip": (rows, to("tfrecord", output={"tfrecord": {"compression": "Gzip"}})),
    "indexed": (rows, to("tfrecord", output={"index": True})),
    "inferred": (rows, to("parquet", INFERRED)),
    "shuffled": (rows, to("tfrecord", shuffle={"seed": 5}, splits=HALVES)),
    "codes": (
        rows,
        to(
            "jsonl",
            shuffle={"seed": 1},
            splits={"seed": 3, "exact": True, "into": [{"name": "train", "fraction": 0.7}, {"name": "test", "fraction": 0.3}]},
        ),
    ),
    "quarantine": (rows_with_a_bad_one, to("tfrecord", onBadRecord={"policy": "Quarantine"})),
    "recordio-libsvm": (sparse, to("recordioProtobuf", {"libsvm": {"uris": ["in"], "numFeatures": 4}})),
    "recordio-idx": (digits, to("recordioProtobuf", IDX)),
    "idx": (digits, to("tfrecord", IDX, shuffle={"seed": 9})),
    "dl4j": (
        rows,
        to(
            "dl4jDataset",
            transforms=[{"oneHot": {"columns": ["label"], "numClasses": 3}}],
            splits=HALVES,
            output={"granularity": "Minibatch", "minibatchSize": 8},
            **IRIS,
        ),
    ),
    "file-batch": (
        photos,
        {
            "source": IMAGES,
            "features": [{"name": "image/encoded"}, {"name": "image/filename"}],
            "output": {"uri": "out", "format": "fileBatch", "granularity": "Minibatch", "minibatchSize": 4},
        },
    ),
    "images": (photos, to("tfrecord", IMAGES)),
    "mds": (photos, to("mds", IMAGES, splits=HALVES)),
    "webdataset": (photos, to("webdataset", IMAGES)),
    "map-file": (rows, to("mapFile", **IRIS)),
    "sequence-file": (rows, to("sequenceFile", **IRIS)),
    "csv": (rows, to("csv")),
    "arrow": (rows, to("arrow")),
    "npz": (rows, to("npz")),
    "array-record": (rows, to("arrayRecord")),
    "vocabulary": (rows, to("tfrecord", TEXT, transforms=[{"vocabulary": {"columns": ["x"]}}])),
    "hash": (rows, to("jsonl", TEXT, transforms=[{"hash": {"columns": ["x"], "keyEnv": "PEPPER"}}])),
    "extended": (rows, to("tfrecord", shuffle={"seed": 5}, splits=HALVES, output={"overwrite": "Extend"})),
}
"""Finished data sets. The data set `copy` is made separately."""
UNFINISHED: Final[Mapping[str, Job]] = {
    "plain": to("tfrecord"),
    "shuffled": to("tfrecord", shuffle={"seed": 5}, splits=HALVES),
    "recordio": to("recordioProtobuf", **IRIS),
    "inferred": to("tfrecord", INFERRED),
    "growing": to("tfrecord", shuffle={"seed": 5}, splits=HALVES, output={"overwrite": "Extend"}),
}
"""Jobs that died. Each of these jobs is stored in all of the STATES."""
STATES: Final = ("planned", "some-shards", "all-shards")


def main(checkout: Path, archive: Path) -> None:
    """Builds everything and packs it."""
    with tempfile.TemporaryDirectory() as folder:
        root = Path(folder)
        for name, (inputs, spec) in SETS.items():
            begin(root / name, inputs, spec)
            finish(root / name, checkout)
        more(root / "extended" / "in")
        finish(root / "extended", checkout)
        copy(root, checkout)
        unfinished(root, checkout)
        pack(root, archive)


def begin(folder: Path, inputs: Inputs, spec: Job) -> None:
    """Writes input and job."""
    (folder / "in").mkdir(parents=True)
    inputs(folder / "in")
    for file in (folder / "in").rglob("*"):
        os.utime(file, (_TIME, _TIME))
    document = {"apiVersion": "dataprep.io/v1alpha1", "kind": "DataPrepJob", "metadata": {"name": folder.name}, "spec": spec}
    (folder / "job.yaml").write_text(yaml.safe_dump(document, sort_keys=False))


def more(folder: Path, number: int = 2) -> None:
    """Adds an input file for an extension."""
    file = folder / f"rows-{number}.csv"
    file.write_text("x,y,label\n" + "".join(f"{number * 1000 + row},1.5,{row % 3}\n" for row in range(ROWS // 2)))
    os.utime(file, (_TIME, _TIME))


def finish(folder: Path, checkout: Path) -> None:
    dataprep(folder, checkout, "run", "job.yaml", "--workers", "1", "--quiet")
    (folder / "state").write_text("finished\n")


def copy(root: Path, checkout: Path) -> None:
    """A copy of the shuffled data set. The original is next to it."""
    begin(root / "copy", rows, {"source": {"dataset": {"uri": "original"}}, "output": {"uri": "out", "format": "copy"}})
    job = yaml.safe_load((root / "shuffled" / "job.yaml").read_text())
    job["spec"]["output"]["uri"] = "original"
    (root / "copy" / "original.yaml").write_text(yaml.safe_dump(job, sort_keys=False))
    dataprep(root / "copy", checkout, "run", "original.yaml", "--workers", "1", "--quiet")
    finish(root / "copy", checkout)


def unfinished(root: Path, checkout: Path) -> None:
    """Jobs that died after the plan, after some shards and before the commit, and an extension that died after its plan."""
    for name, spec in UNFINISHED.items():
        for state in STATES:
            folder = root / f"{name}-{state}"
            begin(folder, rows, spec | {"workers": {"parallelism": 2}})
            if name == "growing":
                finish(folder, checkout)
                more(folder / "in")
            planned = json.loads(dataprep(folder, checkout, "plan", "job.yaml"))
            tasks = {"planned": 0, "some-shards": 1, "all-shards": planned["tasks"]}[state]
            for task in range(tasks):
                run = ("--run", planned["runId"], "--plan-sha256", planned["planSha256"], "--index", str(task), "--attempt", "0")
                dataprep(folder, checkout, "work", "job.yaml", *run)
            (folder / "state").write_text(f"{state}\n")


def dataprep(folder: Path, checkout: Path, *words: str) -> str:
    """Runs one of the release's commands; returns its standard output."""
    path = os.pathsep.join(str(checkout / each) for each in ("api", "converter"))
    environment = {name: value for name, value in os.environ.items() if not name.startswith("DATAPREP_")}
    done = subprocess.run(
        [sys.executable, "-m", "dataprep_converter", *words],
        cwd=folder,
        env=environment | {"PYTHONPATH": path, "PYTHONSAFEPATH": "1", "PEPPER": KEY},
        capture_output=True,
        text=True,
        check=False,
    )
    if done.returncode:
        raise RuntimeError(f"{folder.name}: dataprep {' '.join(words)} ended with {done.returncode}: {done.stderr}")
    return done.stdout


def pack(root: Path, archive: Path) -> None:
    """Archives all files of the folder, sorted by name and without owners."""
    files = sorted(path for path in root.rglob("*") if path.is_file())
    times = {str(path.relative_to(root)): path.stat().st_mtime_ns for path in files}
    (root / "times.json").write_text(json.dumps(times))
    with tarfile.open(archive, "w:xz", preset=9) as packed:
        for path in [root / "times.json", *files]:
            member = tarfile.TarInfo(str(path.relative_to(root)))
            member.size = path.stat().st_size
            with path.open("rb") as content:
                packed.addfile(member, content)


def unpack(archive: Path, root: Path) -> None:
    """Restores the files with their times."""
    with tarfile.open(archive) as packed:
        packed.extractall(root, filter="data")
    for path, time in json.loads((root / "times.json").read_text()).items():
        os.utime(root / path, ns=(time, time))


if __name__ == "__main__":
    main(Path(sys.argv[1]).resolve(), Path(sys.argv[2]))
