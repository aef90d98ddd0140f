"""Loaders: `_dataprep/loaders/load_<framework>.py`, short files that load exactly this data set.

Each framework has a module that makes its loader. A loader finds the data set's folder through its own path, so it also works in a copy of
the folder. If a framework can't read the format, its loader exits with a message that says so.
"""

from collections.abc import Callable, Mapping, Sequence
from pkgutil import resolve_name
from typing import Final

from dataprep_api import names
from dataprep_converter.dataset.sidecars import FinishedDataSet, Made
from dataprep_converter.dataset.sidecars.loader_source import Unreadable, quoted
from dataprep_converter.formats.registry import FORMATS, format_of

FRAMEWORKS: Final[Mapping[str, str]] = {
    "tensorflow": "tf.data reads {readable}",
    "torch": "there is one for {readable}",
    "dali": "this one is for {readable}",
    "sagemaker": "",
    "spark": "there is one for {readable}",
    "numpy": "this one is for {readable}",
}
"""Maps each framework to a phrase that lists the formats it can read. The phrase is used in the message for data sets in any other format.

`{readable}` is replaced with the formats that have a loader for the framework in `FORMATS`.
"""

_OF_ANY_FORMAT: Final[Mapping[str, str]] = {"sagemaker": "dataprep_converter.dataset.sidecars.loader_sagemaker:text"}
"""Maps a framework to its loader, for frameworks where the format alone doesn't determine whether they can read a data set."""


def make(finished: FinishedDataSet) -> Made:
    """Yields one file for each framework, followed by the programs listed in the format's entry in `FORMATS`."""
    for framework in FRAMEWORKS:
        try:
            text = _loader(framework, finished.manifest.format)(finished)
        except Unreadable as exc:
            text = f"raise SystemExit({quoted(f'load_{framework}.py: {exc}')})\n"
        yield f"{names.SIDE}/loaders/load_{framework}.py", text.encode()
    for file, place in format_of(finished.manifest.format).programs.items():
        program: Callable[[FinishedDataSet], str] = resolve_name(place)
        yield f"{names.SIDE}/loaders/{file}", program(finished).encode()


def _loader(framework: str, format_: str) -> Callable[[FinishedDataSet], str]:
    """Returns the function that makes the file. Raises Unreadable if the framework can't read the format."""
    place = _OF_ANY_FORMAT.get(framework) or format_of(format_).loaders.get(framework)
    if place is None:
        readable = _enumerate_formats([name for name, format_rules in FORMATS.items() if framework in format_rules.loaders])
        raise Unreadable(f"{FRAMEWORKS[framework].format(readable=readable)}, and this data set is {format_}.")
    loader: Callable[[FinishedDataSet], str] = resolve_name(place)
    return loader


def _enumerate_formats(formats: Sequence[str]) -> str:
    return (" and " if len(formats) == 2 else ", ").join(formats)
