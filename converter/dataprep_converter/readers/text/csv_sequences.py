"""The source `csvSequences` reads CSV files. Each file is a sequence, and each row is a step.

A sequence's labels can be in a second file with the same name. Threads read ahead (`files_ahead.py`). The rows of all files in a batch are
parsed together, because it is slow to parse small files separately. Only faulty files are parsed again, to find the faulty line.
"""

import codecs
import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, ClassVar, Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from dataprep_api.spec import CsvColumn
from dataprep_api.spec.sources.csv_sequences import CsvSequencesSource
from dataprep_converter.core.closeable import Closeable
from dataprep_converter.core.errors import BadSample, BadSpec
from dataprep_converter.core.tensors import Array, binary_data, to_arrow, to_numpy
from dataprep_converter.inputs.access import Access
from dataprep_converter.inputs.compressions import BrokenStream, compression_of, decompressed
from dataprep_converter.inputs.encodings import BrokenText, whole_in_utf8
from dataprep_converter.readers import Discovery
from dataprep_converter.readers.base.files_ahead import File, FilesReader, Row, binaries
from dataprep_converter.readers.columnar.columns import shown
from dataprep_converter.readers.text.csv_cells import Dialect, Parser
from dataprep_converter.readers.text.csv_starts import Preamble, selected_names
from dataprep_converter.readers.text.sequence_listing import LABELS, OF, PACKED, SequencePlanner, dialect_of_source
from dataprep_converter.records.batch import SAMPLE, Batch, Raw, RejectedSample
from dataprep_converter.records.columns import IS_SEQUENCE, find_columns
from dataprep_converter.sampling.units import Units

_UNCOMPRESSED: Final = 256 << 20
"""The largest accepted size of a decompressed file in bytes."""

_Mask = npt.NDArray[np.bool_]
_Numbers = npt.NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class _Text:
    """The rows of a file as text, each with its line end."""

    data: bytes
    rows: int
    line: int
    """The line number of the first byte. Lines are numbered from 1."""


