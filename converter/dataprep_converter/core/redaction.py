"""Redaction: log lines and output must not contain possible credentials or terminal control sequences."""

import io
import sys
from typing import TextIO, cast

from dataprep_api.redaction import for_display, printable


class ShownStream(io.TextIOBase):
    """Wraps standard output or standard error, and passes every text through `for_display`, including texts from libraries and plug-ins."""

    def __init__(self, stream: TextIO) -> None:
        self.raw = stream
        """The wrapped stream. Only the contents of files, and colour codes, are written directly to this stream."""

    def write(self, text: str, /) -> int:
        """Write the redacted form of the text."""
        self.raw.write(for_display(text))
        return len(text)

    def flush(self) -> None:
        """Flush the stream."""
        self.raw.flush()

    def fileno(self) -> int:
        """Return the file descriptor of the wrapped stream."""
        return self.raw.fileno()

    def isatty(self) -> bool:
        """Return whether the stream is a terminal."""
        return self.raw.isatty()

    def writable(self) -> bool:
        """Return True."""
        return True

    @property
    def encoding(self) -> str:  # type: ignore[override]  # typeshed has an attribute
        """The encoding of the wrapped stream."""
        return self.raw.encoding

    def close(self) -> None:
        """Do nothing: this object doesn't own the wrapped stream."""


def guard() -> None:
    """Redact both standard streams of this process. A second call does nothing."""
    if not isinstance(sys.stdout, ShownStream):
        sys.stdout = cast("TextIO", ShownStream(sys.stdout))
    if not isinstance(sys.stderr, ShownStream):
        sys.stderr = cast("TextIO", ShownStream(sys.stderr))


def raw(stream: TextIO) -> TextIO:
    """Return the unredacted stream.

    Write only two things to this stream: contents of files, and colour codes around texts that have passed through `for_display`.
    """
    return stream.raw if isinstance(stream, ShownStream) else stream


def yaml_text(document: object) -> str:
    """Return a document as YAML that is safe to display: characters that aren't `printable` are written as YAML escape sequences."""
    import yaml

    text = str(yaml.safe_dump(document, sort_keys=False, allow_unicode=True, width=120))
    return text if printable(text) == text else str(yaml.safe_dump(document, sort_keys=False, width=120))
