"""Closes resources: a base class for objects that a `with` block closes, and helpers for errors and generators."""

from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from types import GeneratorType, TracebackType
from typing import Any, Self


class Closeable:
    """An object with a `close` method, for use in a `with` block. It can be closed more than once."""

    def close(self) -> None:
        """Release the resources that this object holds."""
        raise NotImplementedError

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self.close()


@contextmanager
def closed_on_error(resource: Closeable) -> Iterator[None]:
    """Close `resource` if the block raises. If the block doesn't raise, `resource` stays open, and the caller must close it."""
    try:
        yield
    except BaseException:
        resource.close()
        raise


def close_generator(items: Iterable[Any]) -> None:
    """Close `items` if it is a generator, so that the generator releases its resources.

    Do nothing while another thread runs the generator.
    """
    if isinstance(items, GeneratorType) and not items.gi_running:
        items.close()
