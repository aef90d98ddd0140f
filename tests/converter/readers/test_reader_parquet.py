"""Tests Parquet files that pyarrow writes: columns, nulls, row groups, and files that are broken or don't match."""

from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.converter.readers.reader_contract import ReaderContract, batches, faults, opened, plan, rows

from dataprep_api.dataset.run_id import NullRule
from dataprep_api.spec import Output, Source
from dataprep_converter.core.errors import BadData, BadSpec
from dataprep_converter.core.tensors import arrow_type, to_arrow
from dataprep_converter.formats.tfrecord.records import parse_example, read
from dataprep_converter.formats.tfrecord.tfrecord_encoder import TfrecordEncoder
from dataprep_converter.pipeline.features import resolve
from dataprep_converter.readers import Reader
from dataprep_converter.readers.columnar import parquet
from dataprep_converter.readers.columnar.parquet import ParquetReader


def put(file: Path, columns: dict[str, Any], **options: Any) -> Path:
    """Writes columns to a Parquet file. `Any` stands for a column's values, an Arrow array, or the writer's options."""
    writer: Any = pq
    writer.write_table(pa.table(columns), file, **options)
    return file


def a_source(*uris: Path | str, **options: Any) -> Source:
    return Source.model_validate({"parquet": {"uris": [str(uri) for uri in uris], **options}})


def of(folder: Path, table: dict[str, Any], **options: Any) -> Source:
    return a_source(put(folder / "a.parquet", table, row_group_size=3), **options)


def records(source: Source) -> list[dict[str, Any]]:
    return [{name: value for name, value in row.items() if name != "_sample"} for row in rows(batches(ParquetReader, source))]


