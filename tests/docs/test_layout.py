"""Test modules don't import each other. Code that several of them need is in tests/builders, or in a helper module beside them."""

import re
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
_IMPORT = re.compile(r"^\s*(?:from|import) (?:tests\.[\w.]*\btest_\w+|tests[\w.]* import .*\btest_\w+)", re.MULTILINE)


def test_no_test_module_is_imported() -> None:
    found = {
        str(path.relative_to(ROOT)): _IMPORT.findall(path.read_text(encoding="utf-8"))
        for path in sorted((ROOT / "tests").rglob("*.py"))
        if "cluster" not in path.relative_to(ROOT / "tests").parts
    }
    assert {path: imports for path, imports in found.items() if imports} == {}
