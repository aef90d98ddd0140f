"""Every call that a store can be asked, for what must hold of each: rights are named, absent buckets and servers too."""

from collections.abc import Callable

import pytest

from dataprep_converter.stores import Store

_MORE_THAN_A_PART = 9 << 20


def every_call(store: Store, uri: str) -> dict[str, Callable[[], object]]:
    """By name, in an order in which all succeed where nothing is in the way."""

    def upload() -> None:
        made = store.create(uri)
        try:
            made.write(bytes(_MORE_THAN_A_PART))
            made.commit(replace=True)
        finally:
            made.abort()

    return {
        "put": lambda: store.put(uri, b"x"),
        "upload": upload,
        "stat": lambda: store.stat(uri),
        "get": lambda: store.get(uri),
        "list": lambda: list(store.list(uri)),
        "delete": lambda: store.delete(uri),
    }


def assert_refused(store: Store, uri: str, error: type[Exception], *, match: str) -> None:
    """Every call of a store ends in this error."""
    for call in every_call(store, uri).values():
        with pytest.raises(error, match=match):
            call()
