"""Label maps: the names and numbers of the classes.

# _dataprep/label_map.json        {"<feature>": {"names": ["cat", "dog"], "numbers": {"cat": 0, "dog": 1}}, …}
# _dataprep/labels/<feature>.txt  one class on each line; the first line is class 0
"""

from typing import Final
from urllib.parse import quote

from dataprep_api import canonical, names
from dataprep_converter.dataset.sidecars import FinishedDataSet, Made

LABEL_MAP: Final = f"{names.SIDE}/label_map.json"


def make(finished: FinishedDataSet) -> Made:
    """Yields the label map, and a list of classes for each feature whose classes have names."""
    labels = {feature: classes for feature, classes in sorted(finished.manifest.labels.items()) if classes}
    if not labels:
        return
    label_map = {feature: {"names": classes, "numbers": _numbers(classes)} for feature, classes in labels.items()}
    yield LABEL_MAP, canonical.dumps(label_map) + b"\n"
    for feature, classes in labels.items():
        yield label_file(feature), "".join(f"{_line(name)}\n" for name in classes).encode()


def label_file(feature: str) -> str:
    """Returns the path of the file that lists one feature's classes.

    In the file's name, a slash becomes a dot, as in TFDS. All characters except letters, digits and `_.-~` are percent-encoded.
    """
    return f"{names.SIDE}/labels/{quote(feature.replace('/', '.'), safe='')}.txt"


def _numbers(classes: list[str]) -> dict[str, int]:
    """Maps each class name to the class's number.

    If several classes have the same name, the name is mapped to the first of their numbers.
    """
    return {name: number for number, name in reversed(list(enumerate(classes)))}


def _line(name: str) -> str:
    """Returns the name. Unprintable characters, such as line breaks, are escaped."""
    return "".join(char if char.isprintable() else char.encode("unicode_escape").decode() for char in name)
