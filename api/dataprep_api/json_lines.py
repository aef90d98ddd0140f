"""Log lines as JSON, one object a line, with the job and the run that they are about. Here, because operator and converter both write them."""

import json
import logging
from collections.abc import Callable, Mapping
from datetime import UTC, datetime


class JsonLines(logging.Formatter):
    """`{"time": …, "level": …, "logger": …, "message": …}`, then what `about` knows: `namespace`, `job`, `runId`; and `exception`."""

    def __init__(self, about: Callable[[], Mapping[str, str | None]], *, shown: Callable[[str], str] = str) -> None:
        """`shown` is what becomes of every text before it is written."""
        super().__init__()
        self._about = about
        self._shown = shown

    def format(self, record: logging.LogRecord) -> str:
        """The line."""
        line = {
            "time": datetime.fromtimestamp(record.created, UTC).isoformat(timespec="milliseconds"),
            "level": record.levelname,
            "logger": record.name,
            "message": self._shown(record.getMessage()),
        }
        line |= {name: value for name, value in self._about().items() if value}
        if record.exc_info:
            line["exception"] = self._shown(self.formatException(record.exc_info))
        return json.dumps(line)
