"""Watchdog: kills this process if a blocking call of a native client never returns.

After failed writes, `hdfs-native` may block in `write()` forever. A blocked call raises no error, and a thread can't end another thread
of its process. So a separate process watches this process. Shared memory tells the watching process at what time each thread entered its
current call. If a call exceeds the time limit, the watching process sends SIGKILL. After the SIGKILL, the task is repeated, as after any
other death of a process.

There are two variants, because the kernel ignores a SIGKILL that is sent to a container's first process from inside the container.
`supervise` forks, works in the child and watches in the parent. `supervise` is for pods, where we are process 1. `Watchdog` starts a small
process that watches the current process. `Watchdog` is for the workers of a local pool.

    shared memory:  int64 entered[SLOTS]     CLOCK_MONOTONIC in nanoseconds, 0 = not in a call   (native byte order)

This module imports only the standard library, because the watching process runs this file as a script.
"""

import contextlib
import mmap
import os
import select
import signal
import struct
import sys
import threading
import time
import traceback
from collections.abc import Callable, Iterator
from types import FrameType, TracebackType
from typing import TYPE_CHECKING, Final, Self

if TYPE_CHECKING:
    import subprocess

LIMIT_SECONDS: Final = 120.0
KILLED: Final = 4
"""The exit code of `supervise` after a kill (`Exit.UNREACHABLE`).

This exit code leads to a retry, just as if the store hadn't responded.
"""

_SLOTS = 128
_POLL_SECONDS = 0.5
_SIZE = _SLOTS * 8
_FORWARDED = (signal.SIGTERM, signal.SIGINT)


class Heartbeats:
    """The shared memory. Each thread has a slot while it is in a call. Nested calls are timed from the start of the outermost call."""

    def __init__(self, descriptor: int) -> None:
        self.descriptor = descriptor
        self._memory = mmap.mmap(descriptor, _SIZE)
        self._free = list(range(_SLOTS))
        self._thread = threading.local()

    @classmethod
    def create(cls) -> Self:
        """Creates shared memory in which all slots are idle."""
        descriptor = os.memfd_create("dataprep-heartbeats")
        os.ftruncate(descriptor, _SIZE)
        return cls(descriptor)

    @contextlib.contextmanager
    def blocking(self) -> Iterator[None]:
        """Marks this thread as being in a blocking call."""
        if getattr(self._thread, "inside", False) or not self._free:
            yield
            return
        slot = self._free.pop()  # list.pop and append are atomic
        self._thread.inside = True
        struct.pack_into("q", self._memory, slot * 8, time.monotonic_ns())
        try:
            yield
        finally:
            struct.pack_into("q", self._memory, slot * 8, 0)
            self._thread.inside = False
            self._free.append(slot)

    def longest_seconds(self) -> float:
        """Returns how long the longest current call has lasted, or 0 if no thread is in a call."""
        entered = [value for value in struct.unpack(f"{_SLOTS}q", self._memory[:]) if value]
        return (time.monotonic_ns() - min(entered)) / 1e9 if entered else 0.0

    def close(self) -> None:
        """Unmaps the memory in this process. Other processes keep their mappings."""
        self._memory.close()
        os.close(self.descriptor)


_current: Heartbeats | None = None


@contextlib.contextmanager
def blocking() -> Iterator[None]:
    """Wraps calls that may hang. Every call of a native client must be wrapped. Does nothing in a process without a watchdog."""
    if _current is None:
        yield
        return
    with _current.blocking():
        yield


class Watchdog:
    """Watches this process from a separate small process, which `with` starts and stops.

    Start the watchdog before any native client creates threads. In process 1 of a container, use `supervise` instead of `Watchdog`.
    """

    def __init__(self, *, limit_seconds: float = LIMIT_SECONDS) -> None:
        self.limit_seconds = limit_seconds
        self._beats: Heartbeats | None = None
        self._process: subprocess.Popen[bytes] | None = None

    def __enter__(self) -> Self:
        global _current
        if os.getpid() == 1:
            raise RuntimeError("Process 1 of a container can't be killed from inside it: run the work under watchdog.supervise.")
        if _current is not None:
            raise RuntimeError("This process is watched already.")
        self._beats = Heartbeats.create()
        import subprocess  # not imported at the top, because a pod doesn't need this module

        # No matter how this process ends, our end of the watcher's standard input closes, and then the watcher exits too. The options -I
        # and -S keep the watcher small.
        self._process = subprocess.Popen(  # noqa: S603 - our own file, our own numbers
            [sys.executable, "-I", "-S", __file__, str(os.getpid()), str(self._beats.descriptor), str(self.limit_seconds)],
            stdin=subprocess.PIPE,
            pass_fds=[self._beats.descriptor],
            start_new_session=True,  # so that Ctrl-C in the terminal doesn't end it
        )
        _current = self._beats
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        global _current
        _current = None
        if self._process is not None and self._process.stdin is not None:
            self._process.stdin.close()
            self._process.wait()
        if self._beats is not None:
            self._beats.close()