class _Texts(FilesReader[list[_Text]]):
    """Reads the files of each sample as text: the sequence and, if the source has labels, the labels. Each of these files has its own
    columns `text`, `rows` and `line`."""

    def __init__(self, source: CsvSequencesSource, names: Sequence[Sequence[str]], access: Access) -> None:
        super().__init__(access)
        dialect = dialect_of_source(source)
        self._encoding = source.encoding
        self._preambles = [Preamble(dialect, source.skip_lines, source.header)]
        self._per_step = True
        if source.labels is not None:
            self._preambles.append(Preamble(dialect, source.labels.skip_lines, source.labels.header))
            self._per_step = source.labels.per == "Step"
        self._names = [list(each) for each in names]

    def schema(self) -> pa.Schema:
        """Three columns for each file of a sample."""
        kinds = (("text", pa.large_binary()), ("rows", pa.int64()), ("line", pa.int64()))
        return pa.schema([(f"{name}{number}", kind) for number in range(len(self._preambles)) for name, kind in kinds])

    def files(self, row: Row) -> Sequence[File]:
        """The sequence's file and, if the sequence has one, its label file."""
        own = File(row["uri"], row["size"], row["pin"])
        extra = json.loads(row["extra"] or "{}")
        return [own, File(extra["uri"], extra["size"], extra["pin"])] if "uri" in extra else [own]

    def examine(self, row: Row, contents: Sequence[bytes]) -> list[_Text]:
        """Removes the preambles and counts the rows. Raises BadSample, which names the line and, for labels, the file."""
        extra = json.loads(row["extra"] or "{}")
        if len(contents) < len(self._preambles):
            raise BadSample(f"its labels {extra['missing']} are not there")
        packed = PACKED in extra
        steps = self._text(0, contents[0], packed=packed)
        if len(self._preambles) == 1:
            return [steps]
        uri = extra["uri"]
        try:
            labels = self._text(1, contents[1], packed=packed)
        except BadSample as exc:
            raise BadSample(f"its labels {uri}, {exc}") from exc
        if labels.rows != (steps.rows if self._per_step else 1):
            expected = f"one for each of {steps.rows} steps" if self._per_step else "one for the whole sequence"
            raise BadSample(f"its labels {uri} are {labels.rows} rows, expected {expected}")
        return [steps, labels]

    def columns(self, samples: Sequence[list[_Text]]) -> dict[str, Array]:
        """The columns of the schema."""
        columns: dict[str, Array] = {}
        for number in range(len(self._preambles)):
            columns[f"text{number}"] = binaries([texts[number].data for texts in samples])
            columns[f"rows{number}"] = pa.array([texts[number].rows for texts in samples], pa.int64())
            columns[f"line{number}"] = pa.array([texts[number].line for texts in samples], pa.int64())
        return columns

    def _as_text(self, content: bytes) -> bytes:
        """The content as UTF-8.

        If the spec gives no encoding, the content must be UTF-8, and is returned with its byte order mark, as in earlier releases.
        """
        if self._encoding is None:
            if content.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)):
                raise BadSample(f"the file is UTF-16; set {OF}.encoding to Utf16Le or Utf16Be")
            return content
        try:
            return whole_in_utf8(content, self._encoding)
        except BrokenText as exc:
            raise BadSample(str(exc)) from exc

    def _text(self, number: int, content: bytes, *, packed: bool) -> _Text:
        preamble = self._preambles[number]
        start = preamble.strip_from(self._as_text(_decompress(content, packed=packed)), at_end=True)
        if start is None or not start.data:
            raise BadSample(f"line {start.line if start else 1}: there is no row")
        if start.names is not None and start.names != self._names[number]:
            raise BadSample(
                f"line {preamble.skip_lines + 1}: the header has the columns {', '.join(start.names)}; expected {', '.join(self._names[number])}"
            )
        rows = preamble.dialect.rows(start.data)
        if (place := rows.unclosed_quote()) is not None:
            raise BadSample(f"line {start.line + rows.lines_before(place)}: a quote is never closed")
        if not len(rows):
            raise BadSample(f"line {start.line}: there is no row")
        data = start.data if start.data.endswith((b"\n", b"\r")) else start.data + b"\n"
        return _Text(data, len(rows), start.line)


