"""A terminal for tests: runs a command in a pseudo-terminal of a given width, and returns the text that is on the screen at the end.

Only the control sequences that our output uses are supported: colours and styles, movements to redraw a bar, and the cursor. Any other
sequence is an error, because it would change the user's terminal.
"""

import fcntl
import os
import pty
import re
import struct
import termios
from collections.abc import Mapping, Sequence
from pathlib import Path

from tests.converter.cli.commandline import forks

_SEQUENCE = re.compile(r"\x1b\[(\??)([\d;]*)([A-Za-z])")
COLOUR = re.compile(r"⟨[\d;]*\b(?:3[0-7]|38|4[0-7]|48|9[0-7]|10[0-7])\b[\d;]*⟩")
"""A style that sets a colour, in the form in which `shown` writes it."""


def shown(output: str) -> str:
    """Return the lines that are on the screen at the end. The screen is endless, so no line scrolls away.

    A change of style is written as its numbers in ⟨ ⟩, and its end as ⟨0⟩.
    """
    lines: list[list[tuple[str, str]]] = [[]]
    row = column = at = 0
    style = ""
    while at < len(output):
        character = output[at]
        if character == "\x1b":
            match = _SEQUENCE.match(output, at)
            assert match is not None, repr(output[at : at + 20])
            private, numbers, kind = match.groups()
            at = match.end()
            if kind == "m":
                style = "" if numbers in ("", "0") else f"{style};{numbers}".strip(";")
            elif kind == "A":
                row -= int(numbers or "1")
            elif kind == "K":
                assert numbers == "2", numbers
                lines[row] = []
            else:
                assert private == "?", match[0]
                assert numbers == "25", match[0]
                assert kind in "lh", match[0]
            continue
        at += 1
        if character == "\r":
            column = 0
        elif character == "\n":
            row += 1
            if row == len(lines):
                lines.append([])
        else:
            lines[row] += [(" ", "")] * (column + 1 - len(lines[row]))
            lines[row][column] = (character, style)
            column += 1
    return "\n".join(map(_marked, lines)).rstrip("\n") + "\n"


def _marked(cells: Sequence[tuple[str, str]]) -> str:
    """Return a line with a mark at each change of style."""
    parts = []
    before = ""
    for character, style in cells:
        # Most styles don't show on a space.
        if style != before and character != " ":
            parts.append(f"⟨{style or '0'}⟩")
            before = style
        parts.append(character)
    return "".join(parts).rstrip()


def session(arguments: Sequence[str], *, columns: int, environment: Mapping[str, str], folder: Path) -> tuple[int, str]:
    """Run `dataprep` in a terminal of this width. Return its exit code and the text that is on the screen at the end."""
    ours, theirs = pty.openpty()
    fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", 50, columns, 0, 0))
    forks().start(arguments, environment=environment, folder=folder, streams=(theirs, theirs, theirs))
    os.close(theirs)
    output = b""
    while True:
        try:
            piece = os.read(ours, 1 << 16)
        except OSError:  # on Linux, this means that the other side has closed the terminal
            break
        output += piece
    os.close(ours)
    return forks().wait(), shown(output.decode())
