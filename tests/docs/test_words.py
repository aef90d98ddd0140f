"""The check for phrases that sound translated: which phrases it finds, and which parts of files it skips."""

import runpy
from pathlib import Path

import pytest

SCRIPT = Path(__file__).parents[1] / "lint" / "words.py"


def hits(file: Path, capsys: pytest.CaptureFixture[str]) -> list[str]:
    code = runpy.run_path(str(SCRIPT))["main"]([str(file)])
    lines = capsys.readouterr().out.splitlines()
    assert code == bool(lines)
    return lines


def test_comments_and_strings_of_python_are_read(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "module.py"
    file.write_text('"""It sees to it\nthat all is well."""\n\n# Was asked in\n# vain.\nshall = "so many bytes are read"\n')
    assert [line.removeprefix(f"{file}:").split(": ")[:2] for line in hits(file, capsys)] == [
        ["1", "'sees to it that'"],
        ["4", "'in vain'"],
        ["6", "'so many bytes'"],
    ]


def test_prose_of_markdown_is_read_and_code_is_not(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "page.md"
    file.write_text("# Page\n\n```\nin vain\n```\n\n`in vain` is code; this was\nin vain.\n")
    assert [line.split(": ")[0] for line in hits(file, capsys)] == [f"{file}:8"]
