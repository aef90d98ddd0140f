"""Tests Arrow IPC files and streams that pyarrow writes: batches, dictionaries, and broken data."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import pyarrow as pa
import pytest
from pyarrow import feather
from tests.converter.readers.reader_contract import ReaderContract, batches, faults, opened, plan, read_all, rows

from dataprep_api.spec import Source
from dataprep_converter.core.errors import BadData, BadSpec
from dataprep_converter.readers import Reader
from dataprep_converter.readers.columnar.arrow import ArrowReader

KINDS = ["file", "stream"]


def put(file: Path, table: pa.Table, *, kind: str, size: int = 3, **options: Any) -> Path:
    """Writes a table to a file. `Any` stands for the writer's options."""
    writer: Any = {"file": pa.ipc.new_file, "stream": pa.ipc.new_stream}[kind]
    ipc: Any = pa.ipc
    with writer(file, table.schema, options=ipc.IpcWriteOptions(**options)) as out:
        for batch in table.to_batches(max_chunksize=size):
            out.write_batch(batch)
    return file


def a_source(*uris: Path | str, **options: Any) -> Source:
    return Source.model_validate({"arrow": {"uris": [str(uri) for uri in uris], **options}})


def records(source: Source) -> list[dict[str, Any]]:
    return [{name: value for name, value in row.items() if name != "_sample"} for row in rows(batches(ArrowReader, source))]


class ArrowContract(ReaderContract):
    reader: ClassVar[type[Reader]] = ArrowReader
    kind: ClassVar[str]

    def a_source(self, folder: Path) -> Source:
        for name, first in (("a", 0), ("b", 1_000)):
            numbers = range(first, first + 30)
            words = pa.array([f"word {n % 3}" for n in numbers]).dictionary_encode()
            lists = [{"l": list(range(n % 3))} for n in numbers]
            table = pa.table({"n": numbers, "word": words, "noise": [str(n) * 50 for n in numbers], "o": lists})
            put(folder / f"{name}.arrow", table, kind=self.kind, size=20)
        return a_source(folder)

    def an_empty_source(self, folder: Path) -> Source:
        return a_source(put(folder / "a.arrow", pa.table({"a": pa.array([], pa.int64())}), kind=self.kind))

    def a_missing_source(self, folder: Path) -> tuple[Source, str]:
        file = put(folder / "a.arrow", pa.table({"a": [1]}), kind=self.kind)
        return a_source(file, folder / "absent.arrow"), str(folder / "absent.arrow")

    def change(self, folder: Path) -> Path:
        return put(folder / "b.arrow", pa.table({"a": [1]}), kind=self.kind)


class TestFiles(ArrowContract):
    kind = "file"


class TestStreams(ArrowContract):
    kind = "stream"


TABLE = {
    "i": list(range(20)),
    "d": pa.array([f"k{n % 4}" for n in range(20)]).dictionary_encode(),
    "o": [{"x": n / 2, "l": [n] * (n % 3)} for n in range(20)],
    "v": pa.array([[n, n] for n in range(20)], pa.list_(pa.float32(), 2)),
    "s": pa.array([f"s{n}" for n in range(20)]).cast(pa.string_view()),
}
EXPECTED = [{"i": n, "d": f"k{n % 4}", "o/x": n / 2, "o/l": [n] * (n % 3), "v": [n, n], "s": f"s{n}"} for n in range(20)]


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize(
    "options",
    [{}, {"compression": "zstd"}, {"compression": "lz4"}, {"use_legacy_format": True}, {"metadata_version": pa.ipc.MetadataVersion.V4}],
    ids=["plain", "zstd", "lz4", "before 0.15", "V4"],
)
def test_every_way_of_writing_has_the_same_rows(tmp_path: Path, kind: str, options: dict[str, Any]) -> None:
    source = a_source(put(tmp_path / "a.arrow", pa.table(TABLE), kind=kind, size=7, **options))
    units, _ = plan(ArrowReader, source)
    assert units.table["records"].to_pylist() == [7, 7, 6]
    assert records(source) == EXPECTED


def test_feather_is_read(tmp_path: Path) -> None:
    feather.write_feather(pa.table({"a": list(range(10))}), str(tmp_path / "a.feather"), chunksize=4)
    assert records(a_source(tmp_path)) == [{"a": n} for n in range(10)]


