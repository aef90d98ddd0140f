"""Extreme values that formats must preserve from a source to a finished shard, and when the shard is read back.

These values are the limits of all number types, NaN, empty lists, bytes that aren't text, RecordIO's magic number, records of 100 MB, and
no record at all.
"""

import math
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from tests.builders import pairs
from tests.builders.jobs import run_job
from tests.builders.specs import parse_job
from tests.converter.formats.batches import Encoded
from tests.converter.formats.cases import CASES

from dataprep_api.dataset.report import Manifest
from dataprep_converter.core.tensors import to_arrow
from dataprep_converter.formats.registry import by_feature, decoder
from dataprep_converter.inputs.access import Access
from dataprep_converter.tools.verification import verify

MAGIC: Final = bytes.fromhex("0a23d7ce")
"""RecordIO's magic number."""
MAGIC_FLOAT: Final = float(np.frombuffer(MAGIC, "<f4")[0])
BIG: Final = 100_000_000
LARGE: Final = 20_000_000
"""A size that doesn't fit into three bytes."""

COLUMNS: Final[Mapping[str, Any]] = {
    "small": pa.array([-(2**31), 2**31 - 1, -1, 0, 1], pa.int32()),
    "whole": pa.array([-(2**63), 2**63 - 1, -1, 0, 2**53 + 1], pa.int64()),
    "single": pa.array([math.nan, -0.0, math.inf, -math.inf, MAGIC_FLOAT], pa.float32()),
    "double": pa.array([math.nan, 5e-324, -math.inf, 1.7976931348623157e308, 0.1], pa.float64()),
    "content": pa.array([b"", b"\xff\xfe\x00\x80", MAGIC, b"abcd" + MAGIC + b"efgh", b"\xc3("], pa.binary()),
    "text": pa.array(["", "\x00", "☃, \"quoted\"\r\n", " ", "\U0001f40d"], pa.string()),
    "numbers": pa.array([[], [math.nan, -0.0], [MAGIC_FLOAT] * 3, [], [1.5]], pa.list_(pa.float32())),
    "integers": pa.array([[-(2**63)], [], [2**63 - 1, -1, 0], [1], []], pa.list_(pa.int64())),
    "path": pa.array([f"folder/{number}.bin" for number in range(5)], pa.string()),
}  # fmt: skip
DTYPES: Final = {"small": "int32", "whole": "int64", "single": "float32", "double": "float64"}
OF_20_MEGABYTES: Final = ("recordioProtobuf", "jsonl", "webdataset", "sequenceFile", "mds", "fileBatch")
"""Formats that are tested with 20 MB by day, because each of them stores lengths in a different way. The nightly tests try each format
with 100 MB, and `test_a_job_makes_a_record_of_100_megabytes` tries TFRecord by day."""


def made(source: Mapping[str, Any], folder: Path, *, format_: str, features: list[dict[str, Any]]) -> Manifest:
    """Make and verify a data set in `folder`, and return its manifest."""
    output = {"uri": str(folder), "format": format_, "shards": {"count": 1}, format_: CASES[format_].options}
    spec = {"source": source, "features": features, "output": output, "allowEmpty": True}
    job = parse_job(spec)
    run_job(job)
    return verify(str(folder), Access())


def parquet(folder: Path, columns: Mapping[str, Any]) -> Mapping[str, Any]:
    pq.write_table(pa.table(dict(columns)), folder / "in.parquet")
    return {"parquet": {"uris": [str(folder / "in.parquet")]}}


def read_back(folder: Path, manifest: Manifest) -> list[dict[str, Any]]:
    found = decoder(manifest)
    records = []
    for file in manifest.files:
        with (folder / file.file).open("rb") as content:
            for _, record in found.read(iter(lambda: content.read(1 << 20), b"")):
                records.append(by_feature(found, record, manifest.features))
    return records


@pytest.fixture(autouse=True)
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    """Skip fsync. The tests check bytes rather than durability, and waiting for disks would take most of the time."""
    monkeypatch.setattr("os.fsync", lambda _: None)


@pytest.mark.parametrize("format_", CASES)
def test_extreme_values_come_back(format_: str, tmp_path: Path) -> None:
    names = CASES[format_].columns
    features = [{"name": name, **({"dtype": DTYPES[name]} if name in DTYPES else {})} for name in names]
    manifest = made(parquet(tmp_path, {name: COLUMNS[name] for name in names}), tmp_path / "out", format_=format_, features=features)
    found = read_back(tmp_path / "out", manifest)
    for name in names:
        # repr is compared, because NaN doesn't equal itself, and 0.0 equals -0.0.
        assert repr([record[name] for record in found]) == repr([flat(value) for value in COLUMNS[name].to_pylist()]), name


@pytest.mark.parametrize("format_", CASES)
def test_a_data_set_of_no_records_is_whole(format_: str, tmp_path: Path) -> None:
    names = CASES[format_].columns
    source = parquet(tmp_path, {name: COLUMNS[name].slice(0, 0) for name in names})
    manifest = made(source, tmp_path / "out", format_=format_, features=[{"name": name} for name in names])
    assert (manifest.records_out, read_back(tmp_path / "out", manifest)) == (0, [])


def a_big_column(format_: str, size: int) -> tuple[str, Any]:
    """Return a name and a single value of `size` bytes. The value is bytes if the format can store them, or else text, or else numbers."""
    if "content" in CASES[format_].columns:
        return "content", np.random.default_rng(5).bytes(size - 12) + b"abcd" + MAGIC + b"efgh"
    if "text" in CASES[format_].columns:
        return "text", ('a line, of "text" ☃ ' * 1000 + "\n") * (size // 22_000)
    return "numbers", np.arange(size // 8, dtype=np.float64).reshape(1, -1)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("format_", "size"),
    pairs.chosen(
        [*((format_, BIG) for format_ in CASES), *((format_, LARGE) for format_ in OF_20_MEGABYTES)],
        lambda _, size: size == LARGE,
    ),
)
def test_a_large_record_comes_back(format_: str, size: int) -> None:
    name, value = a_big_column(format_, size)
    column = to_arrow(value) if name == "numbers" else pa.array([value], pa.large_binary() if name == "content" else pa.large_string())
    columns = {name: column, **({"path": pa.array(["a.bin"])} if format_ == "fileBatch" else {})}
    dtypes = {"numbers": "float64"} if name == "numbers" else {}
    (record,) = Encoded(format_, columns, dtypes=dtypes, **CASES[format_].options).parsed(piece=1 << 20)
    if name == "numbers":
        np.testing.assert_array_equal(record[name], value[0])
    else:
        # RecordIO gives a single feature a fixed name.
        assert record["values" if format_ == "recordioProtobuf" else name] == [value if name == "content" else value.encode()]


@pytest.mark.slow
def test_a_job_makes_a_record_of_100_megabytes(tmp_path: Path) -> None:
    _, content = a_big_column("tfrecord", BIG)
    (tmp_path / "in.bin").write_bytes(content)
    source = {"wholeFile": {"uris": [str(tmp_path / "in.bin")]}}
    manifest = made(source, tmp_path / "out", format_="tfrecord", features=[{"name": "content"}])
    assert read_back(tmp_path / "out", manifest) == [{"content": [content]}]


def flat(value: Any) -> list[Any]:
    return value if isinstance(value, list) else [value.encode() if isinstance(value, str) else value]
