"""The build of native.c, and the fallback if it can't be built."""

import subprocess
import sys
from pathlib import Path
from shutil import copy, copytree, which
from typing import Any

import pytest
from tests.availability import skip_without

from dataprep_converter.core import native

ROOT = Path(__file__).parents[3]
BUILD = ROOT / "converter" / "build_native.py"
STALE = "libnative-0123456789ab.so"


def copy_sources(root: Path) -> Path:
    """Copy the files needed for the build, and return the library's folder."""
    folder = root / "dataprep_converter" / "core"
    folder.mkdir(parents=True)
    copy(BUILD, root)
    for source in (ROOT / "converter" / "dataprep_converter" / "core").glob("*.c"):
        copy(source, folder)
    return folder


@pytest.fixture
def sources(tmp_path: Path) -> Path:
    return copy_sources(tmp_path)


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return the library's folder after a build, which runs only once. Before the build, the folder contained a library built from another
    source."""
    sources = copy_sources(tmp_path_factory.mktemp("built"))
    (sources / STALE).write_bytes(b"of another version")
    assert build(sources).returncode == 0
    return sources


def build(sources: Path, **environment: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, str(sources.parents[1] / BUILD.name)]
    if not environment:
        # No test loads the library, so it is built without optimisation, which would take most of the build time.
        compiler = sources.parents[1] / "cc"
        compiler.write_text('#!/bin/sh\nexec cc "$@" -O0\n')
        compiler.chmod(0o755)
        environment = {"CC": str(compiler)}
    return subprocess.run(command, env={"PATH": "/usr/local/bin:/usr/bin:/bin", **environment}, capture_output=True, text=True, check=False)


@pytest.mark.slow
@skip_without(which("cc"), "this machine has no C compiler")
def test_a_library_of_another_source_goes(built: Path) -> None:
    [made] = built.glob("libnative-*.so")
    assert made.name != STALE


@pytest.mark.slow
@skip_without(which("cc"), "this machine has no C compiler")
@pytest.mark.parametrize("changed", ["native.c", pytest.param("resampling.c", marks=pytest.mark.nightly)])
def test_a_change_of_any_source_makes_another_library(built: Path, tmp_path: Path, changed: str) -> None:
    sources = copytree(built.parents[1], tmp_path / "copy") / "dataprep_converter" / "core"
    [before] = sources.glob("libnative-*.so")
    with (sources / changed).open("a") as source:
        source.write("/* changed */\n")
    assert build(sources).returncode == 0
    [after] = sources.glob("libnative-*.so")
    assert after != before


def test_without_a_compiler_it_says_what_that_costs(sources: Path) -> None:
    ended = build(sources, CC="/nowhere/cc")
    assert ended.returncode == 1
    assert ended.stderr == (
        "native.c and resampling.c were not built; Python code replaces them, but is several times slower: "
        "[Errno 2] No such file or directory: '/nowhere/cc'\n"
    )
    assert not list(sources.glob("libnative-*"))


def test_a_processor_without_the_instruction_is_left_to_python(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("ctypes.CDLL", lambda _: OldProcessor())
    assert native._load() is None


class OldProcessor:
    """Stands in for the library on a processor that can't run it."""

    def __getattr__(self, name: str) -> Any:
        class Function:
            restype: Any = None
            argtypes: Any = None

            def __call__(self) -> int:
                return 0

        return Function()
