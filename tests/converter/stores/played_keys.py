"""Keys of an object store in memory, which are listed page by page and counted."""

import threading
from bisect import bisect_right
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass
from typing import Any, Self

from dataprep_converter.core.errors import StoreError
from dataprep_converter.stores import Entry
from dataprep_converter.stores.objects.key_stretches import KeyPage


class PlayedKeys:
    """The keys of a store, which all begin with `in/`."""

    prefix = "in/"

    def __init__(self, names: Collection[str], *, of_a_page: int) -> None:
        self.keys = sorted({f"{self.prefix}{name}" for name in names}, key=str.encode)
        self.of_a_page = of_a_page
        self.pages: list[tuple[str, str | None]] = []
        """The key and the token of each request for a page."""
        self.folder_requests = 0
        self._lock = threading.Lock()

    @property
    def uris(self) -> list[str]:
        """The URIs of the entries, in order. Folder markers are left out, because they have no entries."""
        return [key for key in self.keys if not key.endswith("/")]

    @property
    def fewest_pages(self) -> int:
        """The number of pages that a sequential listing requests."""
        return max(1, -(-len(self.keys) // self.of_a_page))

    def page(self, after: str, token: str | None) -> KeyPage:
        with self._lock:
            self.pages.append((after, token))
        return self.page_from(bisect_right(self.keys, after) if token is None else int(token))

    def page_from(self, first: int) -> KeyPage:
        """Return the page that begins with the key at the index `first`."""
        keys = self.keys[first : first + self.of_a_page]
        entries = [None if key.endswith("/") else Entry(key, len(key), f"pin of {key}") for key in keys]
        end = first + len(keys)
        return KeyPage(keys, entries, str(end) if end < len(self.keys) else None)

    def folders(self, prefix: str, after: str) -> Sequence[str]:
        with self._lock:
            self.folder_requests += 1
        below = [key for key in self.keys if key > after and key.startswith(prefix)]
        names = {key[: key.find("/", len(prefix)) + 1]: None for key in below if "/" in key[len(prefix) :]}
        return list(names)[: self.of_a_page]

    def disorder(self, key: str, previous: str) -> StoreError:
        return StoreError(f"{key} after {previous}")


class PlayedThreads:
    """Replaces the threads of a listing.

    A call of `wait` counts as one round: all requests that are open then get their responses together.
    """

    def __init__(self) -> None:
        self.rounds = 0

    def executor(self, most: int, thread_name_prefix: str) -> Self:  # noqa: ARG002 - the arguments of ThreadPoolExecutor
        return self

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        """Do nothing, because there are no threads."""

    def submit(self, call: Callable[..., Any], *arguments: object) -> "PlayedAnswer":  # Any, because a call can return anything
        return PlayedAnswer(self, self.rounds + 1, call(*arguments))

    def wait(self, answers: Collection["PlayedAnswer"], return_when: str) -> None:  # noqa: ARG002 - the arguments of `wait`
        assert answers
        self.rounds += 1


@dataclass(frozen=True, eq=False)
class PlayedAnswer:
    """A future whose result is known after the given round."""

    threads: PlayedThreads
    round: int
    answer: Any  # Any, because a call can return anything

    def done(self) -> bool:
        return self.threads.rounds >= self.round

    def exception(self) -> None:
        """No request fails."""

    def result(self) -> Any:  # Any, because a call can return anything
        return self.answer
