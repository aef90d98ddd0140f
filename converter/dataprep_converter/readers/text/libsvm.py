"""The source `libsvm` reads text files in LIBSVM format. Files are split at line ends (`stretches.py`) and parsed with Arrow and NumPy.

    # The syntax of a line:  label [qid:number] index:value index:value … # anything

A line is a bad record if its syntax is invalid, or if its indexes don't ascend.
"""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any, ClassVar, Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from dataprep_api.spec.sources.libsvm import LibsvmSource
from dataprep_converter.core.closeable import Closeable
from dataprep_converter.core.errors import InputChanged
from dataprep_converter.core.tensors import Array, arrow_type, pc, to_arrow, to_numpy
from dataprep_converter.inputs.access import Access
from dataprep_converter.readers import Discovery, Listing
from dataprep_converter.readers.base.blocks import Block
from dataprep_converter.readers.base.listing import input_files
from dataprep_converter.readers.text.lines import LIMIT, Lines, with_lines
from dataprep_converter.readers.text.lines import scan as scan_lines
from dataprep_converter.readers.text.stretches import StretchReader
from dataprep_converter.readers.text_scan.files import examined_texts
from dataprep_converter.readers.text_scan.line_rule import LineRule
from dataprep_converter.readers.text_scan.stored import FORM
from dataprep_converter.records.batch import SAMPLE, Batch, Raw
from dataprep_converter.sampling.units import Unit, Units

_IS_SPACE: Final = np.isin(np.arange(256), np.frombuffer(b" \t\r\n\v\f", np.uint8))
_NUMBER: Final = r"(?i)^[+-]?(([0-9]+\.?[0-9]*|\.[0-9]+)(e[+-]?[0-9]+)?|inf|infinity|nan)$"
_WHOLE: Final = "^[0-9]{1,16}$"
_SHOWN: Final = 40

_arrow: Any = pa  # the type stubs reject NumPy arrays as buffers
_Places = npt.NDArray[np.int64]


class LibsvmReader(Closeable):
    """See the module. The first columns are `label` and, optionally, `qid`. After these, a dense source has `values`, and a sparse source
    has `keys`, `values` and, optionally, `shape`."""

    default_label: ClassVar[str] = "label"
    stored_form: ClassVar[int] = FORM

    @staticmethod
    def discover(source: LibsvmSource, access: Access) -> Discovery:
        """Reads every file once. Raises NotFound for a URI without files."""
        return Discovery(_units(source, access))

    def __init__(self, source: LibsvmSource, state: Mapping[str, Any], access: Access) -> None:  # noqa: ARG002 - the spec has all settings, so the state is empty
        self._source = source
        self._sparse = _SparseReader(self._source, access)

    def close(self) -> None:
        """Closes the files."""
        self._sparse.close()

    def schema(self) -> pa.Schema:
        """The columns. `keys` and `values` are lists of any length. `shape` is a vector with a single number, as in sparse data formats."""
        if not self._source.dense:
            return self._sparse.schema()
        fields = [field for field in self._sparse.schema() if field.name in ("label", "qid")]
        return pa.schema([*fields, pa.field("values", arrow_type("float32", (self._features(),)))])

    def classes(self) -> dict[str, list[str]]:
        """An empty dict, because LIBSVM files have no class names."""
        return {}

    def read(self, units: Units, samples: Iterator[npt.NDArray[np.int64]]) -> Iterator[Batch]:
        """Yields a batch for each array in `samples`.

        The arrays contain the samples' numbers. Dense vectors are made for one batch at a time, because the vectors of a complete stretch
        with many short lines would need too much memory.
        """
        for batch in self._sparse.read(units, samples):
            yield replace(batch, records=self._with_vectors(batch.records)) if self._source.dense else batch

    def lines(self, units: Units, samples: npt.NDArray[np.int64]) -> npt.NDArray[np.int64]:
        """The line number of each given sample. Lines are numbered from 1."""
        return self._sparse.lines(units, samples)

    def _with_vectors(self, records: pa.RecordBatch) -> pa.RecordBatch:
        keys: Any = records.column("keys")
        lists: Any = records.column("values")
        vectors = np.zeros((records.num_rows, self._features()), np.float32)
        counts = to_numpy(pc.list_value_length(keys))
        vectors[np.repeat(np.arange(records.num_rows), counts), to_numpy(keys.flatten())] = to_numpy(lists.flatten())
        schema = self.schema().append(pa.field(SAMPLE, pa.int64()))
        columns = [to_arrow(vectors) if field.name == "values" else records.column(field.name) for field in schema]
        return pa.RecordBatch.from_arrays(columns, schema=schema)

    def _features(self) -> int:
        return self._source.num_features or 0


