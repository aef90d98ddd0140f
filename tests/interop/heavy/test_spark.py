"""Spark reads the whole folder of a finished data set, including hidden files, with one task per shard. A single JVM reads all data
sets."""

import hashlib
import json
from pathlib import Path
from typing import Any

import pytest
from tests.interop import data_sets, table_sets, tfrecord_sets
from tests.interop.comparisons import compared
from tests.interop.data_sets import flat

import environments
import javareaders

pytestmark = [pytest.mark.interop, pytest.mark.heavy]

# In our CSV files, a quote within quotes is doubled, as in RFC 4180. Spark itself writes a backslash before such a quote.
CSV = {"header": "true", "inferSchema": "true", "escape": '"'}
TABLES: dict[str, dict[str, Any]] = {
    "parquet": {"format": "parquet"},
    "jsonl": {"format": "json"},
    "csv": {"format": "csv", "options": CSV},
}
READER = Path(__file__).parents[1] / "readers" / "spark_sets.py"


@pytest.fixture(scope="module")
def said(tmp_path_factory: pytest.TempPathFactory) -> Any:
    """Spark's output for all data sets."""
    folder = tmp_path_factory.mktemp("spark")
    sets = {f"tfrecord {source}": {"format": "tfrecord", "folder": str(made)} for source, made in tfrecord_sets.made(folder / "t").items()}
    for format_, reading in TABLES.items():
        for source, made in table_sets.made(format_, folder / format_).items():
            sets[f"{format_} {source}"] = {**reading, "folder": str(made)}
    wanted = folder / "wanted.json"
    wanted.write_text(json.dumps({"jars": javareaders.classpath("tensorflowhadoop"), "sets": sets}))
    return json.loads(environments.run("spark", READER, [wanted]))


@pytest.mark.parametrize("source", data_sets.SOURCES)
def test_tensorflows_input_format_reads_every_field_one_task_per_shard(tf: Any, said: Any, source: str) -> None:
    found = said["sets"][f"tfrecord {source}"]
    assert found["files"] == [f"train-{shard:05d}-of-{data_sets.SHARDS:05d}.tfrecords" for shard in range(data_sets.SHARDS)]
    expected = tfrecord_sets.examples(source)
    tasks = [[example(tf, bytes.fromhex(record)) for record in task] for task in found["tasks"]]
    # The tasks follow the order in which the file system lists the files.
    tasks.sort(key=lambda records: expected.index(records[0]))
    assert [len(records) for records in tasks] == [data_sets.COUNT // data_sets.SHARDS] * data_sets.SHARDS
    assert [record for records in tasks for record in records] == expected
    compared(
        format="tfrecord",
        reader="Spark with `org.tensorflow:tensorflow-hadoop:1.15.0`, the complete folder, one task per shard",
        versions=said["versions"],
        source=source,
        records=len(expected),
        fields=sorted(tfrecord_sets.KINDS[source]),
    )


@pytest.mark.parametrize("source", data_sets.SOURCES)
@pytest.mark.parametrize("format_", table_sets.FORMATS)
def test_sparks_own_readers_read_every_field(said: Any, format_: str, source: str) -> None:
    found = said["sets"][f"{format_} {source}"]
    expected = table_sets.rows(format_, source)
    assert found["files"] == [f"train-{shard:05d}-of-{data_sets.SHARDS:05d}.{format_}" for shard in range(data_sets.SHARDS)]
    assert [row_of(row, list(expected[0])) for row in found["rows"]] == expected
    compared(
        format=format_,
        reader="Spark, the complete folder",
        versions=said["versions"],
        source=source,
        records=len(expected),
        fields=sorted(expected[0]),
    )


def test_the_list_of_paths_names_the_shards_to_spark(said: Any) -> None:
    for name, found in said["sets"].items():
        lines, digests = found["named"]["lines"], found["named"]["digests"]
        assert [Path(line).name for line in lines] == found["files"], name
        assert all(line.startswith("file:///") for line in lines)
        assert digests == [hashlib.sha256(Path(line.removeprefix("file://")).read_bytes()).hexdigest() for line in lines]


def row_of(row: dict[str, Any], names: list[str]) -> data_sets.Row:
    """Returns the values of each field. In CSV, a vector has one column per value: `name_0`, `name_1`, …."""
    return {name: flat(row[name]) if name in row else [row[f"{name}_{place}"] for place in range(count(row, name))] for name in names}


def count(row: dict[str, Any], name: str) -> int:
    return sum(column.startswith(f"{name}_") for column in row)


def example(tf: Any, record: bytes) -> data_sets.Row:
    """Converts a serialised message to the form of `tfrecord_sets.examples`."""
    features = tf.train.Example.FromString(record).features.feature
    kinds = {"bytes_list": "bytes", "int64_list": "int64", "float_list": "float"}
    found = {}
    for name in features:
        kind = features[name].WhichOneof("kind")
        values = list(getattr(features[name], kind).value)
        found[name] = [value.hex() for value in values] if kinds[kind] == "bytes" else values
    return found
