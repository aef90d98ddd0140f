"""What comes from the data, as text of a page."""

from html import escape
from typing import Any

from dataprep_api.shown import one_line


def text(value: Any) -> str:
    """Anything as text of the page or of an attribute: no markup, and what a terminal wouldn't be shown is not in the page either."""
    return escape(one_line(str(value)), quote=True)
