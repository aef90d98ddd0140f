"""Tests plug-ins: the values that a user's function is allowed to yield, and the errors if it fails."""

import hashlib
import os
import struct
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import pyarrow as pa
import pytest
from tests.converter.readers.reader_contract import ReaderContract, batches, plan, rows

from dataprep_api.spec import Source, Transform
from dataprep_converter.core.errors import BadData, BadSpec
from dataprep_converter.core.tensors import to_arrow, to_numpy
from dataprep_converter.readers import Reader
from dataprep_converter.readers.plugin import PluginReader
from dataprep_converter.records.batch import SAMPLE, Batch, RejectedSample
from dataprep_converter.runtime import plugins
from dataprep_converter.transforms.map import MapStep

CODE = """
import struct
import numpy as np
import pyarrow as pa

def pairs(stream, name, scale=1):
    # Records of eight bytes: an id and a number.
    while data := stream.read(8):
        key, number = struct.unpack("<if", data)
        yield {"key": key, "number": number * scale, "name": name}

def blocks(stream, name):
    data = np.frombuffer(stream.read(), np.dtype([("key", "<i4"), ("number", "<f4")]))
    for start in range(0, len(data), 10):
        yield pa.table({"key": pa.array(data["key"][start:start + 10].astype(np.int64)), "number": data["number"][start:start + 10]})

def arrays(stream, name):
    yield np.frombuffer(stream.read(), np.dtype(">i2")).reshape(-1, 2, 2)

def structured(stream, name):
    yield np.frombuffer(stream.read(), np.dtype([("key", ">i4"), ("number", "<f4")]))

def fails(stream, name):
    yield {"key": 1}
    raise ValueError("no such thing")

def text(stream, name):
    yield "text"

def changes(stream, name):
    yield {"key": 1}
    yield {"other": 1}

def vague(stream, name):
    yield {"key": None}

def changes_type(stream, name):
    yield {"key": 1}
    yield {"key": "a"}

def double(record, times=2):
    return [record | {"key": record["key"] * 10 + n} for n in range(times)]

def odd(record):
    return record if record["key"] % 2 else None

def moody(record):
    if record["key"] == 2:
        raise KeyError("two")
    if record["key"] == 3:
        return {"key": "three"}
    return record

def corner(record):
    return record | {"corner": record["image"][:1, :1], "sizes": list(record["image"].shape)}

number = 3
"""


@pytest.fixture(autouse=True)
def code(tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch) -> Path:
    folder = tmp_path_factory.mktemp("code")
    (folder / "mine.py").write_text(CODE)
    (folder / "broken.py").write_text("import absent_module_of_mine")
    monkeypatch.setenv(plugins.CODE_VARIABLE, str(folder))
    return folder


def put(file: Path, *, first: int = 0, records: int = 40) -> Path:
    file.write_bytes(b"".join(struct.pack("<if", number, number / 2) for number in range(first, first + records)))
    return file


def a_source(*uris: Path | str, function: str = "mine:pairs", **more: Any) -> Source:
    return Source.model_validate({"plugin": {"uris": [str(uri) for uri in uris], "callable": function, **more}})


class TestContract(ReaderContract):
    reader: ClassVar[type[Reader]] = PluginReader

    def a_source(self, folder: Path) -> Source:
        return a_source(put(folder / "a.bin", records=30), put(folder / "b.bin", first=100, records=30))

    def an_empty_source(self, folder: Path) -> Source:
        return a_source(put(folder / "a.bin", records=0))

    def a_missing_source(self, folder: Path) -> tuple[Source, str]:
        return a_source(put(folder / "a.bin"), folder / "absent.bin"), str(folder / "absent.bin")

    def change(self, folder: Path) -> Path:
        return put(folder / "b.bin", records=7)


def values(source: Source) -> list[dict[str, Any]]:
    return [{name: value for name, value in row.items() if name != SAMPLE} for row in rows(batches(PluginReader, source))]


def refusal(*uris: Path, **more: Any) -> str:
    with pytest.raises((BadSpec, BadData)) as caught:
        plan(PluginReader, a_source(*uris, **more))
    return str(caught.value)


# --- what it may yield --------------------------------------------------------------------------------------------


