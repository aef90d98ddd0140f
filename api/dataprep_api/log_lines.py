"""Log lines, as text or as JSON, and always as they may be `shown`. Here, because operator and converter both write them."""

import json
import logging
from collections.abc import Callable, Mapping
from datetime import UTC, datetime

from dataprep_api.shown import one_line, shown


class JsonLines(logging.Formatter):
    """`{"time": …, "level": …, "logger": …, "message": …}`, then what `about` knows: `namespace`, `job`, `runId`; and `exception`."""

    def __init__(self, about: Callable[[], Mapping[str, str | None]]) -> None:
        """`about` is asked for each line, for the job and the run that it is about."""
        super().__init__()
        self._about = about

    def format(self, record: logging.LogRecord) -> str:
        """The line."""
        line = {
            "time": datetime.fromtimestamp(record.created, UTC).isoformat(timespec="milliseconds"),
            "level": record.levelname,
            "logger": record.name,
            "message": shown(record.getMessage()),
        }
        line |= {name: shown(value) for name, value in self._about().items() if value}
        if record.exc_info:
            line["exception"] = shown(self.formatException(record.exc_info))
        return json.dumps(line)


class PlainLines(logging.Formatter):
    """Formats as its base does; a message is one line, a traceback is several."""

    def formatMessage(self, record: logging.LogRecord) -> str:  # noqa: N802 - the base's name
        """The message's line."""
        return one_line(super().formatMessage(record))

    def format(self, record: logging.LogRecord) -> str:
        """The line, and the traceback."""
        return shown(super().format(record))
