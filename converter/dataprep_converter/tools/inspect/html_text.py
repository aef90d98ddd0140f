"""Escapes text from the data for an HTML page."""

from html import escape
from typing import Any

from dataprep_api.redaction import one_line


def text(value: Any) -> str:
    """Returns a value as HTML text or an attribute value: escaped, and without the characters that `one_line` hides from a terminal."""
    return escape(one_line(str(value)), quote=True)
