"""Loaders: `_dataprep/loaders/load_<framework>.py`, short files that load exactly this data set. One module per framework makes each.

They find the folder by where they lie, so a copy of it loads itself. Where a framework can't read the format, its file says so.
"""

from collections.abc import Mapping
from importlib import import_module
from typing import Final

from dataprep_api import names
from dataprep_converter.dataset.sidecars import Finished, Made
from dataprep_converter.dataset.sidecars.loader_source import Unreadable, quoted

LOADERS: Final[Mapping[str, str]] = {
    "tensorflow": "dataprep_converter.dataset.sidecars.loader_tensorflow",
    "torch": "dataprep_converter.dataset.sidecars.loader_torch",
    "dali": "dataprep_converter.dataset.sidecars.loader_dali",
    "sagemaker": "dataprep_converter.dataset.sidecars.loader_sagemaker",
    "spark": "dataprep_converter.dataset.sidecars.loader_spark",
    "numpy": "dataprep_converter.dataset.sidecars.loader_numpy",
}
"""Framework → module with `text(finished)`. Adding a loader is one line here and one file."""

PROGRAMS: Final[Mapping[str, str]] = {"LoadHadoop.java": "hadoop", "LoadDl4j.java": "dl4j"}
"""File → function of `loader_java`. They are there only where the format is theirs."""


def make(finished: Finished) -> Made:
    """One file for each framework."""
    for framework, module in LOADERS.items():
        try:
            text: str = import_module(module).text(finished)
        except Unreadable as exc:
            text = f"raise SystemExit({quoted(f'load_{framework}.py: {exc}')})\n"
        yield f"{names.SIDE}/loaders/load_{framework}.py", text.encode()
    programs = import_module("dataprep_converter.dataset.sidecars.loader_java")
    for file, function in PROGRAMS.items():
        try:
            yield f"{names.SIDE}/loaders/{file}", getattr(programs, function)(finished).encode()
        except Unreadable:
            continue
