"""A page of a listing: its keys and folders, and where the next page begins."""

from __future__ import annotations

import bisect
from collections.abc import Sequence
from dataclasses import dataclass


@dataclass(frozen=True)
class Page:
    """A page, in key order."""

    keys: Sequence[str]
    folders: Sequence[str]
    """The keys' common prefixes, each up to the first delimiter after the requested prefix. Each counts as an entry of the page."""
    last: str
    """The key or folder after which the next page begins."""
    is_truncated: bool


def page_of(
    sorted_keys: Sequence[str],
    *,
    prefix: str,
    delimiter: str,
    after: str,
    limit: int,
) -> Page:
    """Return the page after a key or folder; `after` is empty for the first page."""
    keys: list[str] = []
    folders: list[str] = []
    last = after
    position = max(bisect.bisect_left(sorted_keys, prefix), bisect.bisect_right(sorted_keys, after))
    while position < len(sorted_keys) and sorted_keys[position].startswith(prefix):
        key = sorted_keys[position]
        folder = _folder_of(key, prefix=prefix, delimiter=delimiter)
        folder_was_listed = folder is not None and after.startswith(folder)
        if folder_was_listed:
            position = _behind(sorted_keys, position, folder=folder or "")
            continue
        if len(keys) + len(folders) == limit:
            return Page(keys, folders, last, is_truncated=limit > 0)
        if folder is None:
            keys.append(key)
            last, position = key, position + 1
        else:
            folders.append(folder)
            last, position = folder, _behind(sorted_keys, position, folder=folder)
    return Page(keys, folders, last, is_truncated=False)


def _folder_of(key: str, *, prefix: str, delimiter: str) -> str | None:
    end = key.find(delimiter, len(prefix)) if delimiter else -1
    return None if end < 0 else key[: end + len(delimiter)]


def _behind(sorted_keys: Sequence[str], position: int, *, folder: str) -> int:
    return bisect.bisect_left(
        sorted_keys,
        True,
        lo=position,
        key=lambda each: not each.startswith(folder),  # False sorts before True
    )
