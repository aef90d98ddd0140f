"""`select`, `drop` and `rename`: choose and rename columns. Values don't change."""

from collections.abc import Mapping
from dataclasses import replace

import pyarrow as pa

from dataprep_api.spec.transforms.columns import Drop, Rename, Select
from dataprep_converter.core.errors import BadSpec
from dataprep_converter.records.batch import SAMPLE, Batch
from dataprep_converter.records.columns import find_columns


class _ColumnSubset:
    """A subset of the columns, possibly renamed."""

    def __init__(self, schema: pa.Schema, old: list[str], new: list[str]) -> None:
        self._old = old
        self._new = new
        self._schema = pa.schema([schema.field(name).with_name(other) for name, other in zip(old, new, strict=True)])

    def schema(self) -> pa.Schema:
        """Returns the remaining columns."""
        return self._schema

    def apply(self, batch: Batch) -> Batch:
        """Returns the batch with only these columns. Values are not copied."""
        selected = batch.records.select([*self._old, SAMPLE])
        return replace(batch, records=selected.rename_columns([*self._new, SAMPLE]))


class SelectStep(_ColumnSubset):
    """Keeps the named columns, in the given order."""

    def __init__(self, options: Select, schema: pa.Schema) -> None:
        names = find_columns(options.columns, schema, of="The transform select")
        twice = next((name for name in names if names.count(name) > 1), None)
        if twice is not None:
            raise BadSpec(f"The transform select names the column {twice!r} twice.")
        super().__init__(schema, names, names)


class DropStep(_ColumnSubset):
    """Drops the named columns."""

    def __init__(self, options: Drop, schema: pa.Schema) -> None:
        dropped = find_columns(options.columns, schema, of="The transform drop")
        names = [name for name in schema.names if name not in dropped]
        if not names:
            raise BadSpec("The transform drop leaves no column.")
        super().__init__(schema, names, names)


class RenameStep(_ColumnSubset):
    """Renames columns. Raises BadSpec if two columns would have the same name."""

    def __init__(self, options: Rename, schema: pa.Schema) -> None:
        new = {find_columns([old], schema, of="The transform rename")[0]: name for old, name in options.columns.items()}
        names = [new.get(name, name) for name in schema.names]
        twice = next((name for name in names if names.count(name) > 1), None)
        if twice is not None:
            raise BadSpec(f"The transform rename makes two columns named {twice!r}.")
        super().__init__(schema, list(schema.names), names)

    def classes(self, by_column: Mapping[str, list[str]]) -> dict[str, list[str]]:
        """Returns the class names, under the new column names."""
        return {new: by_column[old] for old, new in zip(self._old, self._new, strict=True) if old in by_column}
