"""Plays the small part of Ray Data that `dataprep_ray` needs: its classes, and the calls of its driver and of its tasks."""

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
    """Plays `ray.data.Datasource`."""


class Datasink:
    """Plays `ray.data.Datasink`."""


class DataContext:
    """Plays `ray.data.DataContext`."""

    max_errored_blocks = 0

    @classmethod
    def get_current(cls) -> type["DataContext"]:
        return cls


@dataclass
class BlockMetadata:
    """Plays `ray.data.block.BlockMetadata`."""

    num_rows: int | None
    size_bytes: int | None
    exec_stats: Any
    input_files: list[str] | None


@dataclass
class ReadTask:
    """Plays `ray.data.ReadTask`."""

    read_fn: Callable[[], Iterable[pa.Table]]
    metadata: BlockMetadata
    schema: pa.Schema | None = None
    per_task_row_limit: int | None = None

    def __call__(self) -> Iterator[pa.Table]:
        """Yield the blocks, of which only as many rows are read as the limit allows."""
        left = self.per_task_row_limit
        for block in self.read_fn():
            yield block if left is None else block.slice(0, left)
            left = None if left is None else max(0, left - block.num_rows)
            if left == 0:
                return


class BlockAccessor:
    """Plays `ray.data.block.BlockAccessor`. A block that isn't an Arrow table is a dictionary, instead of a DataFrame of pandas."""

    def __init__(self, block: Any) -> None:
        self.block = block

    @classmethod
    def for_block(cls, block: Any) -> "BlockAccessor":
        return cls(block)

    def to_arrow(self) -> pa.Table:
        table: pa.Table = self.block if isinstance(self.block, pa.Table) else pa.table(self.block)
        return table


class Tensors(pa.ExtensionType):
    """Plays `ArrowTensorTypeV2`, whose name and storage it has."""

    def __init__(self, shape: tuple[int, ...], dtype: pa.DataType) -> None:
        self.shape = shape
        super().__init__(pa.large_list(dtype), "ray.data.arrow_tensor_v2")

    def __arrow_ext_serialize__(self) -> bytes:
        return json.dumps(self.shape).encode()

    @classmethod
    def __arrow_ext_deserialize__(cls, storage_type: Any, serialized: bytes) -> "Tensors":
        return cls(tuple(json.loads(serialized)), storage_type.value_type)


class RaggedTensors(pa.ExtensionType):
    """Plays `ArrowVariableShapedTensorType`."""

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
    """Plays `ArrowPythonObjectType`."""

    def __init__(self) -> None:
        super().__init__(pa.large_binary(), "ray.data.arrow_pickled_object")

    def __arrow_ext_serialize__(self) -> bytes:
        return b""

    @classmethod
    def __arrow_ext_deserialize__(cls, storage_type: Any, serialized: bytes) -> "Objects":
        return cls()


class ArrowTensorArray:
    """Plays `ray.data.extensions.tensor_extension.ArrowTensorArray`."""

    @staticmethod
    def from_numpy(array: Any) -> Any:
        kind = Tensors(tuple(array.shape[1:]), pa.from_numpy_dtype(array.dtype))
        return tensors(kind, [row.reshape(-1).tolist() for row in array])


def tensors(kind: Tensors, rows: Sequence[Any]) -> Any:
    """Return a column of Ray's tensors."""
    return _any.ExtensionArray.from_storage(kind, pa.array(rows, kind.storage_type))


def modules() -> dict[str, ModuleType]:
    """Return the modules of the played Ray, by name."""
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
    """Plays Ray's `TaskContext`."""

    task_idx: int
    op_name: str = "Write"
    kwargs: dict[str, Any] = field(default_factory=dict)


@dataclass
class WriteResult:
    """Plays `ray.data.datasource.WriteResult`."""

    num_rows: Any
    size_bytes: int
    write_returns: list[Any]


Attempts = Callable[[Callable[[Iterable[Any]], Any], list[Any]], Any]
"""Calls the first argument, which writes blocks, for each attempt of a task. Returns what the last attempt has returned."""


def once(write: Callable[[Iterable[Any]], Any], blocks: list[Any]) -> Any:
    """Run a single attempt."""
    return write(iter(blocks))


def write_datasink(sink: Any, tasks: Sequence[list[Any]], *, attempts: Attempts = once, numbers: Sequence[int] | None = None) -> None:
    """Play `ds.write_datasink` for a Dataset whose blocks are divided among tasks like this. Like Ray, pass the tasks a pickle of the sink.

    `numbers` are the tasks' numbers, which may have gaps in Ray.
    """
    try:
        returns: list[Any] = []
        for number, blocks in zip(numbers or range(len(tasks)), tasks, strict=True):
            if not returns:
                sink.on_write_start(pa.schema([("bytes", pa.binary())]))  # the columns of the input of a fused operator
            task: Any = pickle.loads(pickle.dumps(sink))  # noqa: S301 - it was pickled just now
            written = attempts(lambda each, task=task, number=number: task.write(each, TaskContext(number)), blocks)  # type: ignore[misc]  # mypy infers no type for such defaults
            returns.append(pickle.loads(pickle.dumps(written)))  # noqa: S301 - see above
        rows = sum(BlockAccessor.for_block(block).to_arrow().num_rows for blocks in tasks for block in blocks)
        sink.on_write_complete(WriteResult(np.int64(rows), 0, returns))
    except Exception as exc:
        sink.on_write_failed(exc)
        raise
