"""Label maps: which number stands for which class.

# _dataprep/label_map.json        {"<feature>": {"names": ["cat", "dog"], "numbers": {"cat": 0, "dog": 1}}, …}
# _dataprep/labels/<feature>.txt  one class a line; the first line is class 0
"""

from typing import Final
from urllib.parse import quote

from dataprep_api import canonical, names
from dataprep_converter.dataset.sidecars import Finished, Made

LABEL_MAP: Final = f"{names.SIDE}/label_map.json"


def make(finished: Finished) -> Made:
    """The map, and a list for each feature whose classes have names."""
    labels = {feature: classes for feature, classes in sorted(finished.manifest.labels.items()) if classes}
    if not labels:
        return
    both = {feature: {"names": classes, "numbers": _numbers(classes)} for feature, classes in labels.items()}
    yield LABEL_MAP, canonical.dumps(both) + b"\n"
    for feature, classes in labels.items():
        yield label_file(feature), "".join(f"{_line(name)}\n" for name in classes).encode()


def label_file(feature: str) -> str:
    """The list of one feature's classes. A slash is a dot in its name, as in TFDS; anything but letters, digits and `_.-~` is percent-encoded."""
    return f"{names.SIDE}/labels/{quote(feature.replace('/', '.'), safe='')}.txt"


def _numbers(classes: list[str]) -> dict[str, int]:
    """Number by name, the first one of names that are equal."""
    return {name: number for number, name in reversed(list(enumerate(classes)))}


def _line(name: str) -> str:
    """A name that stays in its line."""
    return "".join(char if char.isprintable() else char.encode("unicode_escape").decode() for char in name)
