"""Loaders: `_dataprep/loaders/load_<framework>.py`, short files that load exactly this data set. One module per framework makes each.

They find the folder by where they lie, so a copy of it loads itself. Where a framework can't read the format, its file says so.
"""

import json
import re
from collections.abc import Mapping
from importlib import import_module
from string import Template
from typing import Final

from dataprep_api import names
from dataprep_converter.metadata import Finished, Made

LOADERS: Final[Mapping[str, str]] = {
    "tensorflow": "dataprep_converter.metadata.loader_tensorflow",
    "torch": "dataprep_converter.metadata.loader_torch",
    "dali": "dataprep_converter.metadata.loader_dali",
    "sagemaker": "dataprep_converter.metadata.loader_sagemaker",
    "spark": "dataprep_converter.metadata.loader_spark",
    "numpy": "dataprep_converter.metadata.loader_numpy",
}
"""Framework → module with `text(finished)`. Adding a loader is one line here and one file."""

PROGRAMS: Final[Mapping[str, str]] = {"LoadHadoop.java": "hadoop", "LoadDl4j.java": "dl4j"}
"""File → function of `loader_java`. They are there only where the format is theirs."""

_FILES: Final = Template('''\
def files(split, folder=FOLDER):
    """The split's shards, in their order."""
    if "://" in str(folder):
        raise ValueError(f"{folder}: $library opens no $remote here. Mount the folder or copy it, and give its path; or read it by dataprep_reader.open({str(folder)!r}, split={split!r}).")
    lines = Path(folder, "_dataprep/paths", f"{split}.txt").read_text(encoding="utf-8").splitlines()
    return [str(Path(folder, line)) for line in lines]
''')


class Unreadable(Exception):
    """A framework can't read the data set; the message says why, and what it could read."""


def make(finished: Finished) -> Made:
    """One file for each framework."""
    for framework, module in LOADERS.items():
        try:
            text: str = import_module(module).text(finished)
        except Unreadable as exc:
            text = f"raise SystemExit({quoted(f'load_{framework}.py: {exc}')})\n"
        yield f"{names.SIDE}/loaders/load_{framework}.py", text.encode()
    programs = import_module("dataprep_converter.metadata.loader_java")
    for file, function in PROGRAMS.items():
        try:
            yield f"{names.SIDE}/loaders/{file}", getattr(programs, function)(finished).encode()
        except Unreadable:
            continue


def quoted(text: str) -> str:
    """Source of a string."""
    return json.dumps(text, ensure_ascii=False)


def filled(template: Template, **parts: str) -> str:
    """The template with its parts, without the blank lines that empty ones leave."""
    return re.sub(r"\n{4,}", "\n\n\n", template.substitute(parts))


def files_function(library: str, remote: str = "hdfs://, s3:// or oss://") -> str:
    """Source of `files(split, folder)`, for a library that opens nothing `remote`."""
    return _FILES.substitute(library=library, remote=remote)


def splits(finished: Finished) -> str:
    """Source of a dictionary: split → records."""
    return dictionary("SPLITS", {split.name: str(split.records) for split in finished.manifest.splits}, "Records of each split.")


def classes(finished: Finished) -> str:
    """Source of a dictionary: label → class names; empty when no classes have names."""
    labels = finished.manifest.labels
    lists = {name: f"[{', '.join(map(quoted, found))}]" for name, found in labels.items()}
    return dictionary("CLASSES", lists, "Names of the classes, by their numbers.") if lists else ""


def dictionary(name: str, values: Mapping[str, str], comment: str) -> str:
    """Source of a dictionary of these sources, below the comment."""
    lines = "".join(f"    {quoted(key)}: {value},\n" for key, value in values.items())
    return f"# {' '.join(comment.split())}\n{name} = {{\n{lines}}}\n"
