"""`vocabulary`: replaces each text with the number of its term. All terms of a batch are looked up in one call."""

from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Any

import numpy as np
import pyarrow as pa

from dataprep_api.spec.transforms.vocabulary import MOST_TERMS, Vocabulary
from dataprep_converter.core.arrow_types import is_text
from dataprep_converter.core.errors import BadData, BadSpec
from dataprep_converter.core.lists import is_ragged
from dataprep_converter.core.tensors import Array, pc
from dataprep_converter.records.batch import SAMPLE, Batch
from dataprep_converter.records.columns import find_columns, without

_MOST_COUNTED = 10_000_000


class VocabularyStep:
    """Replaces text with positions in `terms`, or in the terms that `fit` finds while planning. A missing text stays missing."""

    def __init__(self, options: Vocabulary, schema: pa.Schema) -> None:
        self._options = options
        self._columns = find_columns(self._options.columns, schema, of="The transform vocabulary")
        self._schema = schema
        for name in self._columns:
            position = schema.get_field_index(name)
            kind = schema.field(position).type
            if not is_text(kind.value_type if is_ragged(kind) else kind):
                raise BadSpec(f"The transform vocabulary takes text or lists of text, but the column {name!r} is {kind}.")
            if not is_ragged(kind) and self._options.unknown == "Drop":
                raise BadSpec(f"The transform vocabulary: unknown: Drop works only on columns of lists, but the column {name!r} is {kind}.")
            number_type = pa.list_(pa.int64()) if is_ragged(kind) else pa.int64()
            self._schema = self._schema.set(position, schema.field(position).with_type(number_type))
        self.terms: list[str] = []
        """The terms in the order of their numbers. The list is empty until the vocabulary is built."""
        self._values: Array = pa.array([], pa.string())
        if self._options.terms is not None:
            self.load(list(self._options.terms))

    def schema(self) -> pa.Schema:
        """Returns the columns, with the named ones as int64 or lists of int64."""
        return self._schema

    @property
    def moves_steps(self) -> bool:
        """Whether terms are dropped, which shortens lists."""
        return self._options.unknown == "Drop"

    # --- fitting, while planning -----------------------------------------------------------------------------------

    @property
    def fitted_split(self) -> str | None:
        """The split to read. "" means the first split with records, and None means that the terms are given."""
        return None if self._options.terms is not None else self._options.split or ""

    def fit(self, batches: Iterator[Batch]) -> list[str]:
        """Returns the terms of the batches, in the order of their numbers.

        Raises BadData if there are more terms than a plan can contain.
        """
        counts: Counter[str] = Counter()
        for batch in batches:
            for name in self._columns:
                column: Any = batch.records.column(name)
                term_counts: Any = pc.value_counts(column.flatten() if is_ragged(column.type) else column)
                for term, count in zip(term_counts.field(0).to_pylist(), term_counts.field(1).to_pylist(), strict=True):
                    if term is not None:
                        counts[term] += count
            if len(counts) > _MOST_COUNTED:
                raise BadData(f"The transform vocabulary: {self._column_names()} has more than {_MOST_COUNTED:,} different terms.")
        frequent = [term for term, count in counts.items() if count >= (self._options.min_count or 1)]
        most_frequent = sorted(frequent, key=lambda term: (-counts[term], term.encode()))
        if self._options.max_terms is None and len(frequent) > MOST_TERMS:
            raise BadData(
                f"The transform vocabulary: {self._column_names()} has {len(frequent):,} different terms; set maxTerms (at most {MOST_TERMS:,}) or minCount."
            )
        terms = most_frequent[: self._options.max_terms]
        return terms if self._options.order == "Count" else sorted(terms, key=str.encode)

    def load(self, terms: list[str]) -> None:
        """Uses these terms from now on."""
        self.terms = terms
        self._values = pa.array(terms, pa.string())

    def classes(self, by_column: Mapping[str, list[str]]) -> dict[str, list[str]]:
        """Returns the class names, keyed by column. If a column has one term per record, the terms are its class names."""
        return {**by_column, **{name: self.terms for name in self._columns if not is_ragged(self._schema.field(name).type)}}

    # --- applying --------------------------------------------------------------------------------------------------

    def apply(self, batch: Batch) -> Batch:
        """Replaces the terms. An unknown term makes its record bad, unless the spec handles it in another way."""
        records = batch.records
        faults: dict[int, str] = {}
        places: dict[int, tuple[str, int | None]] = {}
        for name in self._columns:
            column, unknown = self._numbers(records.column(name))
            faults |= {row: f"{name}: {term!r} is not in the vocabulary" for row, term, _ in reversed(unknown)}
            places |= {row: (name, step) for row, _, step in reversed(unknown)}
            position = records.schema.get_field_index(name)
            records = records.set_column(position, records.schema.field(position).with_type(column.type), column)
        numbered = replace(batch, records=records)
        return without(numbered, faults, records.column(SAMPLE), places) if faults else numbered

    def _numbers(self, column: Array) -> tuple[Array, list[tuple[int, str, int | None]]]:
        """Returns the numbers, and a tuple (row, term, index in the list) for each unknown term that makes its record bad."""
        if not is_ragged(column.type):
            numbers = pc.index_in(column.cast(pa.string()), value_set=self._values).cast(pa.int64())
            is_unknown = pc.and_(pc.is_null(numbers), pc.is_valid(column))
            if self._options.unknown == "Last":
                return pc.if_else(is_unknown, len(self.terms), numbers), []
            return numbers, [(int(row), column[int(row)].as_py(), None) for row in _true_rows(is_unknown)]
        flat: Array = pc.list_flatten(column).cast(pa.string())
        rows = pc.list_parent_indices(column).to_numpy()
        numbers = pc.index_in(flat, value_set=self._values).cast(pa.int64())
        is_unknown = pc.is_null(numbers)
        bad: list[tuple[int, str, int | None]] = []
        if self._options.unknown == "Last":
            numbers = pc.fill_null(numbers, len(self.terms))
        elif self._options.unknown == "Drop":
            is_known = ~is_unknown.to_numpy(zero_copy_only=False)
            rows, numbers = rows[is_known], numbers.drop_null()
        else:
            starts = np.searchsorted(rows, rows)
            bad = [(int(rows[place]), str(flat[int(place)].as_py()), int(place - starts[place])) for place in _true_rows(is_unknown)]
            numbers = pc.fill_null(numbers, 0)
        counts = np.bincount(rows, minlength=len(column))
        offsets = np.concatenate(([0], np.cumsum(counts))).astype(np.int32)
        lists: Any = pa.ListArray
        number_lists: Array = lists.from_arrays(pa.array(offsets), numbers, mask=pc.is_null(column))
        return number_lists, bad

    def _column_names(self) -> str:
        return ", ".join(repr(name) for name in self._columns)


def _true_rows(values: Array) -> Any:
    return np.flatnonzero(values.to_numpy(zero_copy_only=False))
