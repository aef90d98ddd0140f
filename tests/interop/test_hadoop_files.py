"""The source `sequenceFile` reads files written by Hadoop's and DL4J's own writers: many classes, codecs and both kinds of compression."""

import csv
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final

import numpy as np
import pytest
from tests.availability import unavailable
from tests.converter.readers.reader_contract import batches, faults, rows
from tests.interop import data_sets

import javareaders
from dataprep_api.spec import Source
from dataprep_converter.readers.hadoop.sequence_file import SequenceFileReader
from storeservers import cache

pytestmark = pytest.mark.interop

PROGRAM: Final = Path(__file__).parent / "readers" / "HadoopFiles.java"
WRITTEN: Final = range(3000)
"""The record numbers in each of Hadoop's files."""
CODECS: Final = ("DefaultCodec", "DeflateCodec", "BZip2Codec", "SnappyCodec")
CSV: Final = [["1.0", "3.2", "4.5", "1.1", "6.3", "0"], ["1.6", "2.4", "5.9", "0.2", "2.2", "1"]] * 60


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Files written by a single run of the Java program."""
    folder = tmp_path_factory.mktemp("hadoop-files")
    (folder / "rows.csv").write_text("".join(",".join(row) + "\n" for row in CSV))
    (folder / "conf").mkdir()
    (folder / "conf" / "core-site.xml").write_text("<configuration/>")
    asked = ["written", str(folder / "written"), "-", "converted", str(folder / "rows.csv"), str(folder)]
    try:
        javareaders.run([PROGRAM], "HadoopFiles", f"{folder / 'conf'}:{javareaders.classpath('datavec')}", asked)
    except cache.BuildFailed as exc:
        unavailable(f"Hadoop's and DL4J's writers need a JDK and Maven: {exc}")
    return folder


def read(*uris: Path) -> list[dict[str, Any]]:
    """All records. A bad record fails the test."""
    found = batches(SequenceFileReader, Source.model_validate({"sequenceFile": {"uris": [str(uri) for uri in uris]}}))
    assert faults(found) == {}
    return [{name: value for name, value in row.items() if name != "_sample"} for row in rows(found)]


def records(keys: Sequence[Any], values: Sequence[Any]) -> list[dict[str, Any]]:
    return [{"key": key, "value": value} for key, value in zip(keys, values, strict=True)]


@pytest.mark.parametrize("compression", ["NONE", "RECORD", "BLOCK"])
@pytest.mark.parametrize("codec", CODECS)
def test_every_codec(files: Path, codec: str, compression: str) -> None:
    keys = [f"key {n}" + " é" * (n % 90) for n in WRITTEN]
    expected = records(keys, [n**3 - 1000 for n in WRITTEN])
    assert read(files / "written" / f"{codec}-{compression}") == expected


def test_every_class(files: Path) -> None:
    written = files / "written"
    shorts = np.array([n * 17 for n in WRITTEN]).astype(np.int16).tolist()
    assert read(written / "small") == records(shorts, np.array(WRITTEN).astype(np.int8).tolist())
    signs = [1 if n % 2 == 0 else -1 for n in WRITTEN]
    ints = np.array([sign * n * n * 200 for n, sign in zip(WRITTEN, signs, strict=True)]).astype(np.int32).tolist()
    longs = [sign * 2 ** (n % 64) for n, sign in zip(WRITTEN, signs, strict=True)]
    assert read(written / "variable") == records(ints, longs)
    assert read(written / "floats") == records([n % 3 == 0 for n in WRITTEN], [n / 8 for n in WRITTEN])
    assert read(written / "bytes") == records([n / 3 for n in WRITTEN], [bytes(n % 200) for n in WRITTEN])


@pytest.mark.parametrize("codec", ["DefaultCodec", "SnappyCodec"])
def test_arrays_without_keys(files: Path, codec: str) -> None:
    expected = [{"value": [n + at / 4 for at in range(n % 7)]} for n in WRITTEN]
    assert read(files / "written" / f"arrays-{codec}") == expected


def test_dl4j_s_map_files_of_a_csv_become_the_csv_again(files: Path, tmp_path: Path) -> None:
    assert sorted(path.name for path in (files / "texts").iterdir()) == ["part-r-00000", "part-r-00001", "part-r-00002"]
    data_sets.convert(
        {
            "source": {"sequenceFile": {"uris": [str(files / "texts")]}},
            "output": {"uri": str(tmp_path / "out"), "format": "csv", "shards": {"count": data_sets.SHARDS}, "csv": {"header": False}},
        }
    )
    lines = [line for made in data_sets.shards(tmp_path / "out") for line in made.read_text().splitlines()]
    assert list(csv.reader(lines)) == CSV


def test_dl4j_s_records_have_a_column_for_each_value(files: Path) -> None:
    expected = [
        {
            "key": number,
            "0": number - 60,
            "1": number / 3,
            "2": number / 8,
            "3": number << 40,
            "4": number % 2 == 0,
            "5": None if number % 10 == 9 else f"text {number}",
        }
        for number in range(120)
    ]
    assert read(files / "typed") == expected


def test_dl4j_s_sequences_have_a_column_of_steps_for_each_value(files: Path) -> None:
    steps = [range(number % 4 + 1) for number in range(120)]
    assert read(files / "sequences") == [
        {"key": number, "0": list(each), "1": [f"at {number}" for _ in each]} for number, each in enumerate(steps)
    ]
