"""Stores that count their operations.

At a given operation, they kill the process, stop, or wait. They wrap real stores at the interfaces `Store`, `Upload` and `Input`, so a
crash leaves the same files as in the real store. Instead of being killed, a process can also count as dead. Then all its later operations
on the store are refused, even in a `finally` block.
"""

import os
import signal
import threading
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from types import TracebackType
from typing import Literal, NoReturn, Self, TypeVar

from dataprep_api.spec import HdfsOptions
from dataprep_converter.inputs.access import Access
from dataprep_converter.stores import Entry, MovesFiles, PinnedInput, Store, StoreSettings, Upload
from dataprep_converter.stores.files import FileUpload

T = TypeVar("T")

When = Literal["before", "after"]


class Killed(BaseException):
    """Raised when this process counts as dead. No part of the product is allowed to catch it and continue."""


@dataclass(frozen=True)
class Point:
    """A point in the run of a process, before or after the operation with this number. The first operation has the number 1."""

    number: int
    when: When


@dataclass(frozen=True)
class Before:
    """The point before the first `operation` on a file whose name ends with `end`."""

    operation: str
    end: str = ""


class Operations:
    """Counts operations and calls `then` at the point. Each life of a process has its own counts."""

    def __init__(self, point: Point | Before | None = None, then: Callable[["Operations"], object] = lambda _: None) -> None:
        self.names: list[str] = []
        """The operations so far, in order."""
        self.dead = False
        self._point = point
        self._then = then
        self._last: int | None = None
        self._turn = threading.Condition()
        self._paused = False
        self._running = 0

    @property
    def reached(self) -> bool:
        """Whether the process has reached the point."""
        return any(self._is_point(number, when) for number in range(1, len(self.names) + 1) for when in ("before", "after"))

    def do(self, name: str, operation: Callable[[], T]) -> T:
        """Do one operation of a store."""
        with self._turn:
            self._turn.wait_for(lambda: not self._paused)
            self._refuse_when_dead()
            self.names.append(name)
            number = len(self.names)
            self._running += 1
        try:
            return self._do(number, operation)
        finally:
            with self._turn:
                self._running -= 1
                self._turn.notify_all()

    def _do(self, number: int, operation: Callable[[], T]) -> T:
        self._at(number, "before")
        try:
            return operation()
        finally:
            # The process dies after the operation, whether the operation succeeded or not.
            self._at(number, "after")

    def pause(self) -> None:
        """Wait until the caller's operation is the only one in progress. No thread can begin another operation until `resume` is called."""
        with self._turn:
            self._paused = True
            assert self._turn.wait_for(lambda: self._running == 1, timeout=60), "an operation doesn't end"

    def resume(self) -> None:
        """Let operations begin again."""
        with self._turn:
            self._paused = False
            self._turn.notify_all()

    def die(self) -> NoReturn:
        """Refuse all operations from now on."""
        self.dead = True
        raise Killed

    def die_after(self, number: int) -> None:
        """Refuse operation `number` and all later ones."""
        self._last = number

    def _at(self, number: int, when: When) -> None:
        if number == self._last and when == "after":
            self.die()
        if self._is_point(number, when):
            self._then(self)
        self._refuse_when_dead()

    def _is_point(self, number: int, when: When) -> bool:
        point, name = self._point, self.names[number - 1]
        if isinstance(point, Before):
            return when == "before" and name.startswith(f"{point.operation} ") and name.endswith(point.end)
        return point == Point(number, when)

    def _refuse_when_dead(self) -> None:
        if self.dead:
            raise Killed


def stops(operations: Operations) -> None:
    """Make the process appear dead to all stores."""
    operations.die()


def dies(_: Operations) -> None:
    """Kill this process with SIGKILL."""
    os.kill(os.getpid(), signal.SIGKILL)


class CrashingAccess(Access):
    """An Access that returns wrapped stores."""

    def __init__(self, settings: tuple[StoreSettings, ...], operations: Operations) -> None:
        super().__init__(settings)
        self._operations = operations

    def store(self, uri: str) -> Store:
        store = super().store(uri)
        return CrashingFolders(store, store, self._operations) if isinstance(store, MovesFiles) else CrashingStore(store, self._operations)


