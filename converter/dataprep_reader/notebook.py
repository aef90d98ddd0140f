"""The HTML with which a notebook shows our objects."""

from collections.abc import Mapping
from html import escape


def html_table(title: str, rows: Mapping[str, object]) -> str:
    """Returns a table with a name and a value in each row. Values are escaped, because names of features can contain anything."""
    cells = "".join(
        f'<tr><td style="text-align:left">{escape(name)}</td><td style="text-align:left">{escape(str(value))}</td></tr>'
        for name, value in rows.items()
    )
    return f"<table><caption>{escape(title)}</caption>{cells}</table>"


def html_bar(percent: int | None, text: str) -> str:
    """Returns a progress bar, followed by `text`. If `percent` is None, the bar only shows that work is in progress."""
    value = "" if percent is None else f' value="{percent}" max="100"'
    return f"<progress{value}></progress> {escape(text)}"