class CsvSequencesReader(Closeable):
    """See the module. Each column of the files becomes a list of its values, or a single value if all steps share it. The labels' columns
    come after the columns of the sequences."""

    default_label: ClassVar[str] = "label"

    @staticmethod
    def discover(source: CsvSequencesSource, access: Access) -> Discovery:
        """Lists the files. If the spec has no `columns`, reads the first files. Raises NotFound for a URI without files, and BadData if no
        file has a row."""
        return Discovery(SequencePlanner(source, access).units())

    def __init__(self, source: CsvSequencesSource, state: Mapping[str, Any], access: Access) -> None:
        dialect = dialect_of_source(source)
        columns = [[CsvColumn.model_validate(column) for column in state.get(part, [])] for part in ("columns", "labels")]
        self._texts = _Texts(source, [[column.name for column in each] for each in columns], access)
        self._dialect = dialect
        missing = [replace(dialect, missing=tuple(state.get(part, ()))) for part in ("nullWords", "labelNullWords")]
        self._steps = Parser(columns[0], missing[0], select=selected_names(columns[0], source.select, of=OF), of=OF)
        self._labels = None if source.labels is None else Parser(columns[1], missing[1], of=LABELS)
        self._labels_are_steps = source.labels is not None and source.labels.per == "Step"
        self._per_sequence = find_columns(source.per_sequence, self._steps.schema, of=f"{OF}.perSequence")
        self._schema = self._build_schema()

    def close(self) -> None:
        """Does nothing, because no file stays open."""
        self._texts.close()

    def schema(self) -> pa.Schema:
        """The columns of the sequence files in their order, followed by the columns of the labels."""
        return self._schema

    def classes(self) -> dict[str, list[str]]:
        """An empty dict, because CSV files have no class names."""
        return {}

    def read(self, units: Units, samples: Iterator[npt.NDArray[np.int64]]) -> Iterator[Batch]:
        """Yields a batch for each array in `samples`. The arrays contain the samples' numbers. The order of the numbers doesn't affect the
        speed."""
        for batch in self._texts.read(units, samples):
            yield self._parse_batch(batch)

    def places(self, units: Units, bad: Sequence[RejectedSample]) -> list[str]:
        """The line of each bad step, in the sequence's file or in its label file. If the bad step is unknown, returns the line of the first
        row. Reads the files again."""
        of_labels = set(self._labels.schema.names) if self._labels is not None else set()
        order = sorted(bad, key=lambda each: each.sample)
        texts = next(self._texts.read(units, iter([np.array([each.sample for each in order], np.int64)]))).records
        places: dict[int, str] = {}
        for row, each in enumerate(order):
            number = 1 if each.column in of_labels else 0
            text, line = texts.column(f"text{number}")[row].as_py(), texts.column(f"line{number}")[row].as_py()
            # If the source has labels and the column is in neither file, a transform might have computed the column from either file. The
            # bad step of the sequence is then unknown.
            is_known = not of_labels or each.column in of_labels or each.column in self._steps.schema.names
            rows = self._dialect.rows(text)
            at = line + rows.lines_before(int(rows.starts[(each.step or 0) if is_known else 0]))
            places[each.sample] = f"its labels, line {at}" if number else f"line {at}"
        return [places[each.sample] for each in bad]

    def _build_schema(self) -> pa.Schema:
        fields = [field if field.name in self._per_sequence else _sequence(field) for field in self._steps.schema]
        for field in self._labels.schema if self._labels is not None else ():
            if field.name in self._steps.schema.names:
                raise BadSpec(f"{LABELS}: the column {field.name!r} is in the sequences too; rename it in {LABELS}.columns.")
            fields.append(_sequence(field) if self._labels_are_steps else field)
        return pa.schema(fields)

    def _parse_batch(self, batch: Batch) -> Batch:
        """Parses the text of a batch's files into columns."""
        parts = [_Part.of(batch, 0, self._steps)]
        if self._labels is not None:
            parts.append(_Part.of(batch, 1, self._labels))
        faults = dict(parts[0].faults)
        for file, reason in (parts[1].faults if self._labels is not None else {}).items():
            faults.setdefault(file, f"its labels, {reason}")
        for file, reason in parts[0].uneven_files(self._per_sequence, self._dialect).items():
            faults.setdefault(file, reason)
        is_good = np.ones(batch.records.num_rows, np.bool_)
        is_good[list(faults)] = False
        columns = {name: parts[0].column(name, is_good, is_list=name not in self._per_sequence) for name in self._steps.schema.names}
        if self._labels is not None:
            columns |= {name: parts[1].column(name, is_good, is_list=self._labels_are_steps) for name in self._labels.schema.names}
        samples = batch.records.column(SAMPLE)
        arrays = [*(columns[name] for name in self._schema.names), samples.filter(pa.array(is_good))]
        records = pa.RecordBatch.from_arrays(arrays, schema=self._schema.append(pa.field(SAMPLE, pa.int64())))
        numbers = to_numpy(samples)
        bad = [RejectedSample(int(numbers[file]), faults[file], Raw.of(parts[0].text(file))) for file in faults]
        everything = sorted([*batch.bad, *bad], key=lambda each: each.sample)
        return Batch(records=records, bad=everything, bytes_in=batch.bytes_in)


