"""The type of all objects that contain bytes."""

from typing import TypeAlias

Buffer: TypeAlias = bytes | bytearray | memoryview
