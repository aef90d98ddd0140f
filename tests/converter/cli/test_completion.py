"""`dataprep completion`: the shells themselves complete commands, options and fields."""

import shutil
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

import pytest
from tests.availability import unavailable
from tests.converter.cli.commandline import code_of, environment

from dataprep_converter.cli import commands

pytestmark = pytest.mark.slow


@pytest.fixture
def programs(tmp_path: Path) -> Path:
    """A folder with the program `dataprep`, which the completion of fields runs."""
    program = tmp_path / "bin" / "dataprep"
    program.parent.mkdir()
    program.write_text(f'#!/bin/sh\nexec {sys.executable} -m dataprep_converter "$@"\n')
    program.chmod(0o755)
    return program.parent


def script_of(shell: str, capsys: pytest.CaptureFixture[str]) -> str:
    assert code_of("completion", shell) == 0
    return capsys.readouterr().out


def completed_by_bash(script: str, words: Sequence[str], programs: Path) -> list[str]:
    """Returns what bash proposes for the last word."""
    call = f'{script}\nCOMP_WORDS=("$@"); COMP_CWORD=$(($# - 1)); _dataprep; printf "%s\\n" "${{COMPREPLY[@]}}"'
    path = f"{programs}:{environment()['PATH']}"
    done = subprocess.run(
        [installed("bash"), "--norc", "-c", call, "bash", "dataprep", *words],
        capture_output=True, text=True, check=True, timeout=60, env=environment({"PATH": path}),
    )  # fmt: skip
    assert done.stderr == ""
    return done.stdout.split()


@pytest.mark.parametrize(
    ("words", "proposed"),
    [
        (["ver"], ["verify"]),
        (["re"], ["remove", "repair", "retry"]),
        (["run", "--w"], ["--workers"]),
        (["--debug", "inspect", "out", "--h"], ["--html", "--help"]),
        (["completion", ""], ["bash", "zsh", "fish"]),
        (["run", "--set", "output.shards.c"], ["output.shards.count="]),
        (["explain", "output.shards.t"], ["output.shards.targetSize"]),
        (["run", "job"], []),  # nothing is proposed, because bash itself completes file names
    ],
)
def test_bash_completes(words: list[str], proposed: list[str], programs: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert sorted(completed_by_bash(script_of("bash", capsys), words, programs)) == sorted(proposed)


def test_zsh_accepts_its_script(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    subprocess.run([installed("zsh"), "-n", saved(script_of("zsh", capsys), tmp_path)], check=True, capture_output=True, timeout=60)


def test_fish_completes(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    call = f"source {saved(script_of('fish', capsys), tmp_path)}; complete -C 'dataprep ver'; complete -C 'dataprep run --work'"
    done = subprocess.run([installed("fish"), "--no-config", "-c", call], check=True, capture_output=True, text=True, timeout=60)
    assert [line.split()[0] for line in done.stdout.splitlines()] == ["verify", "--workers"]


def installed(shell: str) -> str:
    return shutil.which(shell) or unavailable(f"the shell {shell}: apt-get install {shell}")


def saved(script: str, folder: Path) -> str:
    (folder / "completion").write_text(script)
    return str(folder / "completion")


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_every_command_and_option_is_completed(shell: str, capsys: pytest.CaptureFixture[str]) -> None:
    script = script_of(shell, capsys)
    _, parsers = commands.parsers()
    for name in parsers:
        assert name in script
    assert ("-l print-job" if shell == "fish" else "--print-job") in script