class ParquetContract(ReaderContract):
    reader: ClassVar[type[Reader]] = ParquetReader
    part_bytes: ClassVar[int]

    @pytest.fixture(autouse=True)
    def small_parts(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(parquet, "PART_BYTES", self.part_bytes)

    def a_source(self, folder: Path) -> Source:
        random = np.random.default_rng(1)
        for name, first in (("a", 0), ("b", 1_000)):
            numbers = range(first, first + 30)
            noise = [random.bytes(200) for _ in numbers]
            lists = [list(range(n % 3)) for n in numbers]
            put(
                folder / f"{name}.parquet",
                {"n": numbers, "noise": noise, "o": [{"l": each} for each in lists]},
                row_group_size=20,
            )
        return a_source(folder)

    def an_empty_source(self, folder: Path) -> Source:
        return of(folder, {"a": pa.array([], pa.int64())})

    def a_missing_source(self, folder: Path) -> tuple[Source, str]:
        file = put(folder / "a.parquet", {"a": [1]})
        return a_source(file, folder / "absent.parquet"), str(folder / "absent.parquet")

    def change(self, folder: Path) -> Path:
        return put(folder / "b.parquet", {"a": [1]})


class TestWholeRowGroups(ParquetContract):
    part_bytes = 8 << 20


class TestRowGroupsInParts(ParquetContract):
    part_bytes = 1500


# --- columns ------------------------------------------------------------------------------------------------------

HELD: dict[str, tuple[Any, pa.DataType, Any]] = {
    "int8": (pa.array([-7], pa.int8()), pa.int8(), -7),
    "uint32": (pa.array([2**32 - 1], pa.uint32()), pa.uint32(), 2**32 - 1),
    "float16": (pa.array([np.float16(0.5)]), pa.float16(), 0.5),
    "float64": (pa.array([0.1]), pa.float64(), 0.1),
    "bool": (pa.array([True]), pa.bool_(), True),
    "string": (pa.array(["é"]), pa.string(), "é"),
    "large string": (pa.array(["é"], pa.large_string()), pa.large_string(), "é"),
    "binary": (pa.array([b"\xff"]), pa.binary(), b"\xff"),
    "fixed binary": (pa.array([b"ab"], pa.binary(2)), pa.large_binary(), b"ab"),
    "dictionary": (pa.array(["x"]).dictionary_encode(), pa.string(), "x"),
    "decimal": (pa.array([1.25]).cast(pa.decimal128(10, 2)), pa.float64(), 1.25),
    "date": (pa.array([19_000], pa.date32()), pa.int64(), 19_000),
    "timestamp": (pa.array([1_700_000_000_000_001], pa.timestamp("us", "UTC")), pa.int64(), 1_700_000_000_000_001),
    "time": (pa.array([5], pa.time32("ms")), pa.int64(), 5),
    "duration": (pa.array([5], pa.duration("ns")), pa.int64(), 5),
    "list": (pa.array([[1, 2]], pa.list_(pa.int16())), pa.list_(pa.int16()), [1, 2]),
    "list of dates": (pa.array([[1, 2]], pa.large_list(pa.date32())), pa.large_list(pa.int64()), [1, 2]),
    "list of words": (pa.array([["a", ""]]), pa.list_(pa.string()), ["a", ""]),
    "vector": (pa.array([[1, 2]], pa.list_(pa.float32(), 2)), arrow_type("float32", (2,)), [1, 2]),
    "tensor": (
        to_arrow(np.array([[[1, 2], [3, 4]]], np.int8)), arrow_type("int8", (2, 2)), [1, 2, 3, 4],
    ),
}  # fmt: skip


@pytest.mark.parametrize(("column", "kind", "value"), HELD.values(), ids=HELD.keys())
def test_a_column_has_a_type_that_records_hold(tmp_path: Path, column: Any, kind: pa.DataType, value: Any) -> None:
    source = of(tmp_path, {"c": column, "o": pa.StructArray.from_arrays([column], names=["c"])})
    units, state = plan(ParquetReader, source)
    assert opened(ParquetReader, source, state).schema().types == [kind, kind]
    assert units.samples == 1
    assert records(source) == [{"c": value, "o/c": value}]


@pytest.mark.parametrize(
    ("column", "described", "advice"),
    [
        (pa.array([1], pa.uint64()), "uint64", "int64"),
        (pa.nulls(1), "null", "it has no values at all"),
    ],
    ids=["uint64", "null"],
)
def test_a_column_that_records_cannot_hold_is_refused_by_name(tmp_path: Path, column: Any, described: str, advice: str) -> None:
    source = of(tmp_path, {"a": [1], "o": pa.StructArray.from_arrays([column], names=["c"])})
    with pytest.raises(BadSpec) as caught:
        plan(ParquetReader, source)
    assert str(caught.value) == (
        f"{tmp_path / 'a.parquet'}: the column 'o/c' is {described}, which records can't contain. "
        f"Leave it out of source.parquet.columns, or write the file with another type ({advice})."
    )
    assert records(of(tmp_path, {"a": [1], "c": column}, columns=["a"])) == [{"a": 1}]


@pytest.mark.parametrize(
    ("column", "text"),
    [
        (pa.array([[(1, 2), (3, None)]], pa.map_(pa.int8(), pa.int8())), "[[1,2],[3,null]]"),
        (pa.array([[("k", 0.1)]], pa.map_(pa.string(), pa.float32())), '{"k":0.1}'),
        (pa.array([[[1], None]]), "[[1],null]"),
        (pa.array([[{"x": 1}]]), '[{"x":1}]'),
    ],
    ids=["map", "map of text", "lists of lists", "lists of structs"],
)
def test_a_nested_column_is_json(tmp_path: Path, column: Any, text: str) -> None:
    source = of(tmp_path, {"c": column, "o": pa.StructArray.from_arrays([column], names=["c"])})
    assert records(source) == [{"c": text, "o/c": text}]


def test_columns_are_chosen_in_their_own_order_with_all_of_a_struct(tmp_path: Path) -> None:
    table = {"a": [1], "o": [{"x": 2, "y": {"z": 3}}], "b.c": [4], "b": [5]}
    assert records(of(tmp_path, table, columns=["b.c", "o", "a"])) == [{"b.c": 4, "o/x": 2, "o/y/z": 3, "a": 1}]
    assert records(of(tmp_path, table, columns=["o/y/z", "b"])) == [{"o/y/z": 3, "b": 5}]
    assert records(of(tmp_path, table)) == [{"a": 1, "o/x": 2, "o/y/z": 3, "b.c": 4, "b": 5}]


def test_only_the_chosen_columns_are_read(tmp_path: Path) -> None:
    noise = np.random.default_rng(0).bytes
    source = of(tmp_path, {"a": list(range(9)), "big": [noise(100_000) for _ in range(9)]}, columns=["a"])
    units, _ = plan(ParquetReader, source)
    assert units.table["size"].to_numpy().sum() < 1000
    assert sum(batch.bytes_in for batch in batches(ParquetReader, source)) < 70_000


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"columns": ["aq"]}, r"source\.parquet\.columns: .*a\.parquet has no column 'aq'\. Did you mean 'a'\? It has a, o/x\."),
        ({"columns": ["o/x", "o"]}, r"source\.parquet\.columns: the column 'o/x' occurs twice"),
        ({"defaults": {"z": "1"}}, r"source\.parquet\.defaults: there is no column 'z'; the columns are a, o/x"),
        ({"defaults": {"a": "x"}}, r"source\.parquet\.defaults: the default 'x' of 'a' is not a int64\."),
        ({"defaults": {"a": "1.5"}}, r"the default '1\.5' of 'a' is not a int64\."),
    ],
)
def test_a_spec_that_does_not_match_the_columns_is_refused(tmp_path: Path, options: dict[str, Any], message: str) -> None:
    with pytest.raises(BadSpec, match=message):
        plan(ParquetReader, of(tmp_path, {"a": [1], "o": [{"x": 1}]}, **options))


