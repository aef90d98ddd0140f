"""Converts the findings in a text file or in a cell to JSON and back, so that another process can use them."""

from dataclasses import asdict, fields
from typing import Any, Final, TypeAlias

from dataprep_converter.readers.text.stretches import Stretch
from dataprep_converter.readers.text_scan.cell_merge import TextCell
from dataprep_converter.readers.text_scan.cells import CellUnits
from dataprep_converter.readers.text_scan.text_file import TextFile

FORM: Final = 1
"""The version of the JSON form, and of the meaning of its values."""

FoundText: TypeAlias = TextFile | TextCell | None
"""The findings in a file or in a cell.

If a file turns out to have no cells, the result for its first cell describes the complete file, and the result for each later cell is None.
"""


def to_document(found: FoundText) -> dict[str, Any] | None:
    """Returns the JSON form, or None for a file with a fault.

    The planner examines a file with a fault again, and raises the fault when the file's turn comes.
    """
    if found is None:
        return {}
    if isinstance(found, TextCell):
        units = {prefix.decode("latin-1"): asdict(each) for prefix, each in found.units.items()}
        for each in units.values():
            each["prefix"] = each["prefix"].decode("latin-1") if each["prefix"] is not None else None
        return {"cell": {"encoding": found.encoding, "units": units, "line": found.line, "names": found.names}}
    if found.fault is not None:
        return None
    stretches = [[each.offset, each.size, each.first, each.records, each.line] for each in found.stretches]
    others = {each.name: getattr(found, each.name) for each in fields(found) if each.name not in ("stretches", "fault", "form")}
    return {"file": {"stretches": stretches, "form": dict(found.form), **others}}


def from_document(document: dict[str, Any]) -> FoundText:
    """Restores the findings from the JSON form."""
    if "cell" in document:
        cell = document["cell"]
        return TextCell(**{**cell, "units": {prefix.encode("latin-1"): _units(each) for prefix, each in cell["units"].items()}})
    if "file" in document:
        file = document["file"]
        return TextFile(**{**file, "stretches": [Stretch(*each) for each in file["stretches"]]})
    return None


def _units(document: dict[str, Any]) -> CellUnits:
    prefix, fault = document["prefix"], document["fault"]
    return CellUnits(
        **{
            **document,
            "prefix": prefix.encode("latin-1") if prefix is not None else None,
            "fault": (fault[0], fault[1]) if fault is not None else None,
        }
    )