def test_dicts_are_records_and_options_are_passed(tmp_path: Path) -> None:
    file = put(tmp_path / "a.bin", records=1200)
    found = values(a_source(file, options={"scale": 4}))
    assert found == [{"key": number, "number": number * 2.0, "name": "a.bin"} for number in range(1200)]


def test_tables_and_structured_arrays_are_many_records(tmp_path: Path) -> None:
    file = put(tmp_path / "a.bin")
    expected = [{"key": number, "number": number / 2} for number in range(40)]
    assert values(a_source(file, function="mine:blocks")) == expected
    (tmp_path / "b.bin").write_bytes(b"".join(struct.pack(">i", number) + struct.pack("<f", number / 2) for number in range(40)))
    assert values(a_source(tmp_path / "b.bin", function="mine:structured")) == expected


def test_an_array_is_a_record_for_each_entry(tmp_path: Path) -> None:
    (tmp_path / "a.bin").write_bytes(struct.pack(">12h", *range(12)))
    (batch,) = batches(PluginReader, a_source(tmp_path / "a.bin", function="mine:arrays"))
    assert to_numpy(batch.records.column("data")).tolist() == [[[n, n + 1], [n + 2, n + 3]] for n in (0, 4, 8)]


def test_declared_columns_have_the_types_asked_for(tmp_path: Path) -> None:
    columns = [{"name": "key", "type": "Float32"}, {"name": "number", "type": "Float64"}, {"name": "name", "type": "Bytes"}]
    (batch,) = batches(PluginReader, a_source(put(tmp_path / "a.bin", records=2), columns=columns))
    assert [field.type for field in batch.records.schema][:-1] == [pa.float32(), pa.float64(), pa.large_binary()]


def test_an_entry_point_is_found_by_its_name() -> None:
    message = "source.plugin: there is no plug-in 'absent' among the entry points of dataprep.plugins (they are: none)."
    with pytest.raises(BadSpec) as caught:
        plugins.load("absent", of="source.plugin")
    assert str(caught.value) == message


# --- what goes wrong ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("function", "message"),
    [
        ("mine:fails", "{file}: The plug-in 'mine:fails' failed after 1 record: ValueError: no such thing (mine.py, line 25, in fails)."),
        ("mine:text", "{file}: The plug-in 'mine:text' made a str; expected a dict, an Arrow batch or table, or a numpy array."),
        ("mine:changes", "{file}: The plug-in 'mine:changes': after 0 records: record 1 has the keys other; expected key."),
        ("mine:changes_type", "{file}: The plug-in 'mine:changes_type': after 0 records: key: Could not convert 'a' with type str: tried to convert to int64; expected int64."),
        ("mine:vague", "{file}: The plug-in 'mine:vague': after 0 records: key is None in the first record, which shows no type; declare it in columns."),
        ("mine:absent", "source.plugin: the plug-in 'mine:absent' can't be imported: AttributeError: module 'mine' has no attribute 'absent'"),
        ("mine:number", "source.plugin: the plug-in 'mine:number' is not a function, but of type int."),
        ("nowhere:read", "source.plugin: the plug-in 'nowhere:read' can't be imported: ModuleNotFoundError: No module named 'nowhere'; is its code in the image or in spec.code?"),
        ("broken:read", "source.plugin: the plug-in 'broken:read' can't be imported: ModuleNotFoundError: No module named 'absent_module_of_mine' (broken.py, line 1, in <module>); is its code"),
    ],
)  # fmt: skip
def test_what_goes_wrong_names_file_and_line(tmp_path: Path, function: str, message: str) -> None:
    file = put(tmp_path / "a.bin", records=3)
    assert refusal(file, function=function).startswith(message.replace("{file}", str(file)))


def test_a_batch_that_does_not_fit_the_declared_columns_is_named(tmp_path: Path) -> None:
    file = put(tmp_path / "a.bin", records=3)
    message = refusal(file, function="mine:blocks", columns=[{"name": "key", "type": "Int64"}, {"name": "label", "type": "Int64"}])
    assert message == f"{file}: The plug-in 'mine:blocks' made a batch of key: int64, number: float; expected key: int64, label: int64."


def test_text_has_no_shape(tmp_path: Path) -> None:
    message = refusal(put(tmp_path / "a.bin"), columns=[{"name": "key", "type": "String", "shape": [2]}])
    assert message == "The column 'key': shape is only for numbers, and can't be combined with ragged."


