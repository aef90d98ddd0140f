"""DALI reads `tfrecord`, by the indexes that lie beside it, and `webdataset`: on the processor alone."""

import io
import json
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tests.interop import data_sets, tfrecord_sets
from tests.interop.comparisons import compared

import environments

pytestmark = [pytest.mark.interop, pytest.mark.heavy]

READER = Path(__file__).parents[1] / "readers" / "dali_sets.py"
EXTENSIONS = {
    "idx": {"image": "npy", "label": "cls"},
    "csv": {
        "measures": "npy", "exact": "json", "count": "count.cls", "name": "name.txt", "id": "id.txt", "about": "about.txt", "label": "cls",
    },
    "libsvm": {"keys": "keys.json", "values": "values.json", "label": "json"},
}  # fmt: skip
"""Of the members of `webdataset`."""
SINGLE = {"measures", "values"}
"""Fields of float32."""


def by_tfrecord(folder: Path) -> list[dict[str, Any]]:
    sets = []
    for source, output in tfrecord_sets.made(folder).items():
        shards = data_sets.shards(output)
        indexes = [str(tfrecord_sets.index(output, shard)) for shard in shards]
        sets.append({"format": "tfrecord", "files": list(map(str, shards)), "indexes": indexes, "features": tfrecord_sets.KINDS[source]})
    return sets


def by_webdataset(folder: Path) -> list[dict[str, Any]]:
    sets = []
    for source, extensions in EXTENSIONS.items():
        output = data_sets.made(source, folder / source, output={"format": "webdataset"})
        sets.append({"format": "webdataset", "files": list(map(str, data_sets.shards(output))), "extensions": list(extensions.values())})
    return sets


@pytest.fixture(scope="module")
def said(tmp_path_factory: pytest.TempPathFactory) -> Any:
    """What DALI says of all data sets; importing it takes seconds."""
    folder = tmp_path_factory.mktemp("dali")
    sets = by_tfrecord(folder / "tfrecord") + by_webdataset(folder / "webdataset")
    wanted = folder / "wanted.json"
    wanted.write_text(json.dumps({"sets": [{**each, "records": data_sets.COUNT} for each in sets]}))
    answer = json.loads(environments.run("dali", READER, [wanted]))
    count = len(data_sets.SOURCES)
    return {
        "versions": answer["versions"],
        "tfrecord": dict(zip(tfrecord_sets.KINDS, answer["sets"][:count], strict=True)),
        "webdataset": dict(zip(EXTENSIONS, answer["sets"][count:], strict=True)),
    }


@pytest.mark.parametrize("source", data_sets.SOURCES)
def test_every_field_of_tfrecord_is_read_by_its_index(said: Any, source: str) -> None:
    assert said["tfrecord"][source] == tfrecord_sets.examples(source)
    agree(said, "tfrecord", "DALI's `readers.tfrecord`, by the data set's index, on a CPU", source, tfrecord_sets.KINDS[source])


@pytest.mark.parametrize("source", data_sets.SOURCES)
def test_every_member_of_webdataset_is_read(said: Any, source: str) -> None:
    names = {extension: name for name, extension in EXTENSIONS[source].items()}
    found = [
        {names[extension]: decoded(extension, *content) for extension, content in record.items()} for record in said["webdataset"][source]
    ]
    singles = SINGLE | ({"label"} if source == "libsvm" else set())
    assert [float32s(row, singles) for row in found] == [float32s(row, singles) for row in data_sets.rows(source)]
    agree(said, "webdataset", "DALI's `readers.webdataset`, on a CPU", source, names.values())


def decoded(extension: str, content: str) -> list[Any]:
    """The values of a member."""
    data = bytes.fromhex(content)
    if extension == "npy":
        values: list[Any] = np.load(io.BytesIO(data)).ravel().tolist()
        return values
    if extension.endswith("txt"):
        return [data.decode()]
    value = json.loads(data)
    return value if isinstance(value, list) else [value]


def float32s(row: data_sets.Row, names: set[str]) -> data_sets.Row:
    """Numbers of fields of float32 as the float32 that their text stands for."""
    return {name: [float(np.float32(value)) for value in values] if name in names else values for name, values in row.items()}


def agree(said: Any, format_: str, reader: str, source: str, fields: Iterable[str]) -> None:
    compared(format=format_, reader=reader, versions=said["versions"], source=source, records=data_sets.COUNT, fields=sorted(fields))
