"""`tokenizeSplit`: uses Arrow's kernels to split text into a list of words."""

from dataclasses import replace

import pyarrow as pa

from dataprep_api.spec.transforms.columns import TokenizeSplit
from dataprep_converter.core.arrow_types import is_text
from dataprep_converter.core.errors import BadSpec
from dataprep_converter.core.tensors import Array, pc
from dataprep_converter.records.batch import Batch
from dataprep_converter.records.columns import find_columns


class TokenizeSplitStep:
    """Splits columns of text. Without a separator, text without words gives an empty list. With a separator, empty words are kept."""

    def __init__(self, options: TokenizeSplit, schema: pa.Schema) -> None:
        self._options = options
        self._columns = find_columns(self._options.columns, schema, of="The transform tokenizeSplit")
        self._schema = schema
        for name in self._columns:
            position = schema.get_field_index(name)
            kind = schema.field(position).type
            if not is_text(kind):
                raise BadSpec(f"The transform tokenizeSplit takes text, but the column {name!r} is {kind}.")
            self._schema = self._schema.set(position, schema.field(position).with_type(pa.list_(pa.string())))

    def schema(self) -> pa.Schema:
        """Returns the columns, with the named ones as lists of strings."""
        return self._schema

    def apply(self, batch: Batch) -> Batch:
        """Splits the named columns. A missing text stays missing."""
        records = batch.records
        for name in self._columns:
            position = records.schema.get_field_index(name)
            field = records.schema.field(position).with_type(pa.list_(pa.string()))
            records = records.set_column(position, field, self._words(records.column(name).cast(pa.string())))
        return replace(batch, records=records)

    def _words(self, text: Array) -> Array:
        if self._options.lower:
            text = pc.utf8_lower(text)
        if self._options.separator is not None:
            words = pc.split_pattern(text, pattern=self._options.separator)
        else:
            trimmed = pc.utf8_trim_whitespace(text)
            words = pc.utf8_split_whitespace(trimmed)
            nothing = pa.array([[]], pa.list_(pa.string())).take(pa.array([0] * len(text), pa.int64()))
            words = pc.if_else(pc.equal(trimmed, ""), nothing, words)
        if self._options.max_words is not None:
            words = pc.list_slice(words, 0, self._options.max_words)
        lists: Array = words.cast(pa.list_(pa.string()))
        return lists
