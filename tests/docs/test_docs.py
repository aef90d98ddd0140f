"""The documentation is correct: its jobs are valid, its links have targets, and all reasons are documented."""

import re
from pathlib import Path
from typing import Any

import pytest
import yaml

from dataprep_api.reasons import MEANING, Reason
from dataprep_api.resources.cron import DataPrepCronJob
from dataprep_api.resources.job import DataPrepJob

ROOT = Path(__file__).resolve().parents[2]
PAGES = sorted([ROOT / "README.md", ROOT / "CONTRIBUTING.md", *(ROOT / "docs").rglob("*.md"), *(ROOT / "charts").rglob("*.md")])
_YAML = re.compile(r"```yaml\n(.*?)```", re.DOTALL)
KINDS: dict[str, type[DataPrepJob] | type[DataPrepCronJob]] = {"DataPrepJob": DataPrepJob, "DataPrepCronJob": DataPrepCronJob}
_LINK = re.compile(r"\]\((?!https?://|#)([^)#\s]+)")


def jobs() -> list[Any]:
    """Return every complete job on the pages. Any: pytest's parameter sets have no public type."""
    blocks = [(page, number, block) for page in PAGES for number, block in enumerate(_YAML.findall(page.read_text(encoding="utf-8")))]
    return [
        pytest.param(document, id=f"{page.relative_to(ROOT)}-{number}")
        for page, number, block in blocks
        for document in yaml.safe_load_all(block)
        if isinstance(document, dict) and document.get("kind") in KINDS
    ]


@pytest.mark.parametrize("document", jobs())
def test_every_job_in_the_docs_is_valid(document: dict[str, Any]) -> None:
    KINDS[str(document["kind"])].parse(document)


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_every_link_leads_somewhere(page: Path) -> None:
    missing = [link for link in _LINK.findall(page.read_text(encoding="utf-8")) if not (page.parent / link).exists()]
    assert missing == []


def test_every_reason_has_a_meaning() -> None:
    assert set(MEANING) == set(Reason)