def _units(source: LibsvmSource, access: Access) -> Listing[Unit]:
    for file in examined_texts(access, input_files(access, source.uris), LineRule(scan, "Utf8", LIMIT)):
        yield from file.result.units(file.root, file.path, file.entry)
    return {}


def scan(data: bytes, at_end: bool) -> Lines:
    """Finds the lines of `data` that contain more than white space and a comment."""
    lines = scan_lines(data, at_end, skip_blank=True)
    text = np.frombuffer(data, np.uint8)
    first = text[lines.starts]
    if not (_IS_SPACE[first] | (first == ord("#"))).any():
        return lines
    inked = np.flatnonzero(~_IS_SPACE[text])
    # For each line, find the first character at or after the line's start that is not white space. If the line contains only \v or \f, this
    # character is in a later line.
    places = np.append(inked, len(data))[np.searchsorted(inked, lines.starts)]
    has_record = (places < lines.ends) & (np.append(text, ord("#"))[places] != ord("#"))
    return replace(lines, starts=lines.starts[has_record], ends=lines.ends[has_record])


# --- parsing ------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class _Tokens:
    """The tokens of a text, which are separated by white space."""

    text: npt.NDArray[np.uint8]
    starts: _Places
    ends: _Places
    lines: _Places
    """For each token, the number of its line."""

    def select(self, which: Any) -> "_Tokens":
        """The tokens that an index or mask selects."""
        return _Tokens(self.text, self.starts[which], self.ends[which], self.lines[which])

    def cut(self, starts: _Places, ends: _Places) -> "_Tokens":
        """A part of each token, from `starts` to `ends`."""
        return _Tokens(self.text, starts, ends, self.lines)

    def strings(self) -> Array:
        """The tokens as a column of strings."""
        # Build a column in which tokens alternate with the gaps between tokens, and take every second row.
        cuts = np.column_stack((self.starts, self.ends)).ravel()
        if not len(cuts):
            return pa.array([], pa.large_string())
        column: Array = _arrow.Array.from_buffers(
            pa.large_string(), len(cuts) - 1, [None, _arrow.py_buffer(cuts), _arrow.py_buffer(self.text)]
        )
        return column.take(to_arrow(np.arange(0, len(cuts) - 1, 2)))

    def describe(self, number: int) -> str:
        """A token as text for a message, shortened if it is long."""
        token = self.text[self.starts[number] : self.ends[number]].tobytes().decode("utf-8", "replace")
        return repr(token[:_SHOWN] + "…" if len(token) > _SHOWN else token)


class _Faults:
    """Collects the bad lines, each with the first reason found."""

    def __init__(self, lines: int) -> None:
        self.reasons: dict[int, str] = {}
        self.is_good = np.ones(lines, np.bool_)

    def add(self, tokens: _Tokens, wrong: npt.NDArray[np.bool_], reason: Callable[[int], str]) -> None:
        """Marks as bad each line that contains a wrong token. `reason` is called with the number of the token."""
        for number in np.flatnonzero(wrong).tolist():
            self.reasons.setdefault(int(tokens.lines[number]), reason(number))
        self.is_good[tokens.lines[wrong]] = False


