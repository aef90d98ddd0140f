"""Fixtures for the tests in this folder."""

from tests.builders.in_memory import tmp_path

__all__ = ["tmp_path"]
