"""Addresses in what is said: the query of a web address may be a signature, which whoever reads a log or a status must not have."""

import logging
import re

_QUERY = re.compile(r"""(https?://[^\s?'"<>]+\?)[^\s'"<>,;]+""")


def redacted(text: str) -> str:
    """The text with `…` for the query of each http or https address."""
    return _QUERY.sub(r"\1…", text)


class RedactingFormatter(logging.Formatter):
    """Formats as its base does, tracebacks too, and redacts."""

    def format(self, record: logging.LogRecord) -> str:
        """The line."""
        return redacted(super().format(record))
