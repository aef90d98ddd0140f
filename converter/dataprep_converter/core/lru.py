"""A least recently used cache, bounded by count and weight."""

from collections import OrderedDict
from collections.abc import Callable, Hashable
from typing import Generic, TypeVar

K = TypeVar("K", bound=Hashable)


V = TypeVar("V")


class LruCache(Generic[K, V]):
    """Keeps the most recently used values, within limits on their number and their total weight.

    A single value is kept even if it exceeds the weight limit.
    """

    def __init__(
        self,
        most: int,
        most_weight: int = 0,
        weigh: Callable[[V], int] = lambda _: 0,
        *,
        evicted: Callable[[K, V], None] = lambda _key, _value: None,
    ) -> None:
        """Make an empty cache. `evicted` is called with each key and value that leaves the cache."""
        self._evicted = evicted
        self._most = most
        self._most_weight = most_weight
        self._weigh = weigh
        self._weight = 0
        self._values: OrderedDict[K, V] = OrderedDict()

    def get(self, key: K, make: Callable[[], V]) -> V:
        """Return the value of `key`. If the value is missing, `make` creates it."""
        if key not in self._values:
            value = make()
            self._weight += self._weigh(value)
            self._values[key] = value
            while len(self._values) > self._most or (self._weight > self._most_weight and len(self._values) > 1):
                self._evict(*self._values.popitem(last=False))
        self._values.move_to_end(key)
        return self._values[key]

    def discard(self, key: K) -> None:
        """Remove the value of `key`, if the cache contains it."""
        if key in self._values:
            self._evict(key, self._values.pop(key))

    def clear(self) -> None:
        """Remove all values, the oldest first."""
        while self._values:
            self._evict(*self._values.popitem(last=False))

    def _evict(self, key: K, value: V) -> None:
        self._weight -= self._weigh(value)
        self._evicted(key, value)

    def __contains__(self, key: object) -> bool:
        return key in self._values