def test_files_that_differ_are_both_named(tmp_path: Path) -> None:
    first = put(tmp_path / "a.parquet", {"a": [1], "b": [2]})
    put(tmp_path / "b.parquet", {"a": ["x"], "b": [1]})
    with pytest.raises(BadSpec) as caught:
        plan(ParquetReader, a_source(tmp_path))
    assert str(caught.value) == (
        f"{tmp_path}/b.parquet: the column 'a' is string, but int64 in {first}; no common type holds both. "
        "Leave it out of source.parquet.columns, or write the files with one type."
    )


def test_the_order_of_columns_and_what_was_not_chosen_may_differ(tmp_path: Path) -> None:
    put(tmp_path / "a.parquet", {"a": [1], "b": ["x"], "c": [1]})
    put(tmp_path / "b.parquet", {"c": ["y"], "b": pa.array(["z"]).dictionary_encode(), "a": [2]})
    assert records(a_source(tmp_path, columns=["a", "b"])) == [{"a": 1, "b": "x"}, {"a": 2, "b": "z"}]


# --- values -------------------------------------------------------------------------------------------------------


def test_a_null_has_the_default(tmp_path: Path) -> None:
    table = {
        "i": [1, None],
        "s": ["", None],
        "b": [b"x", None],
        "o": [{"x": 2.0, "l": [1]}, None],
        "t": pa.array([5, None], pa.timestamp("us")),
        "d": pa.array([True, None]),
    }
    defaults = {"i": "-1", "s": "none", "b": "raw", "o/x": "1", "o/l": "[7, 8]", "t": "9", "d": "false"}
    assert records(of(tmp_path, table, defaults=defaults)) == [
        {"i": 1, "s": "", "b": b"x", "o/x": 2.0, "o/l": [1], "t": 5, "d": True},
        {"i": -1, "s": "none", "b": b"raw", "o/x": 1.0, "o/l": [7, 8], "t": 9, "d": False},
    ]


def test_a_row_with_a_null_is_bad_and_moves_no_other(tmp_path: Path) -> None:
    table = {
        "i": [0, None, 2, 3, 4, 5, 6],
        "o": [{"l": [0]}, {"l": [1]}, None, {"l": [3, None]}, {"l": []}, {"l": [5]}, {"l": [6]}],
        "v": pa.array([[0, 0], [1, 1], [2, 2], [3, 3], None, [5, None], [6, 6]], pa.list_(pa.int64(), 2)),
    }
    found = batches(ParquetReader, of(tmp_path, table), nulls="Bad")
    assert faults(found) == {
        1: "column 'i' has no value and no default",
        2: "column 'o/l' has no value and no default",
        3: "column 'o/l' has a null among its values; add nested: [\"o/l\"] to source.parquet to keep such lists",
        4: "column 'v' has no value and no default",
        5: "column 'v' has a null among its values; add nested: [\"v\"] to source.parquet to keep such lists",
    }
    assert [(row["_sample"], row["i"], row["o/l"], row["v"]) for row in rows(found)] == [(0, 0, [0], [0, 0]), (6, 6, [6], [6, 6])]


def test_text_that_is_not_utf8_is_bad(tmp_path: Path) -> None:
    broken = pa.array([b"a", b"\xff", "é".encode(), b"\xc3"]).view(pa.string())
    lists = pa.ListArray.from_arrays([0, 0, 0, 2, 4], broken)
    assert faults(batches(ParquetReader, of(tmp_path, {"s": broken, "l": lists}))) == {
        1: "column 's' is not UTF-8",
        2: "column 'l' is not UTF-8",
        3: "column 's' is not UTF-8",
    }


