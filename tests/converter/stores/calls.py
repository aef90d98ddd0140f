"""All calls of a store. Tests check that each call raises an error that names the missing right, bucket or server."""

from collections.abc import Callable

import pytest

from dataprep_converter.stores import Store

_MORE_THAN_A_PART = 9 << 20


def every_call(store: Store, uri: str) -> dict[str, Callable[[], object]]:
    """Return the calls by name. If the store works, all calls succeed in this order."""

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
    """Check that every call to a store raises this error."""
    for call in every_call(store, uri).values():
        with pytest.raises(error, match=match):
            call()
