"""Typical mistakes, and exactly what the command says about each: what is wrong, where, and what to write instead."""

import os
import sys
from collections.abc import Iterator
from itertools import chain
from pathlib import Path

import pytest
from tests.converter.cli.commandline import code_of
from tests.converter.cli.mistakes import commands, data, fields, options, plugins, yaml
from tests.converter.cli.mistakes.table import CSV, NUMBERS, Mistake

MISTAKES = list(chain.from_iterable(table.MISTAKES for table in (fields, yaml, data, plugins, options, commands)))


@pytest.fixture(autouse=True)
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("HOME", "/home/me")
    monkeypatch.setenv("COLUMNS", "120")
    monkeypatch.syspath_prepend(tmp_path)
    yield tmp_path
    sys.modules.pop("made", None)


def write(here: Path, mistake: Mistake) -> None:
    for name, content in {"a.csv": NUMBERS, **mistake.files}.items():
        file = here / name
        (file if content is None else file.parent).mkdir(parents=True, exist_ok=True)
        if content is not None:
            file.write_bytes(content.encode() if isinstance(content, str) else content)
    if mistake.job:
        (here / "job.yaml").write_text(mistake.job)


def said(written: str) -> str:
    """Returns the lines of the errors, without the list of known names, which grows with every new field."""
    lines = [line for line in written.splitlines() if line.startswith("dataprep")]
    return "\n".join(line.removeprefix("dataprep: error: ").partition(" (known: ")[0] for line in lines)


@pytest.mark.parametrize("mistake", MISTAKES, ids=[mistake.name for mistake in MISTAKES])
def test_a_mistake_gets_the_right_advice(mistake: Mistake, here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    write(here, mistake)
    code = code_of(*mistake.command, *mistake.options)
    written = capsys.readouterr().err
    assert "Traceback" not in written
    assert said(written).replace(str(here), "{here}") == mistake.said
    assert code == mistake.code


def test_each_mistake_has_its_own_name() -> None:
    assert len({mistake.name for mistake in MISTAKES}) == len(MISTAKES) > 100


def test_a_folder_that_cannot_be_made_is_named_with_its_parent(here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    write(here, Mistake("", job=f"{CSV}  output: {{uri: /proc/x/out}}\n"))
    assert code_of("run", "job.yaml", "--quiet", "--workers", "1") == 5
    error = said(capsys.readouterr().err)
    assert error.startswith("AccessDenied: user=")
    assert f"(uid {os.geteuid()}) path=/proc/x/out/_dataprep: this folder doesn't exist and can't be created in /proc (" in error
    assert error.endswith("). Choose another folder, or get permission to write there.")
