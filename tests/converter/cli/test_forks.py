"""The forks in which tests run commands behave like processes started from a shell."""

import json
import os
import signal
from pathlib import Path

import pytest
from tests.converter.cli import commandline
from tests.converter.cli.commandline import dataprep, new_dataprep

TELLS = """
import json, os, sys

print(json.dumps([sys.argv[1:], os.getcwd(), os.environ.get("TOLD"), os.getpid(), "left" in globals(), sys.stdin.read()]))
print("to err", file=sys.stderr)
left = True
os.environ["TOLD"] = "left"
"""


def test_a_fork_has_its_own_arguments_environment_folder_and_streams(tmp_path: Path) -> None:
    first, second = (dataprep("a b", where=tmp_path, more={"TOLD": told}, program=TELLS) for told in ("one", "two"))
    assert (first.returncode, first.stderr) == (0, "to err\n")
    *told, pid, is_left, given = json.loads(first.stdout)
    assert (told, is_left, given) == ([["a b"], str(tmp_path), "one"], False, "")
    *told, other, is_left, given = json.loads(second.stdout)
    assert (told, is_left, given) == ([["a b"], str(tmp_path), "two"], False, "")
    assert len({pid, other, os.getpid()}) == 3


@pytest.mark.parametrize(
    ("program", "code"),
    [
        ("raise SystemExit(3)", 3),
        ("1 / 0", 1),
        ("import os; os.kill(os.getpid(), 9)", -signal.SIGKILL),
        ("import os; os.abort()", -signal.SIGABRT),
    ],
)
def test_a_fork_ends_with_the_code_of_a_process(program: str, code: int) -> None:
    assert dataprep(program=program).returncode == code


@pytest.mark.slow
def test_a_process_that_a_command_leaves_behind_is_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(commandline, "_SECONDS_LEFT", 0.2)
    with pytest.raises(TimeoutError):
        dataprep(program="import os, time; os.fork() or time.sleep(60)")
    assert dataprep(program="raise SystemExit(3)").returncode == 3


def test_a_fork_says_what_a_new_process_says(tmp_path: Path) -> None:
    said = [
        (done.returncode, done.stdout, done.stderr)
        for done in (run("validate", tmp_path / "absent.yaml", "--debug") for run in (dataprep, new_dataprep))
    ]
    assert said[0] == said[1]
    assert said[0][0] == 2
