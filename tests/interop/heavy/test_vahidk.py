"""vahidk's library `tfrecord` (1.14.6 or later) reads `tfrecord` files with index files: first one half of a shard, then the other half."""

import json
from pathlib import Path

import pytest
from tests.interop import data_sets, tfrecord_sets
from tests.interop.comparisons import compared

import environments

pytestmark = [pytest.mark.interop, pytest.mark.heavy]

READER = Path(__file__).parents[1] / "readers" / "vahidk_records.py"
TYPES = {"bytes": "byte", "int64": "int", "float": "float"}


def test_every_field_of_every_record_is_read(tmp_path: Path) -> None:
    wanted = []
    for source, output in tfrecord_sets.made(tmp_path).items():
        for shard in data_sets.shards(output):
            features = {name: TYPES[kind] for name, kind in tfrecord_sets.KINDS[source].items()}
            wanted.append({"file": str(shard), "index": str(tfrecord_sets.index(output, shard)), "features": features})
    (tmp_path / "wanted.json").write_text(json.dumps(wanted))
    said = json.loads(environments.run("tfrecord", READER, [tmp_path / "wanted.json"]))
    for number, source in enumerate(tfrecord_sets.KINDS):
        begin = number * data_sets.SHARDS
        found = [record for records in said["files"][begin : begin + data_sets.SHARDS] for record in records]
        assert found == tfrecord_sets.examples(source)
        compared(
            format="tfrecord",
            reader="vahidk's `tfrecord_loader`, with the data set's index",
            versions=said["versions"],
            source=source,
            records=len(found),
            fields=sorted(tfrecord_sets.KINDS[source]),
        )
