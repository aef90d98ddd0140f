"""Checks the paths in a manifest. If someone has edited a manifest and its `_SUCCESS`, a path may lead out of the data set's folder.
Without these checks, a copy of the data set would write files outside of its own folder."""

import re
from collections.abc import Callable, Iterable, Iterator
from typing import Final

from dataprep_api import names
from dataprep_api.dataset.report import Manifest
from dataprep_converter.core.errors import NotWhole

VISIBLE_PATH: Final = "a path in the folder, in which no part begins with _ or a dot"
"""Messages use this text to say what is expected of the path of a shard or a companion."""
_SHOWN: Final = 80
_RUN_ID: Final = re.compile(r"[0-9a-f]{16}")


def check_paths(manifest: Manifest, uri: str) -> None:
    """Raises NotWhole for a path that can't be in a manifest. `uri` is the manifest's URI.

    The paths in the manifest's table are checked when the table is read.
    """
    if not _RUN_ID.fullmatch(manifest.run_id):
        raise NotWhole(f"{uri}: runId is {manifest.run_id[:_SHOWN]!r}, expected 16 hex digits.", uri=uri)
    table, expected_table = manifest.file_table, names.manifest_table(manifest.run_id)
    if table is not None and table.file != expected_table:
        raise NotWhole(f"{uri}: fileTable has the file {table.file[:_SHOWN]!r}, expected {expected_table}.", uri=uri)
    for field, paths, is_valid, expected in _fields(manifest):
        for path in paths:
            if not is_valid(path):
                raise NotWhole(f"{uri}: {field} has the file {path[:_SHOWN]!r}, expected {expected}.", uri=uri)


def _fields(manifest: Manifest) -> Iterator[tuple[str, Iterable[str], Callable[[str], bool], str]]:
    """For each field, yields its name, its paths, the function that checks a path, and a text that says what is expected."""
    yield "files", (file.file for file in manifest.files), names.is_visible, VISIBLE_PATH
    yield "companions", (each.file for file in manifest.files for each in file.companions), names.is_visible, VISIBLE_PATH
    yield "metadata", (each.file for each in manifest.metadata), names.is_metadata, f"a file in {names.SIDE} or {names.TFDS}"
    quarantine = f"{names.quarantine_folder(manifest.run_id)}/"
    yield "quarantine", manifest.quarantine, lambda path: names.is_inside(path, quarantine), f"a file in {quarantine.rstrip('/')}"
