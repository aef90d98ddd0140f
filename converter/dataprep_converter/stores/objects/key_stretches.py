"""Stretches: ranges of an object store's sorted keys, each of which is listed page by page (`key_listing`)."""

from bisect import bisect_right
from collections import deque
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from operator import lt
from typing import Final, Protocol

from dataprep_converter.core.errors import StoreError
from dataprep_converter.stores import Entry

AT_ONCE: Final = 8
"""The largest number of requests at the same time."""


@dataclass(frozen=True, slots=True)
class KeyPage:
    """One page of a listing."""

    keys: Sequence[str]
    """All keys of the page, in the order of the response."""
    entries: Sequence[Entry | None]
    """The entry of each key, or None for the marker of a folder."""
    token: str | None
    """The token of the next page, or None if this page is the last one."""


class Keys(Protocol):
    """The keys below a prefix. The methods are called from several threads."""

    @property
    def prefix(self) -> str:
        """The part that all keys have in common. Empty, or ends with a slash."""
        ...

    def page(self, after: str, token: str | None) -> KeyPage:
        """Returns the page with this token. Without a token, returns the first page of the keys that are greater than `after`."""
        ...

    def folders(self, prefix: str, after: str) -> Sequence[str]:
        """Returns the complete prefixes of the folders in `prefix`, as many as one response contains.

        The result contains only prefixes of keys that are greater than `after`.
        """
        ...

    def disorder(self, key: str, previous: str) -> StoreError:
        """Returns the error for a key that isn't greater than the key before it in the listing."""
        ...


@dataclass(slots=True, eq=False)
class Folders:
    """The folders at one level that are still to be listed."""

    prefix: str
    after: str
    """The next request asks for the folders after this key."""
    for_a_page: int = 1
    """The number of folders whose keys probably fill most of a page, at least 1."""
    names: deque[str] = field(default_factory=deque)
    is_requested: bool = False
    is_complete: bool = False
    """Whether `names` contains all remaining folders."""

    @property
    def wants_more(self) -> bool:
        """Whether to request more names."""
        return not self.is_requested and not self.is_complete and len(self.names) < 2 * AT_ONCE * self.for_a_page

    def add(self, names: Sequence[str]) -> None:
        """Adds the names of a response. Ignores names that are known already, because some servers ignore `after`."""
        self.is_requested = False
        new = [name for name in names if name > self.after]
        self.names.extend(new)
        self.is_complete = not new
        if new:
            self.after = _behind(new[-1])

    def next_after(self, key: str) -> str | None:
        """Removes and returns the name of the folder at which the next stretch begins. Returns None if the folders before it probably don't
        fill a page."""
        while self.names and self.names[0] <= key:
            self.names.popleft()
        if len(self.names) < self.for_a_page:
            return None
        for _ in range(self.for_a_page - 1):
            self.names.popleft()
        return self.names.popleft()


@dataclass(slots=True, eq=False)
class Stretch:
    """The keys that are greater than `position`, up to and including `until`."""

    position: str = ""
    """The last key that was listed. Before the stretch has a page, the key after which the stretch begins."""
    until: str | None = None
    last: str = ""
    """The last key of the previous page. `last` differs from `position` if this page contained keys of other stretches."""
    token: str | None = None
    pages: deque[Sequence[Entry | None]] = field(default_factory=deque)
    """Pages that were received but haven't been yielded yet."""
    listed: int = 0
    """The number of pages since the stretch began or was divided at its folders."""
    is_guess: bool = False
    """Whether the stretch begins at a guess and has no page yet."""
    is_guessed: bool = False
    """Whether the stretch begins at a guess."""
    is_requested: bool = False
    is_done: bool = False
    has_failed: bool = False
    """Whether a request has failed whose page wasn't needed yet."""
    guesses: Iterator[str] = field(default_factory=lambda: iter(()))
    """Where later pages may begin within the current folder."""
    folders: Folders | None = None
    level: str | None = None
    """The folder whose subfolders needn't be looked for in this stretch, because the stretch ends at one of these subfolders."""

    def contains(self, key: str) -> bool:
        """Returns whether the stretch can be divided at this key."""
        return self.position < key and (self.until is None or key < self.until)

    def add(self, keys: Keys, page: KeyPage) -> int:
        """Adds a page, and returns the number of its keys that belong to the stretch. Raises StoreError for a page out of order."""
        if not all(map(lt, (self.last, *page.keys), page.keys)):
            raise next(keys.disorder(key, before) for before, key in pairwise((self.last, *page.keys)) if key <= before)
        # Some servers ignore the key after which a request begins, and send earlier keys first.
        first = bisect_right(page.keys, self.position)
        end = len(page.keys) if self.until is None else bisect_right(page.keys, self.until)
        self.token = page.token
        self.listed += 1
        if page.keys:
            self.last = page.keys[-1]
        self.is_done = page.token is None or (self.until is not None and self.last >= self.until)
        if first < end:
            self.pages.append(page.entries[first:end])
            self.position = page.keys[end - 1]
        return max(0, end - first)


def _behind(folder: str) -> str:
    """Returns a key that is greater than all keys in the folder."""
    return folder[:-1] + chr(ord("/") + 1)
