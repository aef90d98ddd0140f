"""A project outside the repository gets the types of the public names, because the packages have a `py.typed`. Two type checkers agree."""

import json
import subprocess
import sys
import sysconfig
import venv
from pathlib import Path

import pytest

from environments import node

ROOT = Path(__file__).parents[2]
USE = """\
from typing import assert_type

import dataprep_io as dp
from dataprep_reader import Reader

result = dp.write([{"n": 1}], "set", mode="overwrite")
assert_type(result, dp.Result)
assert_type(result.records, int)
assert_type(dp.open("set"), Reader)
job = dp.Job("a", source={"csv": {"uris": ["x"]}}, output={"uri": "y"})
assert_type(job.submit(namespace="ml"), dp.Job)
assert_type(job.wait(timeout=3), dp.Result)
assert_type(job.progress, dp.Progress)
assert_type(dp.Job.attach("a"), dp.Job)
for line in job.logs():
    assert_type(line, str)


async def use() -> None:
    other = await dp.AsyncJob("a").submit()
    assert_type(other, dp.AsyncJob)
    assert_type(await other.wait(), dp.Result)
    async for text in other.logs():
        assert_type(text, str)
    try:
        await other.result()
    except dp.JobFailed as exc:
        assert_type(exc.reason, str)


dp.write([], "set", mode="replace")
"""
LAST = len(USE.splitlines())

pytestmark = [pytest.mark.nightly, pytest.mark.slow]


@pytest.fixture(scope="module")
def project(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a file that uses the API, and with an environment in which the packages are installed."""
    folder = tmp_path_factory.mktemp("outside")
    venv.create(folder / "venv", with_pip=False)
    (packages,) = (folder / "venv/lib").glob("python*/site-packages")
    for path in (ROOT / "api/dataprep_api", *(ROOT / "converter").glob("dataprep_*")):
        (packages / path.name).symlink_to(path)
    (packages / "dependencies.pth").write_text(f"{sysconfig.get_paths()['purelib']}\n")
    (folder / "project").mkdir()
    (folder / "project/use.py").write_text(USE)
    return folder / "project"


def interpreter(project: Path) -> str:
    return str(project.parent / "venv/bin/python")


def test_mypy_knows_the_types_in_a_project_outside(project: Path, tmp_path: Path) -> None:
    command = [
        sys.executable,
        "-m",
        "mypy",
        "--strict",
        "--python-executable",
        interpreter(project),
        "--cache-dir",
        str(tmp_path),
        "use.py",
    ]
    checked = subprocess.run(command, cwd=project, capture_output=True, text=True, timeout=300, check=False)
    assert checked.stdout.splitlines() == [
        (
            f'use.py:{LAST}: error: Argument "mode" to "write" has incompatible type "Literal[\'replace\']"; expected "Literal[\'error\', '
            "'overwrite', 'append', 'ignore']\"  [arg-type]"
        ),
        "Found 1 error in 1 file (checked 1 source file)",
    ]


def test_pyright_knows_the_types_in_a_project_outside(project: Path) -> None:
    (project / "pyrightconfig.json").write_text(json.dumps({"typeCheckingMode": "strict", "include": ["use.py"]}))
    command = ["node", str(node.script("pyright", "pyright/index.js")), "--outputjson", "--pythonpath", interpreter(project)]
    checked = subprocess.run(command, cwd=project, capture_output=True, text=True, timeout=300, check=False)
    found = json.loads(checked.stdout)["generalDiagnostics"]
    assert [(each["rule"], each["range"]["start"]["line"] + 1) for each in found] == [("reportArgumentType", LAST)], checked.stdout
    assert 'Argument of type "Literal[\'replace\']" cannot be assigned to parameter "mode"' in found[0]["message"]
