"""Before any file is changed, refuses jobs that would write to a folder that they read.

Such a job would replace its own input, or read its own output in the next run. `check` compares the URIs in the job's spec. `check_units`
compares the listed files, because symbolic links may lead to any folder.
"""

import re
from collections.abc import Sequence
from typing import Any, Final

from dataprep_converter.core import globs
from dataprep_converter.core.errors import BadSpec
from dataprep_converter.core.tensors import pc
from dataprep_converter.inputs import places
from dataprep_converter.inputs.access import Access
from dataprep_converter.inputs.archive_uris import archive_of
from dataprep_converter.inputs.places import Place, Steps, place_of
from dataprep_converter.sampling.units import UnitTable
from dataprep_converter.stores import scheme_of

_WILDCARD: Final = re.compile(r"[*?\[]")
_ANY_DEPTH: Final = "**"


def check(
    uris: Sequence[str],
    output: str,
    access: Access,
    *,
    table: str | None = None,
    shallow: Sequence[str] = (),
    endings: Sequence[str] | None = None,
) -> None:
    """Raises BadSpec if the output folder or table is one of these inputs, is within an input, or contains an input.

    The subfolders of a `shallow` folder are not read, so the output may be one of them. `endings` are the possible endings of the output
    files' names, or None if any ending is possible. A glob can read the output only if the glob can match such a name.
    """
    folder = place_of(output, access)
    for uri in shallow:
        place = place_of(uri, access)
        if place is not None and folder is not None and (below := folder.path_of(place)) is not None:
            raise BadSpec(_is(uri, "output.uri", output) if below == () else _holds(uri, "output.uri", output), uri=uri)
    for field, target in (("output.uri", output), ("output.table.uri", table)):
        output_place = place_of(target, access) if target is not None else None
        if target is None or output_place is None:
            continue
        for uri in uris:
            read = archive_of(uri)
            place = place_of(read, access)
            if place is not None:
                _refuse(uri, place, field, target, output_place)
            pattern = _WILDCARD.search(read) if scheme_of(read) not in ("http", "https") else None
            if pattern is not None:
                _refuse_glob(uri, read[: read.rfind("/", 0, pattern.start()) + 1] or ".", access, field, target, output_place, endings)


def check_units(units: UnitTable, output: str, access: Access) -> None:
    """Raises BadSpec if a unit's file is in the output folder. For local folders, this includes files reached through links."""
    import pyarrow as pa

    below = f"{output.rstrip('/')}/"
    for batch in units.batches(["uri"]):
        uris: Any = batch.column("uri")
        inside = uris.filter(pc.starts_with(uris, below))
        if len(inside):
            uri = inside[0].as_py()
            raise BadSpec(_holds(uri, "output.uri", output), uri=uri)
    if scheme_of(output) not in ("", "file"):
        return
    pins = {entry.pin for entry in access.store(output).list(output)}
    folder = place_of(output, access)
    if not pins or folder is None:
        return
    output_pins = pa.array(sorted(pins))
    for batch in units.batches(["uri", "pin"]):
        # A link has the same pin as its target, so only files whose pin also occurs in the output can be links into the output.
        same: Any = batch.column("uri").filter(pc.is_in(batch.column("pin"), output_pins)).to_pylist()  # every unit has a URI
        for uri in dict.fromkeys(same):
            file = archive_of(uri)
            if scheme_of(file) in ("", "file") and (place := place_of(file, access)) is not None and folder.path_of(place) is not None:
                raise BadSpec(_holds(f"{uri} ({places.real_path(file)})", "output.uri", output), uri=uri)


def _refuse(uri: str, source: Place, field: str, target: str, output: Place) -> None:
    below = source.path_of(output)
    if below == ():
        raise BadSpec(_is(uri, field, target), uri=uri)
    if below is not None and not _is_hidden(below):
        raise BadSpec(_lies_in(uri, field, target), uri=uri)
    if output.path_of(source) is not None:
        raise BadSpec(_holds(uri, field, target), uri=uri)


def _refuse_glob(uri: str, folder: str, access: Access, field: str, target: str, output: Place, endings: Sequence[str] | None) -> None:
    """Raises BadSpec if the glob could match files of the output.

    An output below `folder` is allowed if the glob can't match the output's files.
    """
    base = place_of(folder, access)
    if base is None:
        return
    below = base.path_of(output)
    if below is not None and not _is_hidden(below):
        pattern = uri[len(folder) if folder != "." else 0 :]
        if _may_match_below(pattern, below) and (endings is None or any(_may_end(pattern, ending) for ending in endings)):
            raise BadSpec(_lies_in(uri, field, target), uri=uri)
    elif output.path_of(base) is not None:
        raise BadSpec(_holds(uri, field, target), uri=uri)


def _may_match_below(pattern: str, below: Steps) -> bool:
    """Returns whether a pattern could match a path below this folder.

    A pattern could match if its first parts match the folder's path. After a `**`, which matches any number of folders, the rest of the
    path isn't compared.
    """
    parts = pattern.lstrip("/").split("/")
    for part, step in zip(parts, below, strict=False):
        if _ANY_DEPTH in part:
            return True
        if globs.compiled(part).fullmatch(step) is None:
            return False
    return len(parts) > len(below)


def _may_end(pattern: str, ending: str) -> bool:
    """Returns whether a pattern could match names with this ending. Only the text after the pattern's last wildcard is compared."""
    literal = re.split(r"[*?\]/]", pattern)[-1]
    return literal.endswith(ending) or ending.endswith(literal)


def _is_hidden(below: Steps) -> bool:
    """Returns whether the path contains a hidden folder. Readers skip hidden folders below an input."""
    return any(step[0] in "_." for step in below)


def _is(uri: str, field: str, target: str) -> str:
    return f"{field} {target} is the input {uri} itself, but a job must not write to its own input: choose another {field}."


def _lies_in(uri: str, field: str, target: str) -> str:
    return f"{field} {target} lies in the input {uri}, so the job would read what it writes: choose an {field} outside of it."


def _holds(uri: str, field: str, target: str) -> str:
    return f"The input {uri} lies in {field} {target}, where the job replaces and removes files: choose an {field} that contains no input."
