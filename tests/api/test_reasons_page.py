"""The page that lists all reasons is current and complete."""

from pathlib import Path

from dataprep_api.generate import reasons_page
from dataprep_api.reasons import ConditionType, Reason

ROOT = Path(__file__).parents[2]


def test_the_committed_page_is_current() -> None:
    assert (ROOT / reasons_page.FILE).read_text() == reasons_page.page(), "run `make generate`"


def test_every_reason_and_condition_is_on_the_page() -> None:
    assert [word for word in (*Reason, *ConditionType) if f"| `{word}` |" not in reasons_page.page()] == []