def supervise(work: Callable[[], int], *, limit_seconds: float = LIMIT_SECONDS) -> int:
    """Runs `work` in a child process, which is killed if one of its blocking calls lasts longer than the limit. Returns the exit code.

    Call this function while this process has only one thread. SIGTERM and SIGINT are forwarded to the child. If a signal ends the child,
    the exit code is 128 + signal.
    """
    beats = Heartbeats.create()
    sys.stdout.flush()
    sys.stderr.flush()
    # Block signals, because a signal between the fork and the installation of the handlers would end this process but not the child.
    signal.pthread_sigmask(signal.SIG_BLOCK, _FORWARDED)
    parent = os.getpid()
    child = os.fork()
    if child == 0:
        _end_with(parent)
        signal.pthread_sigmask(signal.SIG_UNBLOCK, _FORWARDED)
        _work_in_child(work, beats)

    def forward(number: int, _: FrameType | None) -> None:
        with contextlib.suppress(ProcessLookupError):
            os.kill(child, number)

    previous = {number: signal.signal(number, forward) for number in _FORWARDED}
    signal.pthread_sigmask(signal.SIG_UNBLOCK, _FORWARDED)
    try:
        return _watch_child(child, beats, limit_seconds)
    finally:
        for number, handler in previous.items():
            signal.signal(number, handler)
        beats.close()


def _end_with(parent: int) -> None:
    """Asks the kernel to end this process when `parent` dies."""
    import ctypes  # not imported at the top, because the process that `Watchdog` starts doesn't need this module

    ctypes.CDLL(None).prctl(1, signal.SIGKILL)  # PR_SET_PDEATHSIG
    if os.getppid() != parent:
        os._exit(1)


def _work_in_child(work: Callable[[], int], beats: Heartbeats) -> None:
    global _current
    _current = beats
    code = 70
    try:
        code = work()
    except SystemExit as exc:
        code = exc.code if isinstance(exc.code, int) else int(exc.code is not None)
    except KeyboardInterrupt:
        code = 130
    except BaseException:
        traceback.print_exc()
    finally:
        with contextlib.suppress(OSError, ValueError):
            sys.stdout.flush()
            sys.stderr.flush()
        # Don't use sys.exit, because the stack frames above this one belong to the parent's work. A normal exit would also be blocked by
        # native writers that were kept after a failure.
        os._exit(code)


def _watch_child(child: int, beats: Heartbeats, limit_seconds: float) -> int:
    killed = False
    # As process 1, we become the parent of the child's orphans; `os.waitpid(-1, …)` waits for any child, so it also reaps the orphans.
    while True:
        pid, status = os.waitpid(-1 if os.getpid() == 1 else child, os.WNOHANG)
        if pid == child:
            code = os.waitstatus_to_exitcode(status)
            if killed:
                return KILLED
            return code if code >= 0 else 128 - code
        if pid == 0:
            if not killed and beats.longest_seconds() > limit_seconds:
                _say(child, beats.longest_seconds())
                os.kill(child, signal.SIGKILL)
                killed = True
            time.sleep(min(_POLL_SECONDS, limit_seconds / 4, 0.05 if killed else _POLL_SECONDS))


def _watch_parent(parent: int, descriptor: int, limit_seconds: float) -> None:
    """The main function of the process that `Watchdog` starts."""
    beats = Heartbeats(descriptor)
    while os.getppid() == parent:
        if select.select([0], [], [], min(_POLL_SECONDS, limit_seconds / 4))[0]:
            return  # end of file: the watchdog was stopped, or the watched process has ended
        longest = beats.longest_seconds()
        if longest > limit_seconds and os.getppid() == parent:
            _say(parent, longest)
            os.kill(parent, signal.SIGKILL)
            return


def _say(process: int, seconds: float) -> None:
    message = f"dataprep: a call of the store's client has not returned for {seconds:.0f} s; killing process {process}, and its task will be retried.\n"
    with contextlib.suppress(OSError):
        os.write(2, message.encode())


if __name__ == "__main__":
    _watch_parent(int(sys.argv[1]), int(sys.argv[2]), float(sys.argv[3]))