class CrashingStore:
    """A store that counts all its operations."""

    def __init__(self, store: Store, operations: Operations) -> None:
        self._store = store
        self._operations = operations

    def list(self, uri: str, *, recursive: bool = True) -> Iterator[Entry]:
        yield from self._operations.do(f"list {uri}", lambda: [*self._store.list(uri, recursive=recursive)])

    def stat(self, uri: str) -> Entry | None:
        return self._operations.do(f"stat {uri}", lambda: self._store.stat(uri))

    def open(self, uri: str) -> PinnedInput:
        return CrashingInput(self._operations.do(f"open {uri}", lambda: self._store.open(uri)), self._operations)

    def get(self, uri: str) -> bytes:
        return self._operations.do(f"get {uri}", lambda: self._store.get(uri))

    def create(self, uri: str, *, size_hint: int | None = None, hdfs: HdfsOptions | None = None) -> Upload:
        made = self._operations.do(f"create {uri}", lambda: self._store.create(uri, size_hint=size_hint, hdfs=hdfs))
        return (CrashingFileUpload if isinstance(made, FileUpload) else CrashingUpload)(made, self._operations, uri)

    def put(self, uri: str, data: bytes, *, replace: bool = True, hdfs: HdfsOptions | None = None) -> Entry:
        return self._operations.do(f"put {uri}", lambda: self._store.put(uri, data, replace=replace, hdfs=hdfs))

    def delete(self, uri: str) -> None:
        self._operations.do(f"delete {uri}", lambda: self._store.delete(uri))

    def sweep(self, uri: str) -> int:
        return self._operations.do(f"sweep {uri}", lambda: self._store.sweep(uri))


class CrashingFolders(CrashingStore):
    """A store with folders that counts all its operations."""

    def __init__(self, store: Store, folders: MovesFiles, operations: Operations) -> None:
        super().__init__(store, operations)
        self._folders = folders

    def make_folder(self, uri: str) -> None:
        self._operations.do(f"make folder {uri}", lambda: self._folders.make_folder(uri))

    def move(self, uri: str, target: str) -> None:
        self._operations.do(f"move {uri}", lambda: self._folders.move(uri, target))

    def remove_folder(self, uri: str) -> None:
        self._operations.do(f"remove folder {uri}", lambda: self._folders.remove_folder(uri))


class CrashingUpload:
    """An upload that counts all its operations."""

    def __init__(self, upload: Upload, operations: Operations, uri: str) -> None:
        self.blocks = upload.blocks
        self._upload = upload
        self._operations = operations
        self._uri = uri

    def write(self, data: bytes | bytearray | memoryview) -> None:
        self._operations.do(f"write {self._uri}", lambda: self._upload.write(data))

    def stage(self) -> None:
        self._operations.do(f"stage {self._uri}", self._upload.stage)

    def commit(self, *, replace: bool) -> Entry:
        return self._operations.do(f"commit {self._uri}", lambda: self._upload.commit(replace=replace))

    def abort(self) -> None:
        self._operations.do(f"abort {self._uri}", self._upload.abort)


class CrashingFileUpload(CrashingUpload):
    """A wrapped upload to a file. Such an upload also has the method `write_with`."""

    _upload: FileUpload

    def write_with(self, put: Callable[[int], int]) -> None:
        self._operations.do(f"write {self._uri}", lambda: self._upload.write_with(put))


class CrashingInput:
    """An input that counts all its operations."""

    def __init__(self, opened: PinnedInput, operations: Operations) -> None:
        self._opened = opened
        self._operations = operations

    @property
    def size(self) -> int:
        return self._opened.size

    @property
    def pin(self) -> str | None:
        return self._opened.pin

    def read_at(self, offset: int, length: int) -> bytes:
        return self._operations.do("read", lambda: self._opened.read_at(offset, length))

    def stream(self, offset: int = 0, length: int | None = None) -> Iterator[bytes]:
        pieces = self._opened.stream(offset, length)
        while (piece := self._operations.do("read on", lambda: next(pieces, None))) is not None:
            yield piece

    def close(self) -> None:
        self._opened.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self.close()
