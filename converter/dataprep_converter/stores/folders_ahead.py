"""Lists the folders of a tree with several requests at the same time, and yields the files in order.

This module is for stores that list one folder with each request. Each folder is requested only once. While a folder is listed, only the
next few of its subfolders are requested, so that memory holds only a few folders.
"""

from collections import deque
from collections.abc import Callable, Generator, Iterable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextvars import copy_context
from functools import partial
from typing import Final, Generic, TypeAlias, TypeVar

from dataprep_converter.core.errors import ConvertError
from dataprep_converter.stores import Entry

AT_ONCE: Final = 8
"""The largest number of requests at the same time, and of subfolders of one folder that are requested before they are needed."""
_FILES_AHEAD: Final = 10_000
"""The approximate limit on the files of the next subfolders in memory. If folders are large, fewer are requested at the same time."""
_CHILDREN_AHEAD: Final = 1000
"""The next subfolders are looked for among at most this many children of a folder."""

Folder = TypeVar("Folder")
Children: TypeAlias = Iterable[Entry | Folder]


def files_in_order(list_folder: Callable[[Folder], Children[Folder]], root: Folder, *, recursive: bool) -> Generator[Entry, None, None]:
    """Yields the files below `root`. The order is depth-first: a subfolder's files come where `list_folder` returned the subfolder.

    `list_folder` is called in several threads. It returns a folder's children in order: as a sequence, or as an iterator if further
    requests are needed. If a folder can't be listed, the error is raised after all files before that folder have been yielded. Closing the
    generator waits for the requests that have been sent.
    """
    if recursive:
        yield from _Tree(list_folder).files(root)
    else:
        yield from (child for child in list_folder(root) if isinstance(child, Entry))


class _Tree(Generic[Folder]):
    """A listing of a tree. Other threads only call `list_folder`."""

    def __init__(self, list_folder: Callable[[Folder], Children[Folder]]) -> None:
        self._list_folder = list_folder
        self._folders = 0
        """The number of subfolders listed so far."""
        self._files = 0
        """The number of children in these subfolders. If only the first children were received, the number is an estimate."""

    def files(self, root: Folder) -> Iterator[Entry]:
        """Yields the files in order."""
        levels = [_Level(self._list_folder(root))]
        with ThreadPoolExecutor(AT_ONCE, thread_name_prefix="listing") as threads:
            try:
                while levels:
                    child = levels[-1].next(partial(self._request, threads), most=self._most)
                    if child is None:
                        levels.pop()
                    elif isinstance(child, Entry):
                        yield child
                    else:
                        levels.append(_Level(self._counted(child.result())))
            finally:
                threads.shutdown(wait=False, cancel_futures=True)

    def _request(self, threads: ThreadPoolExecutor, folder: Folder) -> Future[Children[Folder]]:
        # The context contains the deadline of `retrying`.
        return threads.submit(copy_context().run, self._list_folder, folder)

    def _counted(self, children: Children[Folder]) -> Children[Folder]:
        self._folders += 1
        self._files += len(children) if isinstance(children, Sequence) else _CHILDREN_AHEAD
        return children

    @property
    def _most(self) -> int:
        """How many subfolders of one folder to request at the same time: one until the size of a subfolder is known."""
        return max(1, min(AT_ONCE, _FILES_AHEAD * self._folders // max(1, self._files)))


class _Level(Generic[Folder]):
    """One folder of the walk. Its children are taken one by one, and its next subfolders are requested in advance."""

    def __init__(self, children: Children[Folder]) -> None:
        self._children = iter(children)
        self._ahead: deque[Entry | Future[Children[Folder]]] = deque()
        """The next children."""
        self._requested = 0
        """The number of subfolders among the next children."""
        self._failure: ConvertError | None = None
        """The error to raise after the next children."""

    def next(self, request: Callable[[Folder], Future[Children[Folder]]], *, most: int) -> Entry | Future[Children[Folder]] | None:
        """Returns the next file, the children of the next subfolder, or None at the end. Requests up to `most` subfolders in advance."""
        while self._requested < most and len(self._ahead) < _CHILDREN_AHEAD and self._failure is None:
            try:
                child = next(self._children)
            except StopIteration:
                break
            except ConvertError as exc:  # raised below, after the earlier children have been returned
                self._failure = exc
                break
            self._ahead.append(child if isinstance(child, Entry) else request(child))
            self._requested += not isinstance(child, Entry)
        if not self._ahead:
            if self._failure is not None:
                raise self._failure
            return None
        following = self._ahead.popleft()
        self._requested -= isinstance(following, Future)
        return following
