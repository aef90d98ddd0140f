"""Closing: a base class whose `close` ends a `with` block, and closing of generators."""

from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from types import GeneratorType, TracebackType
from typing import Any, Self


class Closeable:
    """An object with a `close`, to be used in a `with` block. Closing twice does no harm."""

    def close(self) -> None:
        """Releases what this object holds."""
        raise NotImplementedError

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self.close()


@contextmanager
def closed_on_error(resource: Closeable) -> Iterator[None]:
    """Closes `resource` if the block raises. Otherwise it stays open for whoever gets it."""
    try:
        yield
    except BaseException:
        resource.close()
        raise


def close_generator(items: Iterable[Any]) -> None:
    """Closes `items` if it is a generator, so that it releases its resources. Not while another thread runs it."""
    if isinstance(items, GeneratorType) and not items.gi_running:
        items.close()
