"""Columns of nested values: structs, lists and maps of any depth, with nulls at every depth."""

from typing import Any

import pyarrow as pa
from hypothesis import strategies as st

from dataprep_converter.core.tensors import Array

_arrow: Any = pa  # the type stubs lack some functions

_SINGLE = {
    pa.int8(): st.integers(-128, 127),
    pa.int64(): st.integers(-(2**63), 2**63 - 1),
    pa.float32(): st.floats(width=32),
    pa.float64(): st.floats(),
    pa.string(): st.text(),
    pa.binary(): st.binary(),
    pa.bool_(): st.booleans(),
    pa.timestamp("us", tz="UTC"): st.integers(-(10**16), 10**16),
    pa.decimal128(9, 2): st.decimals(-(10**6), 10**6, places=2),
}
_TYPES = st.recursive(
    st.sampled_from(list(_SINGLE)),
    lambda inner: st.one_of(
        inner.map(pa.list_),
        inner.map(lambda kind: _arrow.list_(kind, 2)),
        inner.map(lambda kind: pa.map_(pa.string(), kind)),
        st.dictionaries(st.sampled_from(["a", "b", "é", 'q"']), inner, min_size=1, max_size=3).map(
            lambda fields: _arrow.struct(list(fields.items()))
        ),
    ),
    max_leaves=4,
)


def _values_of(kind: Any) -> Any:
    """A strategy for nullable values of a type."""
    if pa.types.is_struct(kind):
        values: Any = st.fixed_dictionaries({field.name: _values_of(field.type) for field in kind})
    elif pa.types.is_map(kind):
        values = st.dictionaries(st.text(max_size=3), _values_of(kind.item_type), max_size=3).map(lambda pairs: list(pairs.items()))
    elif pa.types.is_fixed_size_list(kind):
        values = st.lists(_values_of(kind.value_type), min_size=2, max_size=2)
    elif pa.types.is_list(kind):
        values = st.lists(_values_of(kind.value_type), max_size=3)
    else:
        values = _SINGLE[kind]
    return st.none() | values


@st.composite
def nested_columns(draw: Any, *, least: int = 0, nullable: bool = True) -> Array:
    """A strategy for columns of structs or of lists of structs. A field can have any type. A row can be null only if `nullable`."""
    inner = draw(_TYPES)
    struct = _arrow.struct([("x", inner), ("y", pa.int8())])
    kind = draw(st.sampled_from([struct, pa.list_(struct)]))
    values = _values_of(kind) if nullable else _values_of(kind).filter(lambda value: value is not None)
    column: Array = _arrow.array(draw(st.lists(values, min_size=least, max_size=4)), kind)
    return column
