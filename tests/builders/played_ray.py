"""Stands in for the small part of Ray Data that `dataprep_ray` needs: its classes, and the calls that its driver and tasks make."""

import json
import pickle
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from types import ModuleType
from typing import Any

import numpy as np
import pyarrow as pa

_any: Any = pa


class Datasource:
    """Stands in for `ray.data.Datasource`."""


class Datasink:
    """Stands in for `ray.data.Datasink`."""


class DataContext:
    """Stands in for `ray.data.DataContext`."""

    max_errored_blocks = 0

    @classmethod
    def get_current(cls) -> type["DataContext"]:
        return cls


@dataclass
class BlockMetadata:
    """Stands in for `ray.data.block.BlockMetadata`."""

    num_rows: int | None
    size_bytes: int | None
    exec_stats: Any
    input_files: list[str] | None


@dataclass
class ReadTask:
    """Stands in for `ray.data.ReadTask`."""

    read_fn: Callable[[], Iterable[pa.Table]]
    metadata: BlockMetadata
    schema: pa.Schema | None = None
    per_task_row_limit: int | None = None

    def __call__(self) -> Iterator[pa.Table]:
        """Yield the blocks, but no more rows in total than the limit allows."""
        left = self.per_task_row_limit
        for block in self.read_fn():
            yield block if left is None else block.slice(0, left)
            left = None if left is None else max(0, left - block.num_rows)
            if left == 0:
                return


class BlockAccessor:
    """Stands in for `ray.data.block.BlockAccessor`. Where Ray would have a pandas DataFrame, a block is a dictionary."""

    def __init__(self, block: Any) -> None:
        self.block = block

    @classmethod
    def for_block(cls, block: Any) -> "BlockAccessor":
        return cls(block)

    def to_arrow(self) -> pa.Table:
        table: pa.Table = self.block if isinstance(self.block, pa.Table) else pa.table(self.block)
        return table


class Tensors(pa.ExtensionType):
    """Stands in for `ArrowTensorTypeV2`, with the same name and storage."""

    def __init__(self, shape: tuple[int, ...], dtype: pa.DataType) -> None:
        self.shape = shape
        super().__init__(pa.large_list(dtype), "ray.data.arrow_tensor_v2")

    def __arrow_ext_serialize__(self) -> bytes:
        return json.dumps(self.shape).encode()

    @classmethod
    def __arrow_ext_deserialize__(cls, storage_type: Any, serialized: bytes) -> "Tensors":
        return cls(tuple(json.loads(serialized)), storage_type.value_type)


class RaggedTensors(pa.ExtensionType):
    """Stands in for `ArrowVariableShapedTensorType`."""

    def __init__(self, dtype: pa.DataType, ndim: int) -> None:
        self.ndim = ndim
        super().__init__(
            pa.struct([("data", pa.large_list(dtype)), ("shape", pa.list_(pa.int64()))]), "ray.data.arrow_variable_shaped_tensor"
        )

    def __arrow_ext_serialize__(self) -> bytes:
        return json.dumps(self.ndim).encode()

    @classmethod
    def __arrow_ext_deserialize__(cls, storage_type: Any, serialized: bytes) -> "RaggedTensors":
        return cls(storage_type.field("data").type.value_type, json.loads(serialized))


class Objects(pa.ExtensionType):
    """Stands in for `ArrowPythonObjectType`."""

    def __init__(self) -> None:
        super().__init__(pa.large_binary(), "ray.data.arrow_pickled_object")

    def __arrow_ext_serialize__(self) -> bytes:
        return b""

    @classmethod
    def __arrow_ext_deserialize__(cls, storage_type: Any, serialized: bytes) -> "Objects":
        return cls()


class ArrowTensorArray:
    """Stands in for `ray.data.extensions.tensor_extension.ArrowTensorArray`."""

    @staticmethod
    def from_numpy(array: Any) -> Any:
        kind = Tensors(tuple(array.shape[1:]), pa.from_numpy_dtype(array.dtype))
        return tensors(kind, [row.reshape(-1).tolist() for row in array])


def tensors(kind: Tensors, rows: Sequence[Any]) -> Any:
    """Return a column of Ray's tensors."""
    return _any.ExtensionArray.from_storage(kind, pa.array(rows, kind.storage_type))


def modules() -> dict[str, ModuleType]:
    """Return the modules of the fake Ray, by name."""
    contents: dict[str, dict[str, Any]] = {
        "ray": {},
        "ray.data": {"DataContext": DataContext, "Datasink": Datasink, "Datasource": Datasource, "ReadTask": ReadTask},
        "ray.data.block": {"BlockAccessor": BlockAccessor, "BlockMetadata": BlockMetadata},
        "ray.data.extensions": {},
        "ray.data.extensions.tensor_extension": {"ArrowTensorArray": ArrowTensorArray},
    }
    made = {}
    for name, content in contents.items():
        made[name] = ModuleType(name)
        made[name].__dict__.update(content)
    return made


# --- what Ray's driver and tasks do ---------------------------------------------------------------------------------


@dataclass
class TaskContext:
    """Stands in for Ray's `TaskContext`."""

    task_idx: int
    op_name: str = "Write"
    kwargs: dict[str, Any] = field(default_factory=dict)


@dataclass
class WriteResult:
    """Stands in for `ray.data.datasource.WriteResult`."""

    num_rows: Any
    size_bytes: int
    write_returns: list[Any]


Attempts = Callable[[Callable[[Iterable[Any]], Any], list[Any]], Any]
"""A function that runs the attempts of a task. For each attempt, it calls its first argument, which writes blocks. It returns the result
of the last attempt."""


def once(write: Callable[[Iterable[Any]], Any], blocks: list[Any]) -> Any:
    """Run a single attempt."""
    return write(iter(blocks))


def write_datasink(sink: Any, tasks: Sequence[list[Any]], *, attempts: Attempts = once, numbers: Sequence[int] | None = None) -> None:
    """Do what `ds.write_datasink` does for a Dataset whose tasks have these blocks. Like Ray, give each task a pickled copy of the sink.

    `numbers` are the tasks' numbers. As in Ray, some numbers may be missing.
    """
    try:
        returns: list[Any] = []
        for number, blocks in zip(numbers or range(len(tasks)), tasks, strict=True):
            if not returns:
                sink.on_write_start(pa.schema([("bytes", pa.binary())]))  # Ray passes the input columns of a fused operator
            task: Any = pickle.loads(pickle.dumps(sink))  # noqa: S301 - it was pickled just now
            written = attempts(lambda each, task=task, number=number: task.write(each, TaskContext(number)), blocks)  # type: ignore[misc]  # mypy infers no type for such defaults
            returns.append(pickle.loads(pickle.dumps(written)))  # noqa: S301 - see above
        rows = sum(BlockAccessor.for_block(block).to_arrow().num_rows for blocks in tasks for block in blocks)
        sink.on_write_complete(WriteResult(np.int64(rows), 0, returns))
    except Exception as exc:
        sink.on_write_failed(exc)
        raise
