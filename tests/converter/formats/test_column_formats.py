"""parquet and arrow: bytes don't depend on the sizes of batches, Arrow, DuckDB and our decoder read every value, and damage is detected."""

import io
from typing import Any

import duckdb
import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.builders.examples import examples
from tests.converter.formats.columns import IPC, PARQUET, Written, all_same, any_columns, expected, plain, same, table_of, tensors, written
from tests.fuzz.damage import damaged

from dataprep_converter.core.errors import BadData, BadSpec, BrokenRecord
from dataprep_converter.formats.columnar.tables_encoder import Groups, schema_of

BOTH = pytest.mark.parametrize("format_", ["parquet", "arrow"])
LIMITS = {"parquet": ("rowGroupSize", "rowGroupRecords"), "arrow": ("batchSize", "batchRecords")}


def group_sizes(made: Written) -> list[int]:
    """Return the number of records in each row group or record batch."""
    if made.output.format == "parquet":
        metadata = PARQUET.ParquetFile(io.BytesIO(made.data)).metadata
        return [metadata.row_group(number).num_rows for number in range(metadata.num_row_groups)]
    file = IPC.open_file(io.BytesIO(made.data))
    return [file.get_batch(number).num_rows for number in range(file.num_record_batches)]


# --- all values ---------------------------------------------------------------------------------------------------


@pytest.mark.slow
@BOTH
@settings(max_examples=examples(15))
@given(drawn=any_columns(), records=st.none() | st.integers(1, 5), compression=st.sampled_from(["None", "Zstd"]))
def test_every_value_comes_back_and_the_cuts_change_no_byte(
    format_: str, drawn: tuple[dict[str, Any], list[str], list[int]], records: int | None, compression: str
) -> None:
    columns, sequences, cuts = drawn
    options: dict[str, Any] = {LIMITS[format_][1]: records, "compression": compression}
    made = written(format_, columns, sequences=sequences, cuts=cuts, options=options)
    assert made.data == written(format_, columns, sequences=sequences, options=options).data
    found = table_of(made)
    found.validate(full=True)
    assert found.column_names == list(columns)
    for name, column in columns.items():
        assert same(plain(found[name].combine_chunks()), plain(column)), name
    assert all_same(made.records(size=997), expected(columns, sequences))


@BOTH
def test_what_lies_beside_a_slice_and_below_a_null_is_not_written(format_: str) -> None:
    under = pa.array([7, 8, 9], pa.int64(), mask=np.array([False, True, False]))
    words = pa.array(["a", "secret", "c"], mask=np.array([False, True, False]))
    flags = pa.array([True] * 9).slice(3, 3)
    one = written(format_, {"n": under, "t": words, "b": flags}, options={"compression": "None"})
    other = written(
        format_, {"n": pa.array([7, None, 9]), "t": pa.array(["a", None, "c"]), "b": pa.array([True] * 3)}, options={"compression": "None"}
    )
    assert one.data == other.data
    assert b"secret" not in one.data


@BOTH
def test_types_are_kept(format_: str) -> None:
    columns = {
        "image": tensors([[[1, 2], [3, 4]]], dtype="uint8"),
        "vector": tensors([1, 2, 3], dtype="float32"),
        "half": pa.array([np.float16(1.5)], pa.float16()),
        "small": pa.array([1], pa.uint8()),
        "name": pa.array(["ä"], pa.large_string()),
        "jpeg": pa.array([b"\xff\xd8"], pa.large_binary()),
        "boxes": pa.array([[1.5]], pa.large_list(pa.float64())),
        "walk": pa.array([[[1.0, 2.0]]], pa.list_(pa.list_(pa.float32(), 2))),
        "label": pa.array([3], pa.int32()),
    }
    schema = table_of(written(format_, columns, labels=["label"], sequences=["walk"])).schema
    assert {field.name: field.type for field in schema} == {
        "image": pa.fixed_shape_tensor(pa.uint8(), (1, 2, 2)),
        "vector": pa.list_(pa.float32(), 3),
        "half": pa.float16(),
        "small": pa.uint8(),
        "name": pa.string(),
        "jpeg": pa.binary(),
        "boxes": schema.field("boxes").type,
        "walk": schema.field("walk").type,
        "label": pa.int32(),
    }
    assert schema.field("boxes").type.value_type == pa.float64()
    assert schema.field("walk").type.value_type == pa.list_(pa.float32(), 2)
    assert schema.names == list(columns)


@BOTH
def test_columns_stand_in_the_order_of_the_spec_and_labels_last(format_: str) -> None:
    columns = {"z": pa.array([1]), "y": pa.array([2]), "a": pa.array([3])}
    assert table_of(written(format_, columns, labels=["y"])).column_names == ["z", "a", "y"]


