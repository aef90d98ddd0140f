"""A simulated process that sleeps before one of its operations on a store, until it is woken up."""

import threading
from collections.abc import Callable

from tests.converter.stores.crashing import Before, CrashingAccess, Operations, Point
from tests.converter.stores.places import Place

from dataprep_converter.inputs.access import Access


class Sleeper:
    """A simulated process that sleeps before or after an operation and wakes up on command, like a pod on a node that lost its network."""

    def __init__(self, place: Place, point: Point | Before, life: Callable[[Access], None]) -> None:
        self.asleep = threading.Event()
        self._wake = threading.Event()
        self._first = threading.Lock()
        self._raised: list[BaseException] = []
        self._point = point
        self._operations = Operations(point, self._sleep)
        access = CrashingAccess((place.settings,), self._operations)
        self._thread = threading.Thread(target=lambda: self._live(life, access), name="sleeper")
        self._thread.start()
        while not self.asleep.wait(timeout=0.005) and self._thread.is_alive():
            pass

    @property
    def came_there(self) -> bool:
        return self._operations.reached

    @property
    def names(self) -> list[str]:
        """The operations that the process has done so far, in order."""
        return self._operations.names

    def wakes_up(self) -> list[BaseException]:
        """Wake the process up, wait for its end, and return the exceptions that it raised."""
        self._wake.set()
        self._thread.join()
        return self._raised

    def wakes_up_and_dies(self) -> None:
        """Wake the process up, and let it die after its next operation."""
        assert isinstance(self._point, Point)
        self._operations.die_after(self._point.number)
        self._wake.set()
        self._thread.join()

    def _sleep(self, operations: Operations) -> None:
        if not self._first.acquire(blocking=False):
            return
        # All threads of the process sleep, including this thread.
        operations.pause()
        self.asleep.set()
        self._wake.wait()
        operations.resume()

    def _live(self, life: Callable[[Access], None], access: Access) -> None:
        try:
            life(access)
        except BaseException as exc:
            self._raised.append(exc)
