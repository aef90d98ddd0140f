"""Which files a source names: each URI is a file, a glob or a folder. Opening them is `inputs.py`."""

import re
from collections.abc import Iterator, Sequence
from typing import Final

from dataprep_converter import globs
from dataprep_converter.access import Access, Entry, Store
from dataprep_converter.errors import NotFound
from dataprep_converter.readers.inputs import is_hidden, relative_path

_WILDCARD: Final = re.compile(r"[*?\[]")


def input_files(access: Access, uris: Sequence[str]) -> Iterator[tuple[int, str, Entry]]:
    """(index of the URI, path below it in UTF-8, file) of every file, in the order of the URIs and, within one, of the paths.

    Below a folder or a glob, names that begin with `_` or `.` are passed over. Raises NotFound for a URI without files, BadSpec for a
    name that is not UTF-8.
    """
    for root, uri in enumerate(uris):
        is_empty = True
        for path, entry in _files(access.store(uri), uri):
            is_empty = False
            yield root, path, entry
        if is_empty:
            raise NotFound(f"{uri} names no file.", uri=uri)


def _files(store: Store, uri: str) -> Iterator[tuple[str, Entry]]:
    # A name that looks like a glob may be a file's, so the file goes first.
    entry = store.stat(uri)
    if entry is not None:
        yield relative_path(uri.rpartition("/")[0], uri), entry
        return
    folder, pattern = uri, None
    if wildcard := _WILDCARD.search(uri):
        folder = uri[: uri.rfind("/", 0, wildcard.start()) + 1].rstrip("/") or ("/" if uri.startswith("/") else ".")
        pattern = globs.compiled(uri[len(folder) :].lstrip("/") if folder != "." else uri)
    for found in store.list(folder):
        path = relative_path(folder, found.uri)
        if not is_hidden(path) and (pattern is None or pattern.fullmatch(path)):
            yield path, found