# --- code ---------------------------------------------------------------------------------------------------------


def test_the_digest_covers_names_and_contents(code: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    lines = [f"{hashlib.sha256(file.read_bytes()).hexdigest()}  {file.name}\n" for file in sorted(code.iterdir())]
    assert plugins.digest() == hashlib.sha256("".join(lines).encode()).hexdigest()
    monkeypatch.delenv(plugins.CODE_VARIABLE)
    assert plugins.digest() is None


def test_the_files_of_a_config_map_can_be_imported(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(plugins.CODE_VARIABLE, "")
    plugins.provide({"of_a_map.py": "from other_of_a_map import read", "other_of_a_map.py": "def read(): return 7"})
    assert plugins.load("of_a_map:read", of="source.plugin")() == 7
    assert sorted(file.name for file in Path(os.environ[plugins.CODE_VARIABLE]).glob("*.py")) == ["of_a_map.py", "other_of_a_map.py"]


# --- map ----------------------------------------------------------------------------------------------------------


def mapped(function: str, values: dict[str, Any], **more: Any) -> Batch:
    size = len(next(iter(values.values())))
    records = pa.record_batch({**values, SAMPLE: pa.array(list(range(100, 100 + size)), pa.int64())})
    schema = pa.schema([field for field in records.schema if field.name != SAMPLE])
    step = MapStep(Transform.model_validate({"map": {"callable": function, **more}}).member, schema)
    done = step.apply(Batch(records=records, bad=[], bytes_in=3))
    assert done.records.schema.equals(step.schema().append(pa.field(SAMPLE, pa.int64())))
    assert done.records.num_rows + len(done.bad) + done.filtered == size + done.added
    return done


def test_several_records_of_one_stay_together() -> None:
    done = mapped("mine:double", {"key": pa.array([1, 2])}, options={"times": 3})
    assert done.records.column("key").to_pylist() == [10, 11, 12, 20, 21, 22]
    assert done.records.column(SAMPLE).to_pylist() == [100, 100, 100, 101, 101, 101]
    assert (done.added, done.filtered) == (4, 0)


def test_none_leaves_a_record_out() -> None:
    done = mapped("mine:odd", {"key": pa.array([1, 2, 3, 4])})
    assert done.records.column("key").to_pylist() == [1, 3]
    assert (done.added, done.filtered) == (0, 2)
    assert mapped("mine:odd", {"key": pa.array([2])}).records.num_rows == 0


def test_an_exception_and_a_result_that_does_not_fit_make_their_samples_bad() -> None:
    done = mapped("mine:moody", {"key": pa.array([1, 2, 3, 4])})
    assert done.records.column("key").to_pylist() == [1, 4]
    assert done.bad == [
        RejectedSample(101, "the plug-in 'mine:moody' failed: KeyError: 'two' (mine.py, line 49, in moody)"),
        RejectedSample(102, "the plug-in 'mine:moody' returned a value that doesn't fit: key: Could not convert 'three' with type str: tried to convert to int64; expected int64"),
    ]  # fmt: skip


def test_tensors_are_numpy_arrays_and_columns_are_added_in_their_declared_types() -> None:
    images = to_arrow(np.arange(8, dtype=np.uint8).reshape(2, 2, 2))
    columns = [{"name": "corner", "type": "Float32", "shape": [1, 1]}, {"name": "sizes", "type": "Int64", "ragged": True}]
    done = mapped("mine:corner", {"key": pa.array([1, 5]), "image": images}, columns=columns)
    assert to_numpy(done.records.column("image")).tolist() == [[[0, 1], [2, 3]], [[4, 5], [6, 7]]]
    assert to_numpy(done.records.column("corner")).tolist() == [[[0.0]], [[4.0]]]
    assert done.records.column("sizes").to_pylist() == [[2, 2], [2, 2]]


def test_a_missing_column_is_named() -> None:
    (bad,) = mapped("mine:odd", {"key": pa.array([1])}, columns=[{"name": "extra", "type": "Int64"}]).bad
    assert bad.reason == "the plug-in 'mine:odd' returned a value that doesn't fit: record 0 has the keys key; expected key, extra"
