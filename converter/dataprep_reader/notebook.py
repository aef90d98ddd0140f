"""How objects are shown in a notebook, which asks them for HTML."""

from collections.abc import Mapping
from html import escape


def html_table(title: str, rows: Mapping[str, object]) -> str:
    """Returns a table with a name and a value in each row. Values are escaped, because names of features can contain anything."""
    cells = "".join(
        f'<tr><td style="text-align:left">{escape(name)}</td><td style="text-align:left">{escape(str(value))}</td></tr>'
        for name, value in rows.items()
    )
    return f"<table><caption>{escape(title)}</caption>{cells}</table>"


def html_bar(percent: int, text: str) -> str:
    """Returns a progress bar, followed by a text."""
    return f'<progress value="{percent}" max="100"></progress> {escape(text)}'
