"""Bytes in whatever holds them."""

from typing import TypeAlias

Buffer: TypeAlias = bytes | bytearray | memoryview
