"""The `extra` of an image's unit.

For a bad image, the extra contains the reason. For a good image, the extra is the label. If the list of images has other columns, the extra
is instead a JSON list of the label and one value for each column.
"""

import json
from collections.abc import Mapping, Sequence
from typing import Any, Final

import pyarrow as pa

from dataprep_converter.core.arrow_types import is_text
from dataprep_converter.core.lists import is_list, item_type
from dataprep_converter.core.tensors import Array

_BAD: Final = "\n/bad: "
"""The prefix of a bad image's extra.

No label begins with this prefix: labels from lists are stripped, and folder and file names contain no `/`.
"""

_arrow: Any = pa  # the type stubs don't allow arrays of arbitrary Python values


def bad_extra(reason: str) -> str:
    """The extra of an image that the planner found to be bad."""
    return _BAD + reason


def reason_of(extra: str) -> str | None:
    """The reason why the planner found the image to be bad, or None if it is good."""
    return extra.removeprefix(_BAD) if extra.startswith(_BAD) else None


def is_plain(kind: pa.DataType) -> bool:
    """Whether JSON can hold the values of a type: text, numbers, booleans, and lists and structs of these."""
    if pa.types.is_struct(kind):
        return all(is_plain(kind.field(place).type) for place in range(kind.num_fields))
    if is_list(kind):
        return is_plain(item_type(kind))
    is_number = pa.types.is_integer(kind) or pa.types.is_float32(kind) or pa.types.is_float64(kind)
    return is_number or pa.types.is_boolean(kind) or is_text(kind)


class Extras:
    """Writes and reads the extras of a source's good images."""

    def __init__(self, schema: pa.Schema | None) -> None:
        """`schema` contains the list's columns. It is None if the list has only labels, or if there is no list."""
        self.schema = schema

    def of(self, label: str, values: Mapping[str, Any]) -> str:
        """The extra of an image. `values` has a value for each column, or None for a null."""
        if self.schema is None:
            return label
        return json.dumps([label, *(values[name] for name in self.schema.names)], ensure_ascii=False, separators=(",", ":"))

    def read(self, extras: Sequence[str]) -> tuple[list[str], dict[str, Array]]:
        """The labels of images, and the columns of the list."""
        if self.schema is None:
            return list(extras), {}
        rows = [json.loads(extra) for extra in extras]
        columns = {field.name: _arrow.array([row[place] for row in rows], field.type) for place, field in enumerate(self.schema, start=1)}
        return [row[0] for row in rows], columns
