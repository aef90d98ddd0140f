"""Lists the keys of an object store in their order, with several requests at the same time.

Each response contains the token of the next page, so the pages of a listing are usually requested one after another. But a request can also
begin after any key. So after the first pages, this module divides the keys that are still to be listed into ranges, called stretches, and
requests the pages of several stretches at the same time. A stretch begins at the name of a folder, or at a key that is guessed from the
names on earlier pages (`page_guesses`).

Each stretch is listed to its end, so the result doesn't depend on where stretches begin. A stretch with few or no keys still costs one
request.
"""

from collections.abc import Generator, Iterator, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from contextvars import copy_context
from typing import Any, Final

from dataprep_converter.core.errors import ConvertError
from dataprep_converter.stores import Entry
from dataprep_converter.stores.objects.key_stretches import AT_ONCE, Folders, KeyPage, Keys, Stretch
from dataprep_converter.stores.objects.page_guesses import common_length, following

ALONE: Final = 8
"""The first pages, up to this number, are requested one after another. So a listing of a few thousand keys needs no additional requests."""
_PAGES_AHEAD: Final = 64
"""The largest number of pages in memory, including those that are requested. With a thousand keys each, they take about 25 MiB."""
_PAGES_OF_A_STRETCH: Final = 6
"""The largest number of pages of one stretch in memory, so that there is room for stretches whose pages are needed earlier."""
_LONG: Final = 4
"""A stretch is divided at its folders after this many pages. So there are few requests for names of folders, compared with pages."""
_FEW_FILES: Final = 5
"""The names of folders with fewer files than this aren't requested."""
_PAGES_OF_A_MISS: Final = 3
"""There is at most one wrong guess for about this many pages."""


def entries_in_turn(keys: Keys) -> Iterator[Entry]:
    """Yields the entries of all keys in order. Each page is requested when it is needed."""
    yield from _in_turn(keys, Stretch())


def entries_ahead(keys: Keys) -> Generator[Entry, None, None]:
    """Yields the entries of all keys in order. After the first pages, up to `AT_ONCE` pages are requested at the same time.

    Raises the same errors as `entries_in_turn`: if a page's early request fails, the page is requested again when it is needed. Closing the
    generator waits for the requests that have been sent.
    """
    stretch = Stretch()
    yield from _in_turn(keys, stretch, most=ALONE)
    if not stretch.is_done:
        yield from _Ahead(keys, stretch).entries()


def _in_turn(keys: Keys, stretch: Stretch, *, most: int | None = None) -> Iterator[Entry]:
    """Yields the entries of at most this many pages, one page after another."""
    while not stretch.is_done and (most is None or stretch.listed < most):
        page = keys.page(stretch.position, stretch.token)
        stretch.add(keys, page)
        while stretch.pages:
            yield from filter(None, stretch.pages.popleft())


