"""The planner stores all that it has found in a columnar file, and reads it back unchanged."""

from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from dataprep_converter.core.tensors import arrow_type
from dataprep_converter.readers.columnar.table_file import Span, TableFile, from_document, to_document
from dataprep_converter.runtime.scans import Piece, ScanOfPart, results_in

make: Any = pa  # the type stubs lack some types
TYPES: list[Any] = [
    pa.int8(),
    pa.decimal128(38, 4),
    pa.timestamp("ns", "Europe/Berlin"),
    make.time32("ms"),
    pa.dictionary(pa.int16(), pa.large_string(), ordered=True),
    make.list_(make.field("item", pa.float32(), nullable=False), 3),
    make.map_(pa.string(), pa.null()),
    pa.struct([make.field("a", pa.int64(), nullable=False, metadata={"k": "v"}), make.field("", make.binary_view())]),
    make.dense_union([make.field("a", pa.int64()), make.field("b", pa.string())]),
    arrow_type("float32", (2, 3)),
    make.opaque(pa.int64(), "kind", "vendor"),
]


def stored(file: TableFile) -> TableFile | None:
    """The examined file, after its results were stored and read back."""
    document = to_document(file)
    if document is None:
        return None
    piece = Piece("/in/a", "", 1, None, 1)
    scan = ScanOfPart(0)
    scan.found(piece, document)
    return from_document(results_in(scan.to_bytes())[piece])


@pytest.mark.parametrize("kind", TYPES, ids=str)
def test_a_schema_is_stored_exactly(kind: Any) -> None:
    schema = pa.schema([make.field("ä/b", kind, nullable=False, metadata={b"\xff": b"\0"}), make.field("ä/b", kind)])
    found = stored(TableFile(schema, []))
    assert found is not None
    assert found.schema.equals(schema, check_metadata=True)


@given(st.lists(st.builds(Span, st.integers(0), st.integers(0), st.integers(0), st.sampled_from(["", '{"group": 0}', "x" * 9]))))
def test_the_parts_of_a_file_are_stored_exactly(spans: list[Span]) -> None:
    file = TableFile(pa.schema([("a", pa.int64())]), spans, ["a"])
    assert stored(file) == file


def test_how_the_parts_are_found_is_stored_once_if_it_is_the_same() -> None:
    """In an Arrow file, all record batches can have the same long list of dictionaries. The planner stores this list only once."""
    document = to_document(TableFile(pa.schema([]), [Span(1, 1, number, "x" * 1000) for number in range(100)]))
    assert document is not None
    assert document.value["extras"] == ["x" * 1000]


def test_a_schema_that_arrow_does_not_read_back_is_not_stored(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(
        "dataprep_converter.readers.columnar.table_file.schema_text", lambda _: pa.schema([]).serialize().to_pybytes().hex()
    )
    assert to_document(TableFile(pa.schema([("a", pa.int64())]), [])) is None
