"""Lists the folders of a tree with several requests at the same time, and yields the files in order.

This is for stores that list one folder with each request. Each folder is listed once, as it would be without other requests at the same
time. While a folder is listed, only the next few of its subfolders are requested, so that memory holds only a few folders.
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
"""About as many files of the next subfolders may be in memory, so fewer large folders are requested at the same time."""
_CHILDREN_AHEAD: Final = 1000
"""The largest number of children of a folder among which the next subfolders are looked for."""

Folder = TypeVar("Folder")
Children: TypeAlias = Iterable[Entry | Folder]


def files_in_order(list_folder: Callable[[Folder], Children[Folder]], root: Folder, *, recursive: bool) -> Generator[Entry, None, None]:
    """Yields the files below `root`, the files of each subfolder at the subfolder's place among the children of its folder.

    `list_folder` returns a folder's children in order, and is called in several threads. If it returns an iterator instead of a sequence,
    it has received only the first children. An error is raised when its folder is due. Closing the generator waits for the requests that
    have been sent.
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
        """The number of their children, as far as they were received at once."""

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
        """The number of subfolders of a folder to request at the same time. Until the size of one subfolder is known, this is one."""
        return max(1, min(AT_ONCE, _FILES_AHEAD * self._folders // max(1, self._files)))


class _Level(Generic[Folder]):
    """A folder whose children are taken one by one, while its next subfolders are requested."""

    def __init__(self, children: Children[Folder]) -> None:
        self._children = iter(children)
        self._ahead: deque[Entry | Future[Children[Folder]]] = deque()
        """The next children."""
        self._requested = 0
        """The number of subfolders among them."""
        self._failure: ConvertError | None = None
        """The error after these children."""

    def next(self, request: Callable[[Folder], Future[Children[Folder]]], *, most: int) -> Entry | Future[Children[Folder]] | None:
        """Returns the next file, the children of the next subfolder, or None at the end. Requests subfolders if fewer than `most` are."""
        while self._requested < most and len(self._ahead) < _CHILDREN_AHEAD and self._failure is None:
            try:
                child = next(self._children)
            except StopIteration:
                break
            except ConvertError as exc:  # raised below, after the children before it
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
