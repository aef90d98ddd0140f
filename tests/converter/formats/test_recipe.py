"""The section "How to add a format" in CONTRIBUTING.md is complete: its steps are enough to add an invented format to a copy of the source
tree."""

import json
import re
import shutil
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

import pytest
import yaml
from tests.converter.cli.commandline import ROOT, environment
from tests.converter.formats.invented_format import EDITS, NAME

_SECTION: Final = re.compile(r"^## How to add a format\n(.*?)^## ", re.DOTALL | re.MULTILINE)
_PATH: Final = re.compile(r"`((?:api|converter|tests|docs)/[^`]+|[A-Z]+\.md)`")
_PLACES: Final = {"<kind>": NAME, "<name>": NAME, "<family>": "text"}
_COPIED: Final = ("api", "charts", "converter", "crds", "docs", "operator", "pyproject.toml", "tests", "CHANGELOG.md", "CONTRIBUTING.md")
_TESTS: Final = (
    "tests/api/test_formats.py",
    "tests/converter/formats",
    "tests/converter/readers/test_reader_dataset.py",
    "tests/reader/test_batches.py",
)
_ROWS: Final = [{"n": number, "word": f"word {number}", "label": number % 3} for number in range(30)]


def named_files() -> list[str]:
    """Return the files that the section names, with the invented format's name."""
    section = _SECTION.search((ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8"))
    assert section is not None
    paths = _PATH.findall(section[1])
    for place, name in _PLACES.items():
        paths = [path.replace(place, name) for path in paths]
    return sorted(paths)


def test_the_section_names_the_files_that_have_to_be_touched() -> None:
    assert named_files() == sorted(EDITS)


@pytest.fixture(scope="module")
def tree(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Make a copy of the source tree with the invented format."""
    copy = tmp_path_factory.mktemp("tree")
    for name in _COPIED:
        if (ROOT / name).is_dir():
            # The byte code is copied too, which saves most of the programs' time. Files with temporary names aren't copied, because other
            # processes are still writing them.
            shutil.copytree(ROOT / name, copy / name, ignore=shutil.ignore_patterns("*.pyc.*"))
        else:
            shutil.copy(ROOT / name, copy / name)
    (copy / "examples").symlink_to(ROOT / "examples")
    for path, edit in EDITS.items():
        file = copy / path
        file.write_text(edit(file.read_text(encoding="utf-8") if file.exists() else ""), encoding="utf-8")
    modules(copy, ["dataprep_api.generate.crd"], ["dataprep_api.generate.reasons_page"])
    return copy


_MODULES: Final = """
import json, runpy, sys
for module, *arguments in json.loads(sys.argv[1]):
    sys.argv = [module, *arguments]
    try:
        runpy.run_module(module, run_name="__main__", alter_sys=True)
    except SystemExit as ended:
        if ended.code:
            raise
"""


def modules(tree: Path, *programs: list[str]) -> None:
    """Run modules of the copy as programs in a single process, one after another, each with its arguments."""
    python(tree, "-c", _MODULES, json.dumps(programs))


def python(tree: Path, *arguments: str | Path, where: Path | None = None) -> str:
    """Run one of the copy's programs and return its output. If the program fails, the test fails with this output."""
    paths = [str(tree / name) for name in ("api", "converter", "operator", "tests/cluster")]
    outer = {name: value for name, value in environment().items() if not name.startswith("PYTEST_")}
    ended = subprocess.run(
        [sys.executable, *map(str, arguments)],
        capture_output=True,
        text=True,
        check=False,
        timeout=300,
        cwd=where or tree,
        env=outer | {"PYTHONPATH": ":".join(paths), "PYTHONSAFEPATH": "1"},
    )
    assert ended.returncode == 0, ended.stdout[-5000:] + ended.stderr[-5000:]
    return ended.stdout


@pytest.mark.long
def test_the_definition_knows_the_format(tree: Path) -> None:
    modules(tree, ["dataprep_api.generate.crd", "--check"])
    definition = yaml.safe_load((tree / "crds" / "dataprepjobs.dataprep.io.yaml").read_text(encoding="utf-8"))
    spec = definition["spec"]["versions"][0]["schema"]["openAPIV3Schema"]["properties"]["spec"]
    output = spec["properties"]["output"]["properties"]
    assert NAME in output["format"]["enum"]
    assert NAME in output


@pytest.mark.nightly
@pytest.mark.long
def test_the_tests_of_all_formats_hold_for_it(tree: Path) -> None:
    # Waiting for disks would take most of the time.
    (tree / "tests" / "cluster" / "no_waiting.py").write_text("import os\n\nos.fsync = lambda _: None\n")
    quick = ("-p", "no_waiting", "-p", "no:cacheprovider")
    told = python(tree, "-m", "pytest", "-q", *quick, "-m", "not nightly", "-k", f"{NAME} or every_format", *_TESTS)
    assert int(re.findall(r"(\d+) passed", told)[-1]) >= 40, told


@pytest.mark.long
def test_a_job_converts_to_it_and_back(tree: Path, tmp_path: Path) -> None:
    lines = [",".join(map(str, row)) for row in (list(_ROWS[0]), *(row.values() for row in _ROWS))]
    (tmp_path / "in.csv").write_text("".join(f"{line}\n" for line in lines))
    source = {"csv": {"uris": [str(tmp_path / "in.csv")], "header": True}}
    a_run(tree, tmp_path, {"source": source, "output": {"uri": str(tmp_path / "out"), "format": NAME, "shards": {"count": 3}}})
    assert "30 records in 3 files" in python(tree, "-m", "dataprep_converter", "verify", tmp_path / "out", where=tmp_path)
    shown = json.loads(python(tree, "-m", "dataprep_converter", "inspect", tmp_path / "out", "--json", where=tmp_path))
    assert shown["records"][0] == {"n": [0], "word": ["word 0"], "label": [0]}
    a_run(
        tree,
        tmp_path,
        {"source": {"dataset": {"uri": str(tmp_path / "out")}}, "output": {"uri": str(tmp_path / "back"), "format": "jsonl"}},
    )
    back = (tmp_path / "back" / "train.jsonl").read_text()
    assert sorted((json.loads(line) for line in back.splitlines()), key=lambda row: row["n"]) == _ROWS


def a_run(tree: Path, folder: Path, spec: Mapping[str, Any]) -> None:
    job = {"apiVersion": "dataprep.io/v1alpha1", "kind": "DataPrepJob", "metadata": {"name": "x"}, "spec": spec}
    (folder / "job.yaml").write_text(yaml.safe_dump(job))
    python(tree, "-m", "dataprep_converter", "run", "job.yaml", "--quiet", where=folder)
