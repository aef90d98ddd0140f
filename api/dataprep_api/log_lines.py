"""Log formatters of the operator and the converter, for text and for JSON. The formatters remove secrets with `for_display`."""

import json
import logging
from collections.abc import Callable, Mapping
from datetime import UTC, datetime

from dataprep_api.redaction import for_display, one_line


class JsonLines(logging.Formatter):
    """Formats each record as a JSON object with the keys `time`, `level`, `logger` and `message`.

    These four keys are followed by the keys that `about` returns (`namespace`, `job`, `runId`). The last key is `exception`, if the record
    has an exception.
    """

    def __init__(self, about: Callable[[], Mapping[str, str | None]]) -> None:
        """`about` is called for each line and returns the job and run that the line belongs to."""
        super().__init__()
        self._about = about

    def format(self, record: logging.LogRecord) -> str:
        """Return the record as one line of JSON."""
        line = {
            "time": datetime.fromtimestamp(record.created, UTC).isoformat(timespec="milliseconds"),
            "level": record.levelname,
            "logger": record.name,
            "message": for_display(record.getMessage()),
        }
        line |= {name: for_display(value) for name, value in self._about().items() if value}
        if record.exc_info:
            line["exception"] = for_display(self.formatException(record.exc_info))
        return json.dumps(line)


class PlainLines(logging.Formatter):
    """Formats each message as one line of text. A traceback takes several lines."""

    def formatMessage(self, record: logging.LogRecord) -> str:  # noqa: N802 - the base's name
        """Return the message as one line."""
        return one_line(super().formatMessage(record))

    def format(self, record: logging.LogRecord) -> str:
        """Return the message's line, and the traceback if the record has a traceback."""
        return for_display(super().format(record))
