"""Plug-ins: finds the user's functions by name, and turns their results into Arrow columns."""

import atexit
import hashlib
import importlib.util
import os
import shutil
import sys
import tempfile
import traceback
from collections.abc import Callable, Mapping, Sequence
from importlib import import_module, metadata
from pathlib import Path
from typing import Any, Final

import numpy as np
import pyarrow as pa

from dataprep_api.spec.code import MadeColumn
from dataprep_converter.core.errors import BadSample, BadSpec
from dataprep_converter.core.tensors import NUMPY_NAMES, Array, arrow_type, shape_of, to_arrow, value_type
from dataprep_converter.runtime import without_pandas

ENTRY_POINTS: Final = "dataprep.plugins"
CODE_VARIABLE: Final = "DATAPREP_CODE"
"""The environment variable with the folder of `spec.code`. The variable is set in pods and by `provide`."""

COMMIT_VARIABLE: Final = "DATAPREP_CODE_COMMIT_FILE"
"""The environment variable with the path of a file in the fetched code's top folder. The file contains the commit of `spec.code.git`."""

_TYPES: Final[Mapping[str, pa.DataType]] = {
    "Int64": pa.int64(), "Float32": pa.float32(), "Float64": pa.float64(), "String": pa.string(), "Bytes": pa.large_binary(),
    "Bool": pa.bool_(), "UInt8": pa.uint8(),
}  # fmt: skip


def new_folder() -> Path:
    """Makes a folder for code. The folder is removed when this process exits."""
    folder = Path(tempfile.mkdtemp(prefix="dataprep-code-"))
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    return folder


def provide(files: Mapping[str, str]) -> None:
    """Makes a ConfigMap's modules importable in this process and its children."""
    folder = new_folder()
    for name, text in files.items():
        (folder / Path(name).name).write_text(text, encoding="utf-8")
    os.environ[CODE_VARIABLE] = str(folder)
    os.environ.pop(COMMIT_VARIABLE, None)


def commit() -> str | None:
    """Returns the commit that `spec.code.git` was resolved to, or None for other code."""
    file = os.environ.get(COMMIT_VARIABLE)
    return Path(file).read_text(encoding="ascii").strip() if file else None


def digest() -> str | None:
    """Returns a text that identifies `spec.code`: a SHA-256 of its files' names and contents or, for code from Git, a commit and a folder.

    Returns None if there is no code.
    """
    folder = os.environ.get(CODE_VARIABLE)
    if not folder:
        return None
    fetched = commit()
    if fetched is not None:
        return f"{fetched}:{Path(folder).relative_to(Path(os.environ[COMMIT_VARIABLE]).parent).as_posix()}"
    hasher = hashlib.sha256()
    # A mounted ConfigMap also contains links and folders whose names begin with two dots.
    for file in sorted(file for file in Path(folder).iterdir() if file.is_file() and not file.name.startswith(".")):
        hasher.update(f"{hashlib.sha256(file.read_bytes()).hexdigest()}  {file.name}\n".encode())
    return hasher.hexdigest()


def load(reference: str, *, of: str) -> Callable[..., Any]:
    """Returns the function for `module:function` or for the name of an entry point.

    If there is no such function, raises BadSpec naming it.
    """
    module, colon, name = reference.partition(":")
    if not colon:
        points = [point for point in metadata.entry_points(group=ENTRY_POINTS) if point.name == reference]
        if not points:
            point_names = ", ".join(sorted(point.name for point in metadata.entry_points(group=ENTRY_POINTS))) or "none"
            raise BadSpec(f"{of}: there is no plug-in {reference!r} among the entry points of {ENTRY_POINTS} (they are: {point_names}).")
        module, _, name = points[0].value.partition(":")
    try:
        value: Any = _module(module)
        for part in name.split("."):
            value = getattr(value, part)
    except Exception as exc:  # importing the user's module may raise any error
        advice = "; is its code in the image or in spec.code?" if isinstance(exc, ModuleNotFoundError) else ""
        raise BadSpec(f"{of}: the plug-in {reference!r} can't be imported: {describe(exc)}{advice}") from exc
    if not callable(value):
        raise BadSpec(f"{of}: the plug-in {reference!r} is not a function, but of type {type(value).__name__}.")
    function: Callable[..., Any] = value
    return function


def _module(name: str) -> Any:
    """Returns a module of `spec.code`, or an installed module if `spec.code` has none with this name."""
    without_pandas.show()
    folder = os.environ.get(CODE_VARIABLE, "")
    file = Path(folder, f"{name}.py")
    if not folder or not file.is_file():
        return import_module(name)
    if folder not in sys.path:
        sys.path.append(folder)  # for imports in the user's modules; added last, so that these modules can't shadow ours
    loaded = sys.modules.get(name)
    if loaded is not None and getattr(loaded, "__file__", None) == str(file):
        return loaded
    spec = importlib.util.spec_from_file_location(name, file)
    if spec is None or spec.loader is None:
        raise ImportError(f"{file} isn't a module")
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    spec.loader.exec_module(module)
    return module


