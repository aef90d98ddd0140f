"""Redaction: no line of logs or output may contain a possible credential or a terminal's control sequence."""

import io
import sys
from typing import TextIO, cast

from dataprep_api.shown import printable, shown


class ShownStream(io.TextIOBase):
    """Standard output or error, through which every text of ours, of libraries and of plug-ins goes `shown`."""

    def __init__(self, stream: TextIO) -> None:
        self.raw = stream
        """The stream itself, for what is a file rather than a message, and for colours."""

    def write(self, text: str, /) -> int:
        """Writes what is to be shown of it."""
        self.raw.write(shown(text))
        return len(text)

    def flush(self) -> None:
        """Flushes the stream."""
        self.raw.flush()

    def fileno(self) -> int:
        """The stream's."""
        return self.raw.fileno()

    def isatty(self) -> bool:
        """Whether the stream is a terminal."""
        return self.raw.isatty()

    def writable(self) -> bool:
        """Always."""
        return True

    @property
    def encoding(self) -> str:  # type: ignore[override]  # typeshed has an attribute
        """The stream's."""
        return self.raw.encoding

    def close(self) -> None:
        """The stream is another's to close."""


def guard() -> None:
    """Redacts both standard streams of this process, once."""
    if not isinstance(sys.stdout, ShownStream):
        sys.stdout = cast("TextIO", ShownStream(sys.stdout))
    if not isinstance(sys.stderr, ShownStream):
        sys.stderr = cast("TextIO", ShownStream(sys.stderr))


def raw(stream: TextIO) -> TextIO:
    """The unredacted stream: for writing a file to it, and for colours around texts that were `shown`."""
    return stream.raw if isinstance(stream, ShownStream) else stream


def yaml_text(document: object) -> str:
    """A document as YAML that means the same and is safe to be looked at: what isn't `printable` is escaped as YAML does it."""
    import yaml

    written = str(yaml.safe_dump(document, sort_keys=False, allow_unicode=True, width=120))
    return written if printable(written) == written else str(yaml.safe_dump(document, sort_keys=False, width=120))
