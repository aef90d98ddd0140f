"""The reference of the Python API is current and complete."""

from pathlib import Path

import dataprep_io
from dataprep_io import reference

ROOT = Path(__file__).parents[2]


def test_the_committed_page_is_current() -> None:
    assert (ROOT / reference.FILE).read_text() == reference.page(), "run `make generate`"


def test_every_public_name_has_a_section() -> None:
    page = reference.page()
    assert [name for name in dataprep_io.__all__ if f"\n## {name}\n" not in page] == []
    assert "### Job.wait\n" in page
    assert "### Reader.restore\n" in page
    assert "```python\nphase: str\n```" in page
    assert "dataprep_api." not in page, "names of modules are left out"
    assert "- `records_per_second`: `float | None`" in page