class _Ahead:
    """The rest of a listing, with several requests at the same time. Other threads only send requests."""

    def __init__(self, keys: Keys, rest: Stretch) -> None:
        self._keys = keys
        self._stretches = [rest]
        """The stretches in the order of their keys. Each stretch begins where the previous stretch ends."""
        self._requests: dict[Future[KeyPage], Stretch] = {}
        self._folder_requests: dict[Future[Sequence[str]], Folders] = {}
        self._listed = rest.listed
        self._window = 1
        """The largest number of guesses at the same time. A good guess doubles this number, and a wrong guess halves it."""
        self._open_guesses = 0
        """The number of guesses for which no response has arrived yet."""
        self._misses = 0
        self._begins_anywhere: bool | None = None
        """Whether the store begins a listing at the requested key. None until a response has shown this."""

    def entries(self) -> Iterator[Entry]:
        """Yields the entries in order."""
        with ThreadPoolExecutor(AT_ONCE, thread_name_prefix="listing") as threads:
            while self._stretches:
                head = self._stretches[0]
                self._take(head)
                if head.is_done and not head.pages:
                    del self._stretches[0]
                    continue
                self._send(threads)
                if head.pages:
                    yield from filter(None, head.pages.popleft())
                else:
                    requests: list[Future[Any]] = [*self._requests, *self._folder_requests]  # pages and names of folders
                    wait(requests, return_when=FIRST_COMPLETED)

    def _take(self, head: Stretch) -> None:
        """Takes the responses that have arrived. Raises a request's error if its page is needed now."""
        for answer in [each for each in self._folder_requests if each.done()]:
            # If the request for the folders' names failed, list these folders as one stretch.
            self._folder_requests.pop(answer).add(() if answer.exception() is not None else answer.result())
        for request in [each for each in self._requests if each.done()]:
            stretch = self._requests.pop(request)
            stretch.is_requested = False
            try:
                self._add(stretch, request.result())
            except ConvertError:
                if stretch is head and not head.pages:
                    raise
                stretch.has_failed = True

    def _add(self, stretch: Stretch, page: KeyPage) -> None:
        """Adds a page to its stretch, and looks for the places at which the rest of the stretch can be divided."""
        was_guess, was_begun, position = stretch.is_guess, stretch.token is not None, stretch.position
        count = stretch.add(self._keys, page)
        stretch.is_guess = False
        self._open_guesses -= was_guess
        self._listed += 1
        if not was_begun:
            self._begins_anywhere = self._begins_anywhere is not False and (not page.keys or page.keys[0] > position)
        if was_guess and 2 * count >= len(page.keys) > 0:
            self._window = min(AT_ONCE, 2 * self._window)
        elif was_guess:
            self._window = max(1, self._window // 2)
            self._misses += 1
        if page.keys and not stretch.is_done:
            self._look_ahead(stretch, page.keys)

    def _look_ahead(self, stretch: Stretch, keys: Sequence[str]) -> None:
        """Uses the keys of a stretch's page to find keys at which later pages may begin."""
        folder = _folder_of(keys[0][: common_length(keys[0], keys[-1])])
        is_one_folder = folder == _folder_of(keys[0]) == _folder_of(keys[-1])
        level = _folder_of(folder[:-1]) if is_one_folder else folder
        names = 1 if is_one_folder else len({key[: key.find("/", len(level)) + 1] for key in keys})
        are_tiny = names * _FEW_FILES > len(keys)
        # Tiny folders are almost as numerous as keys. So their names aren't requested, but guessed like file names.
        stretch.guesses = following(keys) if is_one_folder or are_tiny else iter(())
        if are_tiny or level == stretch.level or len(level) < len(self._keys.prefix):
            return
        if stretch.listed >= _LONG and (stretch.folders is None or stretch.folders.prefix != level):
            stretch.folders = Folders(level, after=keys[-1])
            stretch.listed = 0
        if stretch.folders is not None and stretch.folders.prefix == level:
            stretch.folders.for_a_page = max(1, (names - 1) * 9 // 10)

    def _send(self, threads: ThreadPoolExecutor) -> None:
        """Sends requests in the order of their keys, up to the limit on pages in memory.

        Pages of later folders are requested only while more than half of this limit is unused. Only the folder whose pages are needed next
        is divided by guesses.
        """
        room = _PAGES_AHEAD - len(self._requests) - sum(len(each.pages) for each in self._stretches)
        is_near = True
        place = 0
        while place < len(self._stretches) and self._free:
            stretch = self._stretches[place]
            is_near = is_near and (place == 0 or stretch.is_guessed)
            has_room = room > (0 if is_near else _PAGES_AHEAD // 2)
            is_needed = place == 0 and not stretch.pages
            if is_needed or (has_room and not stretch.has_failed and len(stretch.pages) < _PAGES_OF_A_STRETCH):
                room -= self._request(threads, stretch)
            if stretch.is_requested:
                self._request_folders(threads, stretch.folders)
                rest = self._rest_after_guess(stretch) if is_near and room > 0 else None
                if rest is None and room > _PAGES_AHEAD // 2:
                    rest = self._rest_after_folders(stretch)
                if rest is not None:
                    self._stretches.insert(place + 1, rest)
            place += 1

    @property
    def _free(self) -> int:
        """The number of requests that may be sent now."""
        return AT_ONCE - len(self._requests) - len(self._folder_requests)

    def _request(self, threads: ThreadPoolExecutor, stretch: Stretch) -> int:
        """Requests the next page of a stretch, and returns the number of requests sent."""
        if stretch.is_done or stretch.is_requested:
            return 0
        # The context contains the deadline of `retrying`.
        request = threads.submit(copy_context().run, self._keys.page, stretch.position, stretch.token)
        self._requests[request] = stretch
        stretch.is_requested, stretch.has_failed = True, False
        return 1

    def _request_folders(self, threads: ThreadPoolExecutor, folders: Folders | None) -> None:
        if folders is None or not folders.wants_more or not self._free:
            return
        request = threads.submit(copy_context().run, self._keys.folders, folders.prefix, folders.after)
        self._folder_requests[request] = folders
        folders.is_requested = True

    def _rest_after_guess(self, stretch: Stretch) -> Stretch | None:
        """Ends a stretch at the next guess, and returns the rest of the stretch. Returns None if no guess is left or allowed now."""
        if not self._may_divide or self._misses * _PAGES_OF_A_MISS > self._listed or self._open_guesses >= self._window:
            return None
        place = next(stretch.guesses, None)
        if place is None or not stretch.contains(place):
            return None
        rest = Stretch(
            place,
            stretch.until,
            is_guess=True,
            is_guessed=True,
            guesses=stretch.guesses,
            folders=stretch.folders,
            level=stretch.level,
        )
        stretch.until, stretch.guesses, stretch.folders = place, iter(()), None
        self._open_guesses += 1
        return rest

    def _rest_after_folders(self, stretch: Stretch) -> Stretch | None:
        """Ends a stretch where its next folders begin, and returns the rest of it. Returns None if no such folders are known."""
        if not self._may_divide or stretch.folders is None:
            return None
        place = stretch.folders.next_after(stretch.position)
        if place is None or not stretch.contains(place):
            return None
        rest = Stretch(place, stretch.until, folders=stretch.folders, level=stretch.level)
        stretch.until, stretch.level, stretch.folders = place, stretch.folders.prefix, None
        return rest

    @property
    def _may_divide(self) -> bool:
        """Whether stretches may be divided. Until a response shows that the store begins listings at the requested key, there are at most
        two stretches."""
        return self._begins_anywhere or (self._begins_anywhere is None and len(self._stretches) == 1)


def _folder_of(key: str) -> str:
    """Returns the key up to its last slash."""
    return key[: key.rfind("/") + 1]
