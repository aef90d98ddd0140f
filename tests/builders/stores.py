"""Helpers for tests of stores."""

import uuid

import pytest

from dataprep_converter.stores import Entry, Store

MIB = 1 << 20


def fresh_name(store: str) -> str:
    """Return a unique name for a bucket or container."""
    return f"{store}-{uuid.uuid4().hex}"


def forget(monkeypatch: pytest.MonkeyPatch, *names: str) -> None:
    """Remove environment variables that configure a store on this machine."""
    for name in names:
        monkeypatch.delenv(name, raising=False)


def put_in_parts(store: Store, uri: str, content: bytes, *, replace: bool = False) -> Entry:
    """Upload an object. A large object is uploaded in several parts."""
    upload = store.create(uri)
    upload.write(content)
    return upload.commit(replace=replace)