@pytest.mark.parametrize("deltas", [False, True], ids=["replaced", "added to"])
def test_a_dictionary_that_changes_within_a_stream_is_that_of_the_batch(tmp_path: Path, deltas: bool) -> None:
    words = ["a", "b", "c", "d"]
    parts = [pa.DictionaryArray.from_arrays(pa.array([0, size - 1]), words[:size]) for size in (1, 2, 4)]
    ipc: Any = pa.ipc
    with ipc.new_stream(
        tmp_path / "a.arrow", pa.schema([("w", parts[0].type)]), options=ipc.IpcWriteOptions(emit_dictionary_deltas=deltas)
    ) as out:
        for part in parts:
            out.write_batch(pa.record_batch({"w": part}))
    assert [record["w"] for record in records(a_source(tmp_path))] == ["a", "a", "a", "b", "a", "d"]
    backwards = rows(batches(ArrowReader, a_source(tmp_path), size=1, order=np.arange(5, -1, -1)))
    assert [row["w"] for row in backwards] == ["d", "a", "b", "a", "a", "a"]


def test_planning_reads_no_batch(tmp_path: Path) -> None:
    big = pa.table({"a": [b"x" * 1_000_000] * 6})
    file = put(tmp_path / "a.arrow", big, kind="stream", size=1)
    # Planning reads only the batches' metadata, so it doesn't notice that this test damages the batches' values.
    whole = bytearray(file.read_bytes())
    place = whole.index(b"x" * 1_000_000)
    whole[place : place + 1_000_000] = b"y" * 1_000_000
    file.write_bytes(whole)
    assert plan(ArrowReader, a_source(file))[0].samples == 6


def test_columns_are_chosen_and_nulls_have_defaults(tmp_path: Path) -> None:
    table = pa.table({"a": [1, None, 3], "b": ["x", "y", None], "c": [None, [1], []], "z": pa.nulls(3)})
    file = put(tmp_path / "a.arrow", table, kind="file")
    assert records(a_source(file, columns=["c", "a"], defaults={"a": "7", "c": "[]"})) == [
        {"c": [], "a": 1},
        {"c": [1], "a": 7},
        {"c": [], "a": 3},
    ]
    found = batches(ArrowReader, a_source(file, columns=["b", "a"]), nulls="Bad")
    assert faults(found) == {1: "column 'a' has no value and no default", 2: "column 'b' has no value and no default"}
    assert [row["b"] for row in rows(found)] == ["x"]


@pytest.mark.parametrize("kind", KINDS)
def test_text_that_is_not_utf8_is_bad(tmp_path: Path, kind: str) -> None:
    words = pa.array([b"a", b"\xff", b"b"]).view(pa.string())
    large = pa.array([b"a", b"b", b"\xff", b"c"], pa.large_binary()).view(pa.large_string())
    table = pa.table(
        {
            "s": pa.concat_arrays([words, words.slice(2)]),
            "l": large,
            "d": pa.DictionaryArray.from_arrays(pa.array([0, 2, 0, 1]), words),
            "o": [{"l": ["a"]}] * 4,
        }
    )
    found = batches(ArrowReader, a_source(put(tmp_path / "a.arrow", table, kind=kind, size=4)))
    assert faults(found) == {1: "column 's' is not UTF-8", 2: "column 'l' is not UTF-8", 3: "column 'd' is not UTF-8"}
    assert [row["_sample"] for row in rows(found)] == [0]


