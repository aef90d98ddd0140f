"""The type of all objects that hold bytes."""

from typing import TypeAlias

Buffer: TypeAlias = bytes | bytearray | memoryview
