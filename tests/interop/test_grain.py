"""Grain reads `arrayRecord`: all records in order, and some in random order. The records contain tf.train.Examples, which are parsed with
protobuf's classes."""

import json
from pathlib import Path
from typing import Any, Final

import pytest
from tests.interop import data_sets, tfrecord_sets
from tests.interop.comparisons import compared

import environments
from dataprep_converter.formats.tfrecord.records import parse_example

pytestmark = pytest.mark.interop

READER = Path(__file__).parent / "readers" / "grain_records.py"
PICKED: Final = (3, 0, 77, 40)
FEATURES: Final[list[dict[str, Any]]] = [{"name": "image"}, {"name": "pixels", "columns": ["image"], "encoding": "Values"}]
OPTIONS: Final[dict[str, dict[str, Any]]] = {"idx": {}, "csv": {"compression": "None"}, "libsvm": {"compression": "Brotli", "groupSize": 7}}


def test_every_field_of_every_record_is_read(tmp_path: Path) -> None:
    outputs = {
        source: data_sets.made(
            source,
            tmp_path / source,
            output={"format": "arrayRecord", "arrayRecord": options},
            features=FEATURES if source == "idx" else None,
        )
        for source, options in OPTIONS.items()
    }
    (tmp_path / "wanted.json").write_text(json.dumps([list(map(str, data_sets.shards(output))) for output in outputs.values()]))
    said = json.loads(environments.run("grain", READER, [tmp_path / "wanted.json"]))
    for source, found in zip(OPTIONS, said["sets"], strict=True):
        read = [_hexed(parse_example(bytes.fromhex(record))) for record in found["all"]]
        assert read == tfrecord_sets.examples(source)
        assert found["picked"] == [found["all"][number] for number in PICKED]
        compared(
            format="arrayRecord",
            reader="Grain's `ArrayRecordDataSource`, in order and at random",
            versions=said["versions"],
            source=source,
            records=len(read),
            fields=sorted(tfrecord_sets.KINDS[source]),
        )


def _hexed(record: dict[str, Any]) -> dict[str, Any]:
    return {name: [value.hex() if isinstance(value, bytes) else value for value in values] for name, values in record.items()}
