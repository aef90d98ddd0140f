"""The main commands as a user sees them, on terminals of 80 and 120 columns, with and without colour. Their output is compared with texts
in `sessions`.

To rewrite the texts after an intended change: DATAPREP_WRITE_SESSIONS=1 pytest tests/converter/cli/test_sessions.py
"""

import os
import re
from pathlib import Path

import pytest
from tests.converter.cli.commandline import environment
from tests.converter.cli.screen import COLOUR, session, shown

pytestmark = pytest.mark.slow

SESSIONS = Path(__file__).with_name("sessions")
KINDS = ("setosa", "versicolor", "virginica")
JOB = """\
apiVersion: dataprep.io/v1alpha1
kind: DataPrepJob
metadata: {name: iris}
spec:
  source: {csv: {uris: [iris.csv], header: true}}
  features: [{name: petal-length-in-centimetres, columns: [length]}]
  labels: [{name: kind, columns: [class], numClasses: 3}]
  splits: {into: [{name: train, first: 80}, {name: validation}]}
  output: {uri: out}
"""
COMMANDS = (
    "infer iris.csv",
    "plan job.yaml --dry-run",
    "run job.yaml --workers 1",
    "verify out",
    "inspect out",
    "inspect iris.csv --records 2",
    "run job.yaml --workers 1",
)
_REPLACED = (
    (re.compile(r"\b[0-9a-f]{64}\b"), "d" * 64),
    (re.compile(r"\b[0-9a-f]{16}\b"), "d" * 16),
    (re.compile(r"file://\S+"), "file:///…"),
    (re.compile(r"[\d,]+ records/s, [\d,]+ MB/s(, \w+ left)?"), "# records/s, # MB/s"),
    (re.compile(r".*over all workers, encoding waited.*\n"), ""),
    (re.compile(r"\d+\.\d s \("), "# s ("),
    (re.compile(r"^(converting (?:⟨[\d;]+⟩)?)━+", re.M), r"\1━━━"),
)
"""Patterns for text that differs from run to run: digests (which depend on the inputs' times), the schema's location, times, and the length
of a bar, which fills the rest of its line."""


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    rows = [f"{number % 40 / 10:.1f},{number % 3}" for number in range(120)]
    (tmp_path / "iris.csv").write_text("\n".join(["length,class", *rows]) + "\n")
    (tmp_path / "job.yaml").write_text(JOB)
    return tmp_path


@pytest.mark.parametrize(
    ("columns", "colour"),
    [
        (80, "colour"),
        (120, "plain"),
        pytest.param(80, "plain", marks=pytest.mark.nightly),
        pytest.param(120, "colour", marks=pytest.mark.nightly),
    ],
)
def test_a_session_looks_as_it_did(columns: int, colour: str, folder: Path) -> None:
    variables = environment({"TERM": "xterm-256color", "LANG": "C.UTF-8"} | ({"NO_COLOR": "1"} if colour == "plain" else {}))
    variables.pop("COLORTERM", None)
    parts = []
    for command in COMMANDS:
        code, screen = session(command.split(), columns=columns, environment=variables, folder=folder)
        for pattern, instead in _REPLACED:
            screen = pattern.sub(instead, screen)
        parts.append(f"$ dataprep {command}\n{screen}{f'[exit code {code}]' if code else ''}\n")
    text = "\n".join(part.rstrip("\n") + "\n" for part in parts)
    if colour == "plain":
        assert COLOUR.search(text) is None
    golden = SESSIONS / f"{columns}-{colour}.txt"
    if os.environ.get("DATAPREP_WRITE_SESSIONS"):
        golden.write_text(text, encoding="utf-8")
    assert text == golden.read_text(encoding="utf-8")


@pytest.mark.parametrize("columns", [80, 120])
def test_tables_fit_into_the_terminal(columns: int) -> None:
    text = re.sub(r"⟨[\d;]*⟩", "", (SESSIONS / f"{columns}-plain.txt").read_text(encoding="utf-8"))
    tables = [line for line in text.splitlines() if line[:1] in "┏┃┡│└"]
    assert len(tables) > 20
    assert max(map(len, tables)) <= columns


def test_a_bar_that_is_drawn_again_leaves_its_last_state() -> None:
    drawn = "a\r\nbar 1\r\x1b[2Kbar \x1b[31m2\x1b[0m\r\nb\r\n\x1b[1A\x1b[2Kc\r\n"
    assert shown(drawn) == "a\nbar ⟨31⟩2\nc\n"