class _SparseReader(StretchReader):
    """Reads lines as lists of keys and values."""

    def __init__(self, source: LibsvmSource, access: Access) -> None:
        super().__init__(access)
        self._source = source

    def schema(self) -> pa.Schema:
        """The columns in sparse form; see `LibsvmReader`."""
        fields: list[tuple[str, pa.DataType]] = [("label", pa.float32())]
        if self._source.qid:
            fields.append(("qid", pa.int64()))
        fields += [("keys", pa.large_list(pa.int64())), ("values", pa.large_list(pa.float32()))]
        if self._source.num_features is not None:
            fields.append(("shape", arrow_type("int64", (1,))))
        return pa.schema(fields)

    def scan(self, data: bytes, at_end: bool) -> Lines:
        """Finds the lines with records; see the function `scan`."""
        return scan(data, at_end)

    def parse(self, data: bytes, *, records: int, line: int, uri: str) -> Block:
        """Parses all lines together. Faulty lines become bad records, with their line number in the reason."""
        lines = scan(data, True)
        if len(lines) != records:
            raise InputChanged(f"{uri}: {records:,} records were planned from line {line} on, got {len(lines):,}.", uri=uri)
        faults = _Faults(records)
        columns = self._columns(_tokens(data, lines), faults)
        raws = {row: Raw.of(data[lines.starts[row] : lines.ends[row]].rstrip(b"\r\n")) for row in faults.reasons}
        block = Block.of(
            pa.RecordBatch.from_arrays([columns[name] for name in self.schema().names], schema=self.schema()),
            with_lines(faults.reasons, lines, line),
        )
        return replace(block, raws=raws)

    def _columns(self, tokens: _Tokens, faults: _Faults) -> dict[str, Array]:
        rows = len(faults.is_good)
        is_first = np.diff(tokens.lines, prepend=-1) > 0
        columns = {"label": self._labels(tokens.select(is_first), faults)}
        pairs = tokens.select(~is_first)
        is_query = self._are_queries(pairs)
        if self._source.qid:
            columns["qid"] = self._queries(pairs.select(is_query), rows, faults)
            pairs = pairs.select(~is_query)
        elif is_query.any():
            faults.add(pairs, is_query, lambda _: "it has a query id; set source.libsvm.qid")
        # From here on, check only the lines without a fault, so that every bad line is reported with its first fault.
        keys, values, pairs = self._pairs(pairs.select(faults.is_good[pairs.lines]), faults)
        is_good = faults.is_good[pairs.lines]
        counts = np.bincount(pairs.lines[is_good], minlength=rows)
        offsets = to_arrow(np.concatenate((np.zeros(1, np.int64), np.cumsum(counts))))
        columns["keys"] = _arrow.LargeListArray.from_arrays(offsets, to_arrow(keys[is_good]))
        columns["values"] = _arrow.LargeListArray.from_arrays(offsets, to_arrow(values[is_good]))
        if self._source.num_features is not None:
            columns["shape"] = to_arrow(np.full((rows, 1), self._source.num_features, np.int64))
        return columns

    def _labels(self, tokens: _Tokens, faults: _Faults) -> Array:
        labels, wrong = _numbers(tokens, _NUMBER, pa.float32())
        faults.add(tokens, wrong, lambda number: f"the label {tokens.describe(number)} is not a number")
        faults.add(tokens, _too_large(labels, tokens), lambda number: f"the label {tokens.describe(number)} is too large for a float32")
        return to_arrow(labels)

    def _are_queries(self, tokens: _Tokens) -> npt.NDArray[np.bool_]:
        """A mask of the tokens that directly follow a label and begin with `qid:`."""
        is_second = np.diff(tokens.lines, prepend=-1) > 0
        padded = np.append(tokens.text, np.zeros(4, np.uint8))
        is_query = is_second.copy()
        for place, letter in enumerate(b"qid:"):
            is_query &= padded[tokens.starts + place] == letter
        return is_query

    def _queries(self, tokens: _Tokens, rows: int, faults: _Faults) -> Array:
        numbers = tokens.cut(tokens.starts + 4, np.maximum(tokens.ends, tokens.starts + 4))
        queries, wrong = _numbers(numbers, _WHOLE, pa.int64())
        faults.add(tokens, wrong, lambda number: f"the query id {tokens.describe(number)} is not a whole number")
        missing = np.setdiff1d(np.arange(rows), tokens.lines)
        for row in missing.tolist():
            faults.reasons.setdefault(row, "it has no query id after its label")
        faults.is_good[missing] = False
        query_ids = np.zeros(rows, np.int64)
        query_ids[tokens.lines] = queries
        return to_arrow(query_ids)

    def _pairs(self, tokens: _Tokens, faults: _Faults) -> tuple[_Places, npt.NDArray[np.float32], _Tokens]:
        """The keys (which begin at 0) and the values of all tokens that have the form `index:value`, and these tokens themselves."""
        colons = np.flatnonzero(tokens.text == ord(":"))
        before, after = np.searchsorted(colons, tokens.starts), np.searchsorted(colons, tokens.ends)
        has_one = after - before == 1
        faults.add(tokens, ~has_one, lambda number: f"{tokens.describe(number)} is not index:value")
        tokens, colon = tokens.select(has_one), colons[before[has_one]]
        indexes, no_index = _numbers(tokens.cut(tokens.starts, colon), _WHOLE, pa.int64())
        value_tokens = tokens.cut(colon + 1, tokens.ends)
        values, no_value = _numbers(value_tokens, _NUMBER, pa.float32())
        faults.add(tokens, no_index, lambda number: f"the index of {tokens.describe(number)} is not a whole number")
        faults.add(tokens, no_value, lambda number: f"the value of {tokens.describe(number)} is not a number")
        too_large = _too_large(values, value_tokens)
        faults.add(tokens, too_large, lambda number: f"the value of {tokens.describe(number)} is too large for a float32")
        first = 1 if self._source.one_based else 0
        hint = "; set source.libsvm.oneBased: false if the first index is 0" if first else ""
        faults.add(tokens, indexes < first, lambda number: f"the index {indexes[number]} is below the first, {first}{hint}")
        last = self._source.num_features
        if last is not None:
            beyond = indexes - first >= last
            faults.add(tokens, beyond, lambda number: f"the index {indexes[number]} is more than the {last:,} features (numFeatures)")
        same_line = np.diff(tokens.lines, prepend=-1) == 0
        falls = same_line & (np.diff(indexes, prepend=0) <= 0)
        faults.add(tokens, falls, lambda number: f"the index {indexes[number]} follows {indexes[number - 1]}; indexes must ascend")
        return indexes - first, values, tokens