def describe(exc: BaseException, function: Callable[..., Any] | None = None) -> str:
    """Describes an exception in one line, with the file, the line and the function of the user's code that raised it.

    If `function` can't be called with the given arguments, no line of the user's code has run. The description then says where `function`
    is defined.
    """
    frames = traceback.extract_tb(exc.__traceback__)
    own = [frame for frame in frames if "dataprep_converter" not in Path(frame.filename).parts and "importlib" not in frame.filename]
    code = getattr(function, "__code__", None)
    if isinstance(exc, SyntaxError) and exc.filename:
        place = f" ({Path(exc.filename).name}, line {exc.lineno})"
    elif own:
        place = f" ({Path(own[-1].filename).name}, line {own[-1].lineno}, in {own[-1].name})"
    else:
        place = f" ({Path(code.co_filename).name}, line {code.co_firstlineno}, in {code.co_name})" if code is not None else ""
    return f"{traceback.format_exception_only(exc)[-1].strip()}{place}"


def schema_of(columns: Sequence[MadeColumn]) -> pa.Schema:
    """Returns the schema of the declared columns. Raises BadSpec for a ragged column with a shape, and for tensors of text or bytes."""
    fields: list[pa.Field[Any]] = []
    for column in columns:
        kind = _TYPES[column.type]
        if column.shape is not None:
            if column.ragged or column.type in ("String", "Bytes"):
                raise BadSpec(f"The column {column.name!r}: shape is only for numbers, and can't be combined with ragged.")
            kind = arrow_type(NUMPY_NAMES[kind], tuple(column.shape))
        fields.append(pa.field(column.name, pa.list_(kind) if column.ragged else kind))
    return pa.schema(fields)


def table(records: Sequence[Mapping[str, Any]], schema: pa.Schema | None) -> pa.RecordBatch:
    """Returns the records as columns of `schema`. Without a schema, the values of the first record determine the types.

    Raises BadSample, which names the column and the record.
    """
    if not records and schema is not None:
        return pa.RecordBatch.from_pylist([], schema=schema)
    first: Any = records[0]
    names = schema.names if schema is not None else list(first) if isinstance(first, Mapping) else []
    for number, record in enumerate(records):
        if not isinstance(record, Mapping):
            raise BadSample(f"record {number} is no dict but {type(record).__name__}")
        odd = sorted(set(names) ^ set(record))
        if odd:
            raise BadSample(f"record {number} has the keys {', '.join(map(str, record))}; expected {', '.join(names)}")
    columns = [
        _column([record[name] for record in records], name, schema.field(name).type if schema is not None else None) for name in names
    ]
    batch = pa.RecordBatch.from_arrays(columns, names=names)
    return batch if schema is None else pa.RecordBatch.from_arrays(batch.columns, schema=schema)


def _column(values: list[Any], name: str, kind: pa.DataType | None) -> Array:
    if kind is None:
        kind = _infer_type(values[0], name)
    shape = shape_of(kind)
    try:
        if shape:
            dtype = np.dtype(value_type(kind).to_pandas_dtype())
            for number, value in enumerate(values):
                if value is None:
                    raise BadSample(f"record {number}: {name} is None; expected {dtype.name}{list(shape)}")
                array = np.asarray(value)
                if array.shape != shape or not np.can_cast(array.dtype, dtype, "same_kind"):
                    raise BadSample(f"record {number}: {name} is {array.dtype.name}{list(array.shape)}; expected {dtype.name}{list(shape)}")
            return to_arrow(np.stack([np.asarray(value, dtype) for value in values]))
        column: Array = pa.array(values, kind)
    except (pa.ArrowInvalid, pa.ArrowTypeError, OverflowError, TypeError, ValueError) as exc:
        raise BadSample(f"{name}: {str(exc).splitlines()[0]}; expected {kind}") from exc
    return column


def _infer_type(value: Any, name: str) -> pa.DataType:
    if isinstance(value, np.ndarray) and value.ndim:
        return arrow_type(value.dtype.name, value.shape)
    if isinstance(value, bytes | bytearray | memoryview):
        return pa.large_binary()
    try:
        kind: pa.DataType = pa.array([value]).type
    except (pa.ArrowInvalid, pa.ArrowTypeError) as exc:
        raise BadSample(f"{name} is {type(value).__name__}, which records can't contain") from exc
    if pa.types.is_null(kind) or (pa.types.is_list(kind) and pa.types.is_null(kind.value_type)):
        raise BadSample(f"{name} is {value!r} in the first record, which shows no type; declare it in columns")
    return kind


def rows_of(records: pa.RecordBatch) -> list[dict[str, Any]]:
    """Returns the records as dicts. Tensors are numpy arrays, nulls are None, and all other values are plain Python values."""
    columns: list[Any] = []
    for column in records.columns:
        shaped: Any = column
        columns.append(_tensors(shaped) if shape_of(column.type) else column.to_pylist())
    names = records.schema.names
    return [dict(zip(names, values, strict=True)) for values in zip(*columns, strict=True)] if columns else []


def _tensors(column: Any) -> list[Any]:
    if not column.null_count:
        return list(column.to_numpy_ndarray())
    valid = iter(column.drop_null().to_numpy_ndarray())
    return [next(valid) if is_there else None for is_there in column.is_valid().to_pylist()]