def test_rows_of_any_group_size_codec_and_version_are_the_same(tmp_path: Path) -> None:
    table = {"i": list(range(100)), "s": [f"{n}" * (n % 5) for n in range(100)], "l": [[float(n)] * (n % 4) for n in range(100)]}
    expected = [dict(zip(table, row, strict=True)) for row in zip(*table.values(), strict=True)]
    for options in (
        {"row_group_size": 7, "compression": "none", "use_dictionary": False},
        {"row_group_size": 1000, "compression": "zstd", "data_page_version": "2.0"},
        {"row_group_size": 33, "compression": "gzip", "version": "1.0", "data_page_size": 64, "write_page_checksum": True},
    ):
        assert records(a_source(put(tmp_path / "a.parquet", table, **options))) == expected


@pytest.mark.slow
@given(
    st.lists(
        st.tuples(st.integers(-(2**63), 2**63 - 1) | st.none(), st.text(), st.lists(st.floats(allow_nan=False)) | st.none()), max_size=20
    ),
    st.integers(1, 9),
    st.sampled_from([60, 8 << 20]),
    st.randoms(),
)
def test_every_row_is_a_record_or_a_bad_one_in_any_order(
    tmp_path_factory: pytest.TempPathFactory, made: list[tuple[Any, ...]], group: int, part: int, random: Any
) -> None:
    schema = {"i": pa.int64(), "s": pa.string(), "l": pa.list_(pa.float64())}
    columns = {name: pa.array([row[at] for row in made], kind) for at, (name, kind) in enumerate(schema.items())}
    source = a_source(put(tmp_path_factory.mktemp("parquet") / "a.parquet", columns, row_group_size=group))
    order = list(range(len(made)))
    random.shuffle(order)
    rules: tuple[NullRule, ...] = ("Keep", "Bad")
    for nulls in rules:
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(parquet, "PART_BYTES", part)
            found = batches(ParquetReader, source, size=4, order=np.array(order, np.int64), nulls=nulls)
        whole = [number for number in order if nulls == "Keep" or None not in made[number]]
        assert [tuple(row.values()) for row in rows(found)] == [(*made[number], number) for number in whole]
        assert sorted([*whole, *faults(found)]) == sorted(order)


# --- broken files -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("content", [b"", b"PAR1", b"no parquet at all, but long enough for it", b"PAR1" + b"\xff" * 40 + b"PAR1"])
def test_a_file_that_is_no_parquet_is_named(tmp_path: Path, content: bytes) -> None:
    (tmp_path / "a.parquet").write_bytes(content)
    with pytest.raises(BadData, match=r"a\.parquet is not a readable Parquet file: "):
        plan(ParquetReader, a_source(tmp_path))


def test_a_file_without_columns_is_refused(tmp_path: Path) -> None:
    with pytest.raises(BadSpec, match=r"a\.parquet has no columns\."):
        plan(ParquetReader, of(tmp_path, {}))


def test_flipped_bytes_give_an_error_or_other_values_but_no_crash(tmp_path: Path) -> None:
    file = put(tmp_path / "a.parquet", {"i": list(range(50)), "s": ["text"] * 50, "l": [[n] for n in range(50)]}, write_page_checksum=True)
    whole = file.read_bytes()
    random = np.random.default_rng(5)
    told: list[str] = []
    for _ in range(150):
        broken = bytearray(whole)
        for place in random.integers(4, len(whole), 3):
            broken[place] ^= int(random.integers(1, 256))
        file.write_bytes(broken)
        try:
            assert len(records(a_source(file))) <= 50
        except (BadData, BadSpec) as exc:
            told.append(str(exc))
    assert all(str(file) in message for message in told)
    assert len(told) > 100


# --- end to end ---------------------------------------------------------------------------------------------------


def test_lists_and_vectors_become_features_that_protobuf_reads(tmp_path: Path) -> None:
    table = {
        "w": [["a", "bc"], []],
        "x": pa.array([[0.5], []], pa.list_(pa.float32())),
        "v": pa.array([[1, 2], [3, 4]], pa.list_(pa.int64(), 2)),
    }
    source = of(tmp_path, table)
    units, state = plan(ParquetReader, source)
    with opened(ParquetReader, source, state) as reader:
        projector = resolve(None, None, schema=reader.schema(), default_label="label")
        encoder = TfrecordEncoder(Output(uri="x"), projector.features)
        (batch,) = reader.read(units, iter([np.arange(2)]))
        made = [parse_example(payload) for _, payload in read([bytes(encoder.encode(projector.project(batch).records))])]
        assert made == [{"w": [b"a", b"bc"], "x": [0.5], "v": [1, 2]}, {"w": [], "x": [], "v": [3, 4]}]
