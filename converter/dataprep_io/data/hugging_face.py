"""Reads the rows of Hugging Face data sets, with the values that training needs: the bytes of files, and tensors of a known shape."""

from collections.abc import Iterator, Mapping
from typing import Any, Final

import numpy as np
import pyarrow as pa

from dataprep_converter.core.errors import BadData
from dataprep_converter.core.tensors import null_mask, pc

BATCH_RECORDS: Final = 1024
"""The number of records that are requested at a time."""
_TENSORS: Final = ("Array2D", "Array3D", "Array4D", "Array5D")
_arrow: Any = pa  # the stubs lack tensors


# Any, because the library's classes are recognised by name and never imported.
def rows_without_features(data: Any) -> Iterator[Any] | None:
    """Returns the rows of a data set whose columns aren't known before the rows are read. Returns None for other data sets.

    The columns are unknown after `map`, or if the user has set a transform.
    """
    has_transform = (getattr(data, "format", None) or {}).get("type") == "custom"
    return iter(data) if has_transform or data.features is None else None


def tables_of(data: Any) -> Iterator[pa.Table]:
    """Yields the rows of a data set as tables, with the columns that the data set's format selects."""
    chosen = getattr(data, "format", None)
    arrow = data.with_format("arrow") if chosen is None else data.with_format("arrow", columns=chosen["columns"])
    for table in arrow.iter(batch_size=BATCH_RECORDS):
        yield _converted(table, data.features)


def class_names(data: Any) -> dict[str, tuple[str, ...]]:
    """Returns the names of the classes of each column that is a ClassLabel."""
    chosen = (getattr(data, "format", None) or {}).get("columns")
    return {
        name: tuple(feature.names)
        for name, feature in data.features.items()
        if type(feature).__name__ == "ClassLabel" and (chosen is None or name in chosen)
    }


def _converted(table: Any, features: Mapping[str, Any]) -> Any:
    for place, name in enumerate(table.column_names):
        column = table.column(name)
        feature: Any = features.get(name)
        if hasattr(feature, "embed_storage") and pa.types.is_struct(column.type):
            table = table.set_column(place, name, _contents(column.combine_chunks(), name, feature))
        elif type(feature).__name__ in _TENSORS:
            table = table.set_column(place, name, _tensors(column.combine_chunks(), feature.shape))
    return table


def _contents(values: Any, name: str, feature: Any) -> Any:
    """Returns the contents of files, such as image files. Raises BadData for a file that can't be read."""
    contents = pc.struct_field(values, "bytes")  # unlike values.field("bytes"), this is null where the file is null
    if contents.null_count > values.null_count:
        try:
            contents = pc.struct_field(feature.embed_storage(values), "bytes")
        except OSError as exc:
            raise BadData(f"The column {name!r} has the path of a file that can't be read: {exc}.") from exc
    if contents.null_count > values.null_count:
        raise BadData(f"The column {name!r} has paths of files instead of their contents, and the files can't be found.")
    return contents


def _tensors(values: Any, shape: tuple[int | None, ...]) -> Any:
    """Returns tensors, if their shape is known. Otherwise, returns nested lists."""
    lists = values.storage if isinstance(values, pa.ExtensionArray) else values
    sizes = [size for size in shape if size is not None]
    if len(sizes) < len(shape):
        return lists
    flat = lists
    for _ in shape:
        flat = flat.flatten()
    rows: Any = _arrow.FixedSizeListArray.from_arrays(flat, int(np.prod(sizes)))
    if lists.null_count:
        is_null = null_mask(lists)
        rows = rows.take(pa.array(np.cumsum(~is_null) - 1, mask=is_null))
    return _arrow.ExtensionArray.from_storage(_arrow.fixed_shape_tensor(flat.type, sizes), rows)
