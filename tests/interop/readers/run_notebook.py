"""Runs a notebook in a Jupyter kernel and prints it, with its outputs, as JSON: run_notebook.py NOTEBOOK FOLDER.

FOLDER is the kernel's current folder.
"""

import sys
from pathlib import Path

import nbformat
from nbclient import NotebookClient

SECONDS = 300


def main() -> None:
    """Run all cells. A cell that raises ends this process."""
    path, folder = sys.argv[1:]
    notebook = nbformat.reads(Path(path).read_text(encoding="utf-8"), as_version=4)
    client = NotebookClient(
        notebook,
        timeout=SECONDS,
        kernel_name="python3",
        record_timing=False,
        resources={"metadata": {"path": folder}},
        store_widget_state=False,
    )
    client.execute()
    nbformat.validate(notebook)
    sys.stdout.write(nbformat.writes(notebook))


if __name__ == "__main__":
    main()
