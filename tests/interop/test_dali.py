"""DALI reads `tfrecord` on the CPU, with the index files next to the shards."""

import json
from pathlib import Path
from typing import Any

import pytest
from tests.interop import data_sets, tfrecord_sets
from tests.interop.comparisons import compared

import environments

pytestmark = pytest.mark.interop

READER = Path(__file__).parent / "readers" / "dali_sets.py"


@pytest.fixture(scope="module")
def said(tmp_path_factory: pytest.TempPathFactory) -> Any:
    """DALI's output for all data sets. All data sets are read in one run, because importing DALI takes seconds."""
    folder = tmp_path_factory.mktemp("dali")
    sets = []
    for source, output in tfrecord_sets.made(folder).items():
        shards = data_sets.shards(output)
        indexes = [str(tfrecord_sets.index(output, shard)) for shard in shards]
        files = {"format": "tfrecord", "files": list(map(str, shards)), "indexes": indexes}
        sets.append({**files, "features": tfrecord_sets.KINDS[source], "records": data_sets.COUNT})
    wanted = folder / "wanted.json"
    wanted.write_text(json.dumps({"sets": sets}))
    answer = json.loads(environments.run("dali", READER, [wanted]))
    return {"versions": answer["versions"], **dict(zip(tfrecord_sets.KINDS, answer["sets"], strict=True))}


@pytest.mark.parametrize("source", data_sets.SOURCES)
def test_every_field_of_every_record_is_read(said: Any, source: str) -> None:
    assert said[source] == tfrecord_sets.examples(source)
    compared(
        format="tfrecord",
        reader="DALI's `readers.tfrecord`, with the data set's index, on a CPU",
        versions=said["versions"],
        source=source,
        records=data_sets.COUNT,
        fields=sorted(tfrecord_sets.KINDS[source]),
    )