@pytest.mark.parametrize("as_list", [False, True], ids=["a struct", "a list of structs"])
def test_seconds_that_milliseconds_can_not_hold_spoil_only_their_record(tmp_path: Path, as_list: bool) -> None:
    seconds = pa.array([0, 2**63 // 1000 + 5, None, 86_400, -(2**63 // 1000) - 5], pa.timestamp("s"))
    structs: Any = pa.StructArray.from_arrays([seconds], names=["t"])
    lists: Any = pa.FixedSizeListArray.from_arrays(structs, 1)
    file = put(tmp_path / "a.arrow", pa.table({"n": range(5), "s": lists if as_list else structs}), kind="file", size=5)
    found = batches(ArrowReader, a_source(file, nested=["s"]))
    texts = ['{"t":"1970-01-01T00:00:00.000"}', '{"t":null}', '{"t":"1970-01-02T00:00:00.000"}']
    assert [(row["n"], row["s"]) for row in rows(found)] == [
        (n, f"[{text}]" if as_list else text) for n, text in zip((0, 2, 3), texts, strict=True)
    ]
    kind = "fixed_size_list<item: struct<t: timestamp[ms]>>[1]" if as_list else "struct<t: timestamp[ms]>"
    assert {row: reason.partition(": Casting")[0] for row, reason in faults(found).items()} == {
        1: f"column 's' has a value that {kind} can't hold",
        4: f"column 's' has a value that {kind} can't hold",
    }


def test_files_that_differ_are_both_named(tmp_path: Path) -> None:
    first = put(tmp_path / "a.arrow", pa.table({"a": [1]}), kind="file")
    put(tmp_path / "b.arrow", pa.table({"a": ["x"]}), kind="stream")
    with pytest.raises(BadSpec) as caught:
        plan(ArrowReader, a_source(tmp_path))
    assert str(caught.value) == (
        f"{tmp_path}/b.arrow: the column 'a' is string, but int64 in {first}; no common type holds both. "
        "Leave it out of source.arrow.columns, or write the files with one type."
    )


def test_a_column_that_records_cannot_hold_is_refused_by_name(tmp_path: Path) -> None:
    file = put(tmp_path / "a.arrow", pa.table({"a": pa.array([1], pa.uint64())}), kind="file")
    with pytest.raises(
        BadSpec, match=r"a\.arrow: the column 'a' is uint64, which records can't contain\. Leave it out of source\.arrow\.columns"
    ):
        plan(ArrowReader, a_source(file))


# --- broken data --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"", "is empty, so it isn't Arrow IPC data."),
        (b"PAR1" * 9, "isn't Arrow IPC data, but Parquet, read it with source.parquet."),
        (b"FEA1" * 9, "isn't Arrow IPC data, but Feather v1, write it again with version=2."),
        (b"ARROW1\0\0" + b"x" * 30, "is truncated: an Arrow file ends with ARROW1."),
        (b"plain text, as everywhere", "isn't complete Arrow IPC data: there is no message at byte 0."),
        (b"\xff\xff\xff\xff\x10\0\0\0" + b"\xff" * 16, "isn't complete Arrow IPC data: there is no message at byte 0."),
    ],
)
def test_a_file_that_is_no_arrow_is_named(tmp_path: Path, content: bytes, message: str) -> None:
    (tmp_path / "a.arrow").write_bytes(content)
    with pytest.raises(BadData) as caught:
        plan(ArrowReader, a_source(tmp_path))
    assert str(caught.value) == f"{tmp_path}/a.arrow {message}"


def test_a_stream_that_ends_within_a_batch_is_truncated(tmp_path: Path) -> None:
    file = put(tmp_path / "a.arrow", pa.table({"a": list(range(1000))}), kind="stream", size=1000)
    file.write_bytes(file.read_bytes()[:-100])
    with pytest.raises(
        BadData, match=r"a\.arrow is truncated: the message at byte [\d,]+ has [\d,]+ bytes, but the file ends before that\."
    ):
        plan(ArrowReader, a_source(file))


def test_a_stream_without_its_end_is_read(tmp_path: Path) -> None:
    file = put(tmp_path / "a.arrow", pa.table({"a": [1, 2]}), kind="stream")
    file.write_bytes(file.read_bytes().removesuffix(b"\xff\xff\xff\xff\0\0\0\0"))
    assert records(a_source(file)) == [{"a": 1}, {"a": 2}]


def test_a_stream_that_begins_with_a_batch_is_refused(tmp_path: Path) -> None:
    batch = pa.record_batch({"a": [1]})
    (tmp_path / "a.arrow").write_bytes(batch.serialize().to_pybytes())
    with pytest.raises(BadData, match=r"a\.arrow is not Arrow IPC data: it doesn't begin with a schema\."):
        plan(ArrowReader, a_source(tmp_path))


def flipped(whole: bytes, *, times: int) -> Iterator[bytes]:
    random = np.random.default_rng(5)
    for _ in range(times):
        broken = bytearray(whole)
        for place in random.integers(8, len(whole), 3):
            broken[place] ^= int(random.integers(1, 256))
        yield bytes(broken)


@pytest.mark.parametrize("kind", KINDS)
def test_flipped_bytes_give_an_error_or_other_values_but_no_crash(tmp_path: Path, kind: str) -> None:
    table = pa.table({"i": list(range(8)), "d": pa.array(["x", "y"] * 4).dictionary_encode(), "l": [[str(n)] for n in range(8)]})
    file = put(tmp_path / "a.arrow", table, kind=kind, size=4)
    told: list[str] = []
    for broken in flipped(file.read_bytes(), times=150):
        file.write_bytes(broken)
        try:
            units, state = plan(ArrowReader, a_source(file))
            if units.samples <= 1000:
                read_all(opened(ArrowReader, a_source(file), state), units, iter([np.arange(units.samples)]))
        except (BadData, BadSpec) as exc:
            told.append(str(exc))
    assert all(str(file) in message for message in told)
    assert len(told) > 50
