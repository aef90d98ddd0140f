"""Notes that `infer` writes about the first records: the columns' types and values, and likely mistakes.

The functions are pure, and see only the first records.
"""

import re
from collections.abc import Iterator, Sequence
from typing import Any, Final

import pyarrow as pa

from dataprep_converter.core.tensors import is_tensor, pc, shape_of, to_numpy, value_type
from dataprep_converter.formats.nested.descriptions import nested_type

MOST_CLASSES: Final = 100
_ENOUGH: Final = 20
"""If there are fewer records than this, values that are all equal or all different don't indicate a mistake."""
_MOST_SHOWN: Final = 3
_ID: Final = re.compile(r"(?i:(.*[_ -])?(id|uuid|guid|index|key|rowid)|unnamed.*)|.*[a-z](Id|ID)")


def type_text(kind: pa.DataType) -> str:
    """Returns a column's type as text for a comment."""
    return f"{value_type(kind)}{list(shape_of(kind))}" if is_tensor(kind) else str(kind)


def note_on(name: str, kind: pa.DataType, records: pa.RecordBatch | None) -> str:
    """Returns a column's type and, if its values are plain, the number of empty cells, the number of distinct values, and examples."""
    nested = _nested_type(records, name)
    if nested is not None:
        return f"column {name}: {nested}, which parquet, arrow and jsonl keep, and other formats write as JSON"
    note = f"column {name}: {type_text(kind)}"
    values = _plain_values(records, name)
    if values is None or not len(values) or pa.types.is_binary(kind):
        return note
    filled = _filled(values)
    empty = len(values) - len(filled)
    distinct = pc.unique(filled)
    shown = distinct.slice(0, _MOST_SHOWN)
    # Python's floats would show digits that a float32 doesn't keep.
    examples = ", ".join(map(short_value, to_numpy(shown) if kind == pa.float32() else shown.to_pylist()))
    parts = [note, f"{empty:,} of {len(values):,} empty"] if empty else [note]
    return ", ".join(
        [*parts, f"{len(distinct):,} different value{'s' * (len(distinct) != 1)}, such as {examples}" if examples else "no value"]
    )


def class_values(records: pa.RecordBatch | None, column: str) -> list[str]:
    """Returns the distinct values in the first records if they are few enough to be classes, otherwise an empty list."""
    values = _plain_values(records, column)
    if values is None:
        return []
    distinct = pc.unique(values.drop_null()).to_pylist()
    return [short_value(value) for value in sorted(distinct, key=str)] if 1 < len(distinct) <= MOST_CLASSES else []


def likely_mistakes(records: pa.RecordBatch, columns: Sequence[str], *, label: str | None) -> Iterator[str]:
    """Yields a warning for each column that is probably a mistake: a constant, a row number, a copy of the label, or a label with too many
    classes."""
    if records.num_rows < _ENOUGH:
        return
    count = f"the first {records.num_rows:,} records"
    label_values = _plain_values(records, label) if label is not None else None
    for name in columns:
        values = _plain_values(records, name)
        if values is None:
            continue
        distinct = len(pc.unique(values))
        if distinct == 1:
            yield f"column {name} has the same value in {count}, so it carries no information"
        elif name == label:
            if distinct > MOST_CLASSES and not pa.types.is_floating(values.type):
                yield f"the label {name} has {distinct:,} different values in {count}: is it a class?"
        elif _is_id(name, values, distinct):
            yield f"column {name} has a different value in each of {count}, like a row number or a key: drop it if it isn't a feature"
        elif label_values is not None and _tells_the_same(values, label_values, distinct):
            yield f"column {name} and the label {label} determine each other in {count}: drop the column if it is made from the label"


def short_value(value: object) -> str:
    """Returns a value for a comment, shortened if it is long."""
    return (value.decode("utf-8", "replace") if isinstance(value, bytes) else str(value))[:40]


def _nested_type(records: pa.RecordBatch | None, name: str) -> pa.DataType | None:
    return None if records is None else nested_type(records.schema.field(name))


def _plain_values(records: pa.RecordBatch | None, name: str) -> Any:
    """Returns a column's values, or None if they are tensors, lists or structs, or if there are no records."""
    if (
        records is None
        or _nested_type(records, name) is not None
        or is_tensor(records.schema.field(name).type)
        or pa.types.is_nested(records.schema.field(name).type)
    ):
        return None
    return records.column(name)


def _filled(values: Any) -> Any:
    filled = values.drop_null()
    return filled.filter(pc.not_equal(filled, "")) if pa.types.is_string(filled.type) else filled


def _is_id(name: str, values: Any, distinct: int) -> bool:
    """Whether a column looks like a key: no value repeats, and either its values count up or its name is like `user_id`."""
    if distinct < len(values) or values.null_count or not (pa.types.is_integer(values.type) or pa.types.is_string(values.type)):
        return False
    if _ID.fullmatch(name):
        return True
    if not pa.types.is_integer(values.type):
        return False
    numbers: list[int] = values.to_pylist()
    return numbers == list(range(numbers[0], numbers[0] + len(numbers)))


def _tells_the_same(values: Any, labels: Any, distinct: int) -> bool:
    if not 1 < distinct <= MOST_CLASSES or len(pc.unique(labels)) != distinct:
        return False
    return len(set(zip(values.to_pylist(), labels.to_pylist(), strict=True))) == distinct
