"""Pieces of Python source that several loaders share. `loaders` writes the files."""

import json
import re
from collections.abc import Mapping
from string import Template
from typing import Final

from dataprep_converter.dataset.sidecars import FinishedDataSet

_FILES: Final = Template('''\
def files(split, folder=FOLDER):
    """The split's shards, in their order."""
    if "://" in str(folder):
        raise ValueError(f"{folder}: $library opens no $remote here. Mount the folder or copy it, and give its path; or read it by dataprep_reader.open({str(folder)!r}, split={split!r}).")
    lines = Path(folder, "_dataprep/files", f"{split}.txt").read_text(encoding="utf-8").splitlines()
    return [str(Path(folder, line)) for line in lines]
''')


class Unreadable(Exception):
    """Raised if a framework can't read the data set. The message states the reason, and describes what the framework can read."""


def quoted(text: str) -> str:
    """Returns the text as a Python string literal."""
    return json.dumps(text, ensure_ascii=False)


def filled(template: Template, **parts: str) -> str:
    """Returns the template with its parts filled in, without the surplus blank lines that empty parts leave."""
    return re.sub(r"\n{4,}", "\n\n\n", template.substitute(parts))


def files_function(library: str, remote: str = "hdfs://, s3:// or oss://") -> str:
    """Returns the Python source of the function `files(split, folder)`, for a library that can't open files on the stores in `remote`."""
    return _FILES.substitute(library=library, remote=remote)


def splits(finished: FinishedDataSet) -> str:
    """Returns Python source that maps each split to its number of records."""
    return dictionary("SPLITS", {split.name: str(split.records) for split in finished.manifest.splits}, "Records of each split.")


def classes(finished: FinishedDataSet) -> str:
    """Returns Python source that maps each label to its class names, or the empty string if no classes have names."""
    labels = finished.manifest.labels
    lists = {name: f"[{', '.join(map(quoted, class_names))}]" for name, class_names in labels.items()}
    return dictionary("CLASSES", lists, "Names of the classes, by their numbers.") if lists else ""


def dictionary(name: str, values: Mapping[str, str], comment: str) -> str:
    """Returns Python source: a comment, followed by the definition of a dictionary. The values are source code."""
    lines = "".join(f"    {quoted(key)}: {value},\n" for key, value in values.items())
    return f"# {' '.join(comment.split())}\n{name} = {{\n{lines}}}\n"