@BOTH
def test_a_shard_without_records_has_its_columns(format_: str) -> None:
    made = written(format_, {"n": pa.array([], pa.int16()), "t": pa.array([], pa.string())})
    assert table_of(made).schema.types == [pa.int16(), pa.string()]
    assert (made.records(), group_sizes(made)) == ([], [])


@BOTH
def test_text_that_is_not_utf8_is_refused(format_: str) -> None:
    broken = pa.array([b"\xff"], pa.binary()).view(pa.string())
    with pytest.raises(BadData, match="The feature 't' has a text that isn't UTF-8."):
        written(format_, {"t": broken})


# --- groups -------------------------------------------------------------------------------------------------------


@BOTH
@pytest.mark.parametrize("cuts", [[], [1], [3, 4], list(range(10))], ids=str)
def test_groups_end_where_one_of_their_limits_is_reached(format_: str, cuts: list[int]) -> None:
    size, records = LIMITS[format_]
    column = {"x": pa.array(range(10), pa.int64())}
    assert group_sizes(written(format_, column, cuts=cuts)) == [10]
    assert group_sizes(written(format_, column, cuts=cuts, options={records: 4})) == [4, 4, 2]
    assert group_sizes(written(format_, column, cuts=cuts, options={size: 24})) == [3, 3, 3, 1]
    assert group_sizes(written(format_, column, cuts=cuts, options={size: 1})) == [1] * 10
    texts = {"t": pa.array(["a" * length for length in (1, 90, 1, 1, 1)])}
    assert group_sizes(written(format_, texts, cuts=cuts, options={size: 15})) == [1, 1, 3]


@pytest.mark.parametrize(("format_", "sizes"), [("parquet", [6, 4]), ("arrow", [10])])
def test_a_number_counts_as_many_bytes_as_the_format_needs_for_it(format_: str, sizes: list[int]) -> None:
    assert group_sizes(written(format_, {"x": pa.array(range(10), pa.uint8())}, options={LIMITS[format_][0]: 24})) == sizes


def test_a_group_is_given_out_when_the_next_record_is_of_another() -> None:
    made = written("arrow", {"x": pa.array([0])})
    groups = Groups(made.features, most_bytes=1 << 20, most_records=4)
    batch = pa.record_batch({"x": pa.array(range(6))})
    assert [[group.num_rows for group in groups.add(batch)] for _ in range(3)] == [[4], [4], [4, 4]]
    rest = groups.rest()
    assert rest is not None
    assert (rest.num_rows, rest.schema) == (2, schema_of(made.features))
    assert groups.rest() is None


# --- options ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("compression", "expected_name"), [("None", "UNCOMPRESSED"), ("Snappy", "SNAPPY"), ("Zstd", "ZSTD"), ("Gzip", "GZIP")]
)
def test_pages_of_parquet_are_compressed(compression: str, expected_name: str) -> None:
    made = written("parquet", {"x": pa.array([1] * 100)}, options={"compression": compression})
    assert PARQUET.ParquetFile(io.BytesIO(made.data)).metadata.row_group(0).column(0).compression == expected_name
    assert made.records() == [{"x": [1]}] * 100


