"""What a test of one store needs before it begins."""

import uuid

import pytest

from dataprep_converter.stores import Entry, Store

MIB = 1 << 20


def fresh_name(store: str) -> str:
    """The name of a bucket or container that nobody else has."""
    return f"{store}-{uuid.uuid4().hex}"


def forget(monkeypatch: pytest.MonkeyPatch, *names: str) -> None:
    """Take what the machine's own environment says of a store away."""
    for name in names:
        monkeypatch.delenv(name, raising=False)


def put_in_parts(store: Store, uri: str, content: bytes, *, replace: bool = False) -> Entry:
    """Put an object by an upload, which has parts where it is large enough."""
    upload = store.create(uri)
    upload.write(content)
    return upload.commit(replace=replace)
