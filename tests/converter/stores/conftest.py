"""Servers that several modules use."""

from tests.converter.stores.ftp import served
from tests.converter.stores.site import site

__all__ = ["served", "site"]
