"""Convert columns to and from the form in which Hugging Face's `datasets` recognises images and class labels in Parquet files.

    image          struct<bytes: binary, path: string>        the path is null, because `bytes` is the complete file
    class label    int64
    tensor         nested fixed_size_lists, because `datasets` supports only its own extension types
    metadata       `huggingface`: {"info": {"features": {NAME: {"_type": "Image"} | {"names": [...], "_type": "ClassLabel"}}}}

`datasets` takes a feature from the metadata if the feature's type matches the column, and derives all other features from the columns.
Source: datasets, features/features.py (Features.from_arrow_schema) and features/image.py.
"""

import json
import math
from collections.abc import Collection, Mapping, Sequence
from typing import Any, Final

import numpy as np
import pyarrow as pa

from dataprep_api.spec.formats.parquet import HuggingFace
from dataprep_converter.core.errors import BadSpec
from dataprep_converter.core.tensors import Array, is_tensor, pc, shape_of, to_arrow, value_type
from dataprep_converter.records.feature import FeatureSpec

IMAGE: Final = pa.struct([("bytes", pa.binary()), ("path", pa.string())])
_USUAL: Final = ("image", "image/encoded")
_KEY: Final = b"huggingface"
_arrow: Any = pa  # the type stubs don't cover types and arrays that are known only at run time


def images(features: Sequence[FeatureSpec], options: HuggingFace) -> frozenset[str]:
    """Return the features that are images: those that the options name, or else those with a usual name.

    Raises BadSpec if a named feature doesn't hold bytes.
    """
    able = {feature.name for feature in features if feature.dtype == "bytes" and not feature.shape and not feature.text}
    for name in options.images or []:
        if name not in able:
            names = ", ".join(sorted(able)) or "none"
            raise BadSpec(f"output.parquet.huggingFace.images: {name!r} isn't a feature of bytes; the features of bytes are {names}.")
    return frozenset(options.images if options.images is not None else able.intersection(_USUAL))


def hugging_face_schema(schema: pa.Schema, pictures: Collection[str]) -> pa.Schema:
    """Return the schema of the columns in the form that `datasets` reads."""
    return pa.schema([(field.name, IMAGE if field.name in pictures else _plain(field.type)) for field in schema])


def metadata(schema: pa.Schema, pictures: Collection[str], classes: Mapping[str, Sequence[str]]) -> dict[bytes, bytes]:
    """Return the file's metadata: which columns are images, and the class names of integer columns."""
    described: dict[str, Any] = {}
    for field in schema:
        if field.name in pictures:
            described[field.name] = {"_type": "Image"}
        elif field.name in classes and field.type == pa.int64():
            described[field.name] = {"names": list(classes[field.name]), "_type": "ClassLabel"}
    return {_KEY: json.dumps({"info": {"features": described}}, ensure_ascii=False).encode()}


def wrapped(records: pa.RecordBatch, schema: pa.Schema) -> pa.RecordBatch:
    """Convert the columns to the types of the schema that `hugging_face_schema` returns."""
    columns = [_wrap_column(records.column(field.name), field.type) for field in schema]
    return pa.RecordBatch.from_arrays(columns, schema=schema)


def unwrapped(column: Array, kind: pa.DataType) -> Array:
    """Convert a column back to type `kind`. A column that was never converted is returned unchanged."""
    if column.type == IMAGE and kind != IMAGE:
        image_bytes: Array = pc.struct_field(column, "bytes")
        return image_bytes
    if is_tensor(kind) and not is_tensor(column.type):
        return _tensors(column, kind)
    return column


def _plain(kind: pa.DataType) -> pa.DataType:
    if not is_tensor(kind):
        return kind
    plain = value_type(kind)
    for size in reversed(shape_of(kind)):
        plain = _arrow.list_(plain, size)
    return plain


def _wrap_column(column: Array, kind: pa.DataType) -> Array:
    missing = column.is_null() if column.null_count else None
    if column.type == kind:
        return column
    if kind == IMAGE:
        parts = [column, pa.nulls(len(column), pa.string())]
        pictures: Array = _arrow.StructArray.from_arrays(parts, fields=list(_arrow.struct(IMAGE)), mask=missing)
        return pictures
    if is_tensor(column.type):
        tensors: Any = column
        shape = shape_of(column.type)
        nested: Array = tensors.storage.take(to_arrow(np.arange(len(column)))).values
        for depth in range(len(shape) - 1, 0, -1):
            nested = _arrow.FixedSizeListArray.from_arrays(nested, shape[depth])
        lists: Array = _arrow.FixedSizeListArray.from_arrays(nested, shape[0], mask=missing)
        return lists
    return column


def _tensors(column: Array, kind: Any) -> Array:
    """Convert nested lists to tensors. Values masked by a null are arbitrary."""
    values: Any = column.take(to_arrow(np.arange(len(column))))
    missing = column.is_null() if column.null_count else None
    while pa.types.is_fixed_size_list(values.type):
        values = values.values
    lists = _arrow.FixedSizeListArray.from_arrays(values, math.prod(shape_of(kind)), mask=missing)
    tensors: Array = _arrow.ExtensionArray.from_storage(kind, lists.cast(kind.storage_type))
    return tensors
