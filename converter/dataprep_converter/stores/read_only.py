"""Base class of the read-only stores. Each read-only store refuses all writes, and gives its own reason."""

# The public methods are documented on the class `Store`, in `__init__.py`.
# ruff: noqa: D102

from abc import ABC, abstractmethod

from dataprep_api.spec import HdfsOptions
from dataprep_converter.core.errors import BadSpec
from dataprep_converter.stores import Entry, PinnedInput, Upload


class ReadOnlyStore(ABC):
    """A `Store` that refuses writes. Subclasses implement listing and opening."""

    @abstractmethod
    def open(self, uri: str) -> PinnedInput: ...

    @abstractmethod
    def refusal(self, uri: str) -> BadSpec:
        """Returns the error that explains why this store can't be written to."""

    def get(self, uri: str) -> bytes:
        with self.open(uri) as source:
            return source.read_at(0, source.size)

    def create(self, uri: str, *, size_hint: int | None = None, hdfs: HdfsOptions | None = None) -> Upload:  # noqa: ARG002 - refused
        raise self.refusal(uri)

    def put(self, uri: str, data: bytes, *, replace: bool = True, hdfs: HdfsOptions | None = None) -> Entry:  # noqa: ARG002 - refused
        raise self.refusal(uri)

    def delete(self, uri: str) -> None:
        raise self.refusal(uri)

    def sweep(self, uri: str) -> int:
        raise self.refusal(uri)
