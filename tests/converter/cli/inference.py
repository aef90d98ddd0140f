"""Runs `dataprep infer`, and makes files for it."""

import json
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.feather
import pyarrow.parquet
import yaml
from PIL import Image
from tests.converter.cli.commandline import code_of

from workbench import mnist

_arrow: Any = pa
_feather: Any = pyarrow.feather
_parquet: Any = pyarrow.parquet


def pictures(folder: Path, *paths: str) -> Path:
    for number, path in enumerate(paths):
        (folder / path).parent.mkdir(parents=True, exist_ok=True)
        Image.new("RGB", (4, 3), (number, 0, 0)).save(folder / path)
    return folder


def text(path: Path, content: str) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(content)
    return path


def idx(folder: Path) -> Path:
    return mnist.write(folder / "digits", train=30, test=10)


def photos(folder: Path) -> Path:
    names = [f"{split}/{kind}/{n}.png" for split in ("train", "val") for kind in ("cat", "dog") for n in range(2)]
    return pictures(folder / "photos", *names)


def data_set(folder: Path) -> Path:
    assert code_of("infer", idx(folder), "--output", folder / "made.yaml", "--to", folder / "made") == 0
    assert code_of("run", folder / "made.yaml", "--quiet") == 0
    return folder / "made"


def inferred(source: Path | str, folder: Path, *more: str) -> tuple[str, dict[str, Any]]:
    assert code_of("infer", source, "--output", folder / "job.yaml", "--to", folder / "out", *more) == 0
    written = (folder / "job.yaml").read_text()
    spec: dict[str, Any] = yaml.safe_load(written)["spec"]
    return written, spec


def features(data_set: Path) -> list[str]:
    (manifest,) = (data_set / "_dataprep").glob("*/manifest.json")
    return sorted(feature["name"] for feature in json.loads(manifest.read_text())["features"])