@dataclass(frozen=True)
class _Part:
    """The rows of a batch's sequence files, or of its label files. The rows of all files are stored one after another."""

    texts: Array
    counts: _Numbers
    lines: _Numbers
    records: pa.RecordBatch
    places: _Numbers
    """For each row, its index in `records`, or -1 if the row is bad."""
    faults: dict[int, str]
    """The reason, with the line, for each file that has a bad row. The keys are the files' positions in the batch."""

    @classmethod
    def of(cls, batch: Batch, number: int, parser: Parser) -> "_Part":
        texts, counts, lines = (batch.records.column(f"{name}{number}") for name in ("text", "rows", "line"))
        data, offsets = binary_data(texts)
        rows, first_lines = to_numpy(counts), to_numpy(lines)
        if not len(texts):
            return cls(texts, rows, first_lines, pa.RecordBatch.from_pylist([], schema=parser.schema), rows, {})
        text = data[offsets[0] : offsets[-1]].tobytes()
        block = parser.parse(text, records=int(rows.sum()), line=1, uri="")
        file_of = np.repeat(np.arange(len(rows)), rows)
        faults: dict[int, str] = {}
        for file in np.unique(file_of[list(block.reasons)]).tolist():
            # Parse the file separately, because line numbers in the joined text differ from those in the file.
            reasons = parser.parse(texts[file].as_py(), records=int(rows[file]), line=int(first_lines[file]), uri="").reasons
            faults[file] = reasons[min(reasons)]
        return cls(texts, rows, first_lines, block.records, block.places, faults)

    def text(self, file: int) -> bytes:
        """The rows of one file as text."""
        content: bytes = self.texts[file].as_py()
        return content

    def column(self, name: str, is_good: _Mask, *, is_list: bool) -> Array:
        """A column that has one value for each good file.

        If `is_list` is true, this value is the list of the values in the file's rows; otherwise, it is the value in the first row.
        """
        values = self.records.column(name)
        counts = self.counts[is_good]
        if not is_good.all():
            values = values.take(to_arrow(self.places[np.repeat(is_good, self.counts)]))
        ends = np.concatenate((np.zeros(1, np.int64), np.cumsum(counts)))
        if not is_list:
            return values.take(to_arrow(ends[:-1]))
        offsets: Any = to_arrow(ends.astype(np.int32))
        lists: Array = pa.ListArray.from_arrays(offsets, values)
        return lists

    def uneven_files(self, names: Sequence[str], dialect: Dialect) -> dict[int, str]:
        """Finds the files in which one of the columns `names` has several different values. Maps each such file to a message about the
        difference.

        Files with a bad row are skipped.
        """
        faults: dict[int, str] = {}
        is_good = np.ones(len(self.counts), np.bool_)
        is_good[list(self.faults)] = False
        files, counts = np.flatnonzero(is_good), self.counts[is_good]
        starts = np.cumsum(counts) - counts
        for name in names:
            lists: Any = self.column(name, is_good, is_list=True)
            values = lists.flatten()
            codes = to_numpy(values.dictionary_encode().indices)
            differs = np.flatnonzero(codes != np.repeat(codes[starts], counts)) if len(codes) else codes
            owners = np.searchsorted(starts, differs, side="right") - 1
            for owner, place in zip(*np.unique(owners, return_index=True), strict=True):
                at, file = int(differs[place]), int(files[owner])
                rows = dialect.rows(self.text(file))
                line = self.lines[file] + rows.lines_before(int(rows.starts[at - starts[owner]]))
                now, before = shown(str(values[at])), shown(str(values[int(starts[owner])]))
                faults.setdefault(
                    file, f"line {line}: column {name!r} is {now}, but {before} in the first row; it has one value per sequence"
                )
        return faults


def _sequence(field: "pa.Field[Any]") -> "pa.Field[Any]":
    lists: pa.Field[Any] = pa.field(field.name, pa.list_(field.type), metadata=IS_SEQUENCE)
    return lists


def _decompress(content: bytes, *, packed: bool) -> bytes:
    """Decompresses a file's content. If the compression isn't gzip, decompresses only if the plan marks the unit as `packed`."""
    compression = compression_of(content)
    if compression is None or (compression != "gzip" and not packed):
        return content
    pieces: list[bytes] = []
    size = 0
    try:
        for piece in decompressed([content], compression):
            pieces.append(piece)
            size += len(piece)
            if size > _UNCOMPRESSED:
                raise BadSample(f"the file is more than {_UNCOMPRESSED >> 20} MiB uncompressed")
    except BrokenStream as exc:
        raise BadSample(str(exc)) from exc
    return b"".join(pieces)