@pytest.mark.parametrize("compression", ["None", "Lz4", "Zstd"])
def test_buffers_of_arrow_are_compressed(compression: str) -> None:
    plainly = written("arrow", {"x": pa.array([1] * 10_000)})
    made = written("arrow", {"x": pa.array([1] * 10_000)}, options={"compression": compression})
    assert (len(made.data) < len(plainly.data) // 10) == (compression != "None")
    assert len(made.records()) == 10_000


@pytest.mark.parametrize(
    ("format_", "options", "message"),
    [
        ("parquet", {"rowGroupSize": "2Gi"}, "output.parquet.rowGroupSize must be at most 1Gi, got 2Gi."),
        ("arrow", {"batchSize": "2Gi"}, "output.arrow.batchSize must be at most 1Gi, got 2Gi."),
        (
            "parquet",
            {"compression": "Gzip", "compressionLevel": 10},
            "output.parquet.compressionLevel 10 isn't a level of Gzip; these compressions have levels: Zstd (1 to 22), Gzip (1 to 9).",
        ),
        (
            "parquet",
            {"compressionLevel": 1},
            "output.parquet.compressionLevel 1 isn't a level of Snappy; these compressions have levels: Zstd (1 to 22), Gzip (1 to 9).",
        ),
    ],
)
def test_options_that_can_not_be_are_refused(format_: str, options: dict[str, Any], message: str) -> None:
    with pytest.raises(BadSpec) as caught:
        written(format_, {"x": pa.array([1])}, options=options)
    assert str(caught.value) == message


def test_the_level_of_a_compression_changes_the_bytes() -> None:
    column = {"x": pa.array(np.arange(50_000) % 977)}
    sizes = [len(written("parquet", column, options={"compression": "Gzip", "compressionLevel": level}).data) for level in (1, 9)]
    assert sizes[1] < sizes[0]


# --- other readers ------------------------------------------------------------------------------------------------


@BOTH
def test_duckdb_reads_every_field(format_: str, tmp_path: Any) -> None:
    columns = {
        "n": pa.array([2**63 - 1, None, -(2**63)], pa.int64()),
        "f": pa.array([0.1, float("inf"), None], pa.float32()),
        "t": pa.array(['a "b"\n', "", None]),
        "b": pa.array([b"\xff\x00", b"", None]),
        "v": tensors([1, 2], [3, 4], [5, 6]),
        "m": tensors([[1], [2]], [[3], [4]], [[5], [6]], dtype="uint8"),
        "l": pa.array([["x"], [], None]),
        "s": pa.array([[[1.0, 2.0]], [], [[3.0, 4.0]]], pa.list_(pa.list_(pa.float64(), 2))),
        "label": pa.array([True, False, None]),
    }
    made = written(format_, columns, labels=["label"], sequences=["s"])
    if format_ == "parquet":
        (tmp_path / "x.parquet").write_bytes(made.data)
        found: Any = duckdb.sql(f"SELECT * FROM '{tmp_path}/x.parquet'")  # noqa: S608 - the path is the test's own
    else:
        # DuckDB reads Arrow data from memory, and supports none of Arrow's extension types.
        shard = {name: table_of(made)[name].combine_chunks() for name in columns}
        found = duckdb.from_arrow(pa.table({name: getattr(column, "storage", column) for name, column in shard.items()}))
    assert found.columns == list(columns)
    rows = [dict(zip(found.columns, row, strict=True)) for row in found.fetchall()]
    assert [row["n"] for row in rows] == [2**63 - 1, None, -(2**63)]
    assert [row["f"] for row in rows] == [np.float32(0.1), np.inf, None]
    assert [row["t"] for row in rows] == ['a "b"\n', "", None]
    assert [row["b"] for row in rows] == [b"\xff\x00", b"", None]
    assert [list(row["v"]) for row in rows] == [[1, 2], [3, 4], [5, 6]]
    assert [list(row["m"]) for row in rows] == [[1, 2], [3, 4], [5, 6]]
    assert [row["l"] for row in rows] == [["x"], [], None]
    assert [[list(step) for step in row["s"]] for row in rows] == [[[1, 2]], [], [[3, 4]]]
    assert [row["label"] for row in rows] == [True, False, None]


# --- broken files -------------------------------------------------------------------------------------------------


@BOTH
def test_every_cut_of_a_file_is_noticed(format_: str) -> None:
    made = written(format_, {"x": pa.array(range(40)), "t": pa.array(["abc"] * 40)}, options={LIMITS[format_][1]: 10})
    for length in range(0, len(made.data), 7):
        with pytest.raises(BrokenRecord, match="not a complete .* file: .* at offset 0"):
            made.records(data=made.data[:length])


def test_a_flipped_bit_in_a_page_of_parquet_is_found_where_it_is() -> None:
    made = written("parquet", {"x": pa.array(range(40))}, options={"rowGroupRecords": 10, "compression": "None"})
    group = PARQUET.ParquetFile(io.BytesIO(made.data)).metadata.row_group(2).column(0)
    at = group.dictionary_page_offset + group.total_compressed_size - 1
    wrong = bytearray(made.data)
    wrong[at] ^= 4
    with pytest.raises(BrokenRecord, match=f"a row group that can't be read: .*CRC.* at offset {group.dictionary_page_offset}"):
        made.records(data=bytes(wrong))


@BOTH
def test_other_columns_than_the_manifest_has_are_named(format_: str) -> None:
    made = written(format_, {"x": pa.array([1])})
    other = written(format_, {"x": pa.array([1.5])})
    with pytest.raises(BrokenRecord, match="the columns are not those of the manifest: x: double instead of x: int64 at offset 0"):
        made.records(data=other.data)
    with pytest.raises(BrokenRecord, match="x: int64 instead of nothing"):
        written(format_, {"y": pa.array([1])}).records(data=written(format_, {"y": pa.array([1]), "x": pa.array([1])}).data)


@BOTH
def test_damage_is_named_or_reads_as_records(format_: str) -> None:
    columns = {"x": pa.array(range(60)), "t": pa.array(["abc", None] * 30), "l": pa.array([[1.5], []] * 30)}
    made = written(format_, columns, options={LIMITS[format_][1]: 25})
    rng = np.random.default_rng(7)
    named = 0
    for _ in range(150):
        try:
            made.records(data=damaged(made.data, rng))
        except BrokenRecord:
            named += 1
    assert named > 75