def _tokens(data: bytes, lines: Lines) -> _Tokens:
    """All tokens of the lines, in order, without the comments."""
    text = np.frombuffer(data, np.uint8)
    if b"#" in data:
        text = _without_comments(text, lines)
    is_ink = ~_IS_SPACE[text]
    edges = np.flatnonzero(np.diff(is_ink.view(np.int8), prepend=0, append=0))
    starts, ends = edges[::2], edges[1::2]
    return _Tokens(text, starts, ends, np.searchsorted(lines.starts, starts, side="right") - 1)


def _without_comments(text: npt.NDArray[np.uint8], lines: Lines) -> npt.NDArray[np.uint8]:
    hashes = np.flatnonzero(text == ord("#"))
    feeds = np.append(lines.feeds, len(text))
    # A comment begins at the first # of its line.
    ends = feeds[np.searchsorted(feeds, hashes)]
    is_first = np.diff(ends, prepend=-1) != 0
    depth = np.zeros(len(text) + 1, np.int8)
    depth[hashes[is_first]] = 1
    depth[ends[is_first]] -= 1
    return np.where(np.cumsum(depth[:-1], dtype=np.int8) > 0, np.uint8(ord(" ")), text)


def _numbers(tokens: _Tokens, pattern: str, kind: pa.DataType) -> tuple[npt.NDArray[Any], npt.NDArray[np.bool_]]:
    """The tokens as numbers, and a mask of the tokens that aren't numbers. Tokens that aren't numbers become 0."""
    try:
        return to_numpy(tokens.strings().cast(kind)), np.zeros(len(tokens.starts), np.bool_)
    except pa.ArrowInvalid:
        # Replace non-ASCII bytes, because Arrow's regular expressions need valid text. No number contains non-ASCII bytes.
        strings = replace(tokens, text=np.where(tokens.text < 0x80, tokens.text, np.uint8(ord("?")))).strings()
        wrong = ~to_numpy(pc.match_substring_regex(strings, pattern=pattern))
        return to_numpy(pc.if_else(to_arrow(wrong), "0", strings).cast(kind)), wrong


def _too_large(numbers: npt.NDArray[Any], tokens: _Tokens) -> npt.NDArray[np.bool_]:
    """A mask of the numbers that became infinite although they are written with digits."""
    wrong: npt.NDArray[np.bool_] = np.isinf(numbers)
    for number in np.flatnonzero(wrong).tolist():
        text = tokens.text[tokens.starts[number] : tokens.ends[number]]
        wrong[number] = bool(((text >= ord("0")) & (text <= ord("9"))).any())
    return wrong
