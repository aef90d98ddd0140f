"""Loads Parquet files with Hugging Face's `datasets`. Input: the files' paths; output: the features, and all records with decoded
images."""

import importlib.metadata
import json
import sys
import tempfile
from typing import Any

import datasets
from PIL import Image

datasets.disable_progress_bars()


def plain(value: Any) -> Any:
    """Reduces an image to its size and first pixel."""
    if isinstance(value, Image.Image):
        return {"size": value.size, "first": value.getpixel((0, 0))}
    return value


with tempfile.TemporaryDirectory() as cache:
    found = datasets.load_dataset("parquet", data_files={"train": sys.argv[1:]}, split="train", cache_dir=cache)
    features = {name: [type(feature).__name__, getattr(feature, "names", None)] for name, feature in found.features.items()}
    records = [{name: plain(value) for name, value in record.items()} for record in found]
versions = {name: importlib.metadata.version(name) for name in ("datasets", "pyarrow")}
json.dump({"versions": versions, "features": features, "records": records}, sys.stdout)
