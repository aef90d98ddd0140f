"""Runs the notebooks of examples/notebooks in a real kernel, and compares their outputs with the stored outputs.

If the environment has NOTEBOOKS=write (`make notebooks`), the new outputs are stored.
"""

import json
import os
import re
import sysconfig
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

import environments

ROOT: Final = Path(__file__).resolve().parents[2]
FOLDER: Final = ROOT / "examples" / "notebooks"
ENVIRONMENT: Final = "notebook"
VARIES: Final = "varies"
"""The tag of a cell whose output depends on timing."""
_RUN: Final = ROOT / "tests/interop/readers/run_notebook.py"
_METADATA: Final = {
    "kernelspec": {"display_name": "Python 3 (ipykernel)", "language": "python", "name": "python3"},
    "language_info": {"name": "python"},
}
"""The metadata of every notebook. A kernel would also add its version."""
_IDS: Final = re.compile(r"\b[0-9a-f]{16,}\b|\b\d\d:\d\d:\d\d\b|-[a-z0-9]{5}(?=: )")
"""Matches run ids, times of day, and the last parts of pod names."""

Notebook = dict[str, Any]  # Any, because this is JSON


def variables(folder: Path, more: Mapping[str, str]) -> dict[str, str]:
    """Returns environment variables for a kernel.

    With these variables, the kernel imports the Python API of this working copy, and ignores the user's settings.
    """
    settings = {
        name: str(folder / name.lower()) for name in ("IPYTHONDIR", "JUPYTER_CONFIG_DIR", "JUPYTER_DATA_DIR", "JUPYTER_RUNTIME_DIR")
    }
    path = os.pathsep.join([str(ROOT / "api"), str(ROOT / "converter"), sysconfig.get_path("purelib")])
    return settings | {"PYTHONPATH": path, "PYDEVD_DISABLE_FILE_VALIDATION": "1"} | dict(more)


def run(name: str, more: Mapping[str, str] | None = None, *, stand_ins: Mapping[str, str] | None = None) -> Notebook:
    """Runs a notebook in an empty folder, and returns the notebook with its outputs. In the outputs, `…` replaces the folder, and the
    stand-ins replace other texts that differ from run to run.

    Raises AssertionError if a cell raises.
    """
    with tempfile.TemporaryDirectory(prefix="dataprep-notebook-") as folder:
        work = Path(folder) / "work"
        work.mkdir()
        said = environments.run(ENVIRONMENT, _RUN, [FOLDER / f"{name}.ipynb", work], variables(Path(folder), more or {}))
    for text, stand_in in {str(work): "…", **(stand_ins or {})}.items():
        said = said.replace(text, stand_in)
    notebook: Notebook = json.loads(said)
    return notebook | {"metadata": _METADATA}


def assert_as_stored(name: str, notebook: Notebook) -> None:
    """Checks that the outputs equal those in examples/notebooks, except for ids and times.

    If NOTEBOOKS=write, stores outputs that differ.
    """
    file = FOLDER / f"{name}.ipynb"
    stored = json.loads(file.read_text(encoding="utf-8"))
    if os.environ.get("NOTEBOOKS") == "write" and outputs(notebook) != outputs(stored):
        file.write_text(json.dumps(notebook, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")
        stored = notebook
    assert stored["metadata"] == notebook["metadata"]
    assert outputs(notebook) == outputs(stored), "run `make notebooks` if the outputs should have changed"


def outputs(notebook: Notebook) -> list[tuple[str, object]]:
    """Returns the source and the outputs of each code cell. For a cell whose output varies, returns only the kinds of its outputs."""
    cells = [cell for cell in notebook["cells"] if cell["cell_type"] == "code"]
    return [("".join(cell["source"]), _comparable(cell)) for cell in cells]


def _comparable(cell: Mapping[str, Any]) -> object:
    if VARIES in cell["metadata"].get("tags", ()):
        return sorted({output["output_type"] for output in cell["outputs"]})
    return json.loads(_IDS.sub("…", json.dumps([_joined(output) for output in cell["outputs"]], ensure_ascii=False)))


def _joined(output: Mapping[str, Any]) -> Mapping[str, Any]:
    """Returns an output in which each text is a single string."""
    data = {kind: "".join(text) for kind, text in output.get("data", {}).items()}
    return {**output, "data": data, "text": "".join(output.get("text", ""))}
