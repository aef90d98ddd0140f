"""The types of the columns that Ray Data gets.

Ray gets the types in the files, with three exceptions. Extension types are replaced by their storage types, dictionaries by their value
types, and tensors by Ray's own tensors.
"""

from typing import Any, Final

import pyarrow as pa

from dataprep_converter.core.arrow_types import without_dictionary
from dataprep_converter.dataset.frame_rows import RAY
from dataprep_frames.reading import Types


def ray_type(kind: Any, column: str) -> pa.DataType:
    """Returns the type that Ray gets for a column of this type."""
    del column
    if isinstance(kind, pa.FixedShapeTensorType):
        return kind
    if isinstance(kind, pa.BaseExtensionType):
        return kind.storage_type
    return without_dictionary(kind)


def as_ray_type(column: Any, kind: Any) -> Any:
    """Returns the column, converted to a type that `ray_type` has returned."""
    if column.type.equals(kind):
        return column
    if isinstance(column.type, pa.BaseExtensionType) and not isinstance(kind, pa.BaseExtensionType):
        # Never pass on an extension type from a file: some of Ray's extension types run code when their values are read.
        column = column.storage
    return column.cast(kind)


TYPES: Final = Types(RAY, ray_type, as_ray_type)
