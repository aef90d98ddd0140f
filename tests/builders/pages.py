"""Extracts code from the documentation, for tests that run it."""

import json
import re
import sysconfig
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final

ROOT: Final = Path(__file__).resolve().parents[2]
PACKAGES: Final = [str(ROOT / "api"), str(ROOT / "converter"), sysconfig.get_path("purelib")]
"""The folders of our code and its dependencies, for scripts in other environments."""
_PYTHON: Final = re.compile(r"```python\n(.*?)```", re.DOTALL)


def python_code(page: str, heading: str) -> list[str]:
    """Return the Python blocks below a heading of a page, such as ("docs/reading.md", "## PyTorch"), up to the next heading."""
    text = (ROOT / page).read_text(encoding="utf-8")
    (section,) = re.findall(rf"^{re.escape(heading)}\n(.*?)(?=^##+ |\Z)", text, re.DOTALL | re.MULTILINE)
    found: list[str] = _PYTHON.findall(section)
    return found


def to_paste(file: Path, code: Sequence[str], *, packages: Sequence[str], **names: Any) -> Path:
    """Write the input of `tests/interop/readers/pasted.py`: code, the values of its variables, and the packages whose versions are wanted."""
    wanted = {"paths": PACKAGES, "packages": packages, "code": code, "names": names}
    file.write_text(json.dumps(wanted), encoding="utf-8")
    return file
