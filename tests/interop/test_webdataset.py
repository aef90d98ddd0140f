"""The webdataset library reads `webdataset`, and GNU tar unpacks it: every member of every sample, from three sources."""

import json
import subprocess
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tests.interop import data_sets
from tests.interop.comparisons import compared
from tests.interop.data_sets import WEBDATASET_EXTENSIONS

import environments

pytestmark = pytest.mark.interop

READER = Path(__file__).parent / "readers" / "webdataset_sets.py"


@pytest.fixture(scope="module")
def outputs(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    folder = tmp_path_factory.mktemp("webdataset")
    return {source: data_sets.made(source, folder / source, output={"format": "webdataset"}) for source in data_sets.SOURCES}


@pytest.fixture(scope="module")
def by_library(outputs: dict[str, Path], tmp_path_factory: pytest.TempPathFactory) -> Any:
    wanted = tmp_path_factory.mktemp("wanted") / "wanted.json"
    wanted.write_text(json.dumps([list(map(str, data_sets.shards(output))) for output in outputs.values()]))
    return json.loads(environments.run("webdataset", READER, [wanted]))


def sample(source: str, number: int, row: data_sets.Row) -> dict[str, Any]:
    """The sample that the library must return for a record."""
    in_shard = data_sets.COUNT // data_sets.SHARDS
    found: dict[str, Any] = {"__key__": f"{number // in_shard:06d}{number % in_shard:06d}"}
    for name, values in row.items():
        extension = WEBDATASET_EXTENSIONS[source][name]
        if extension == "npy":
            dtype, shape = ("uint8", [28, 28]) if name == "image" else ("float32", [5])
            found[extension] = {"dtype": dtype, "shape": shape, "values": np.array(values, dtype).tolist()}
        else:
            found[extension] = values if name in ("keys", "values") else values[0]
    return found


def float32s(value: Any) -> Any:
    """Replaces each decimal number by the nearest float32."""
    if isinstance(value, list):
        return [float32s(each) for each in value]
    return float(np.float32(value)) if isinstance(value, float) else value


@pytest.mark.parametrize("source", data_sets.SOURCES)
def test_the_library_decodes_every_member(by_library: Any, source: str) -> None:
    found = by_library["sets"][data_sets.SOURCES.index(source)]
    wanted = [sample(source, number, row) for number, row in enumerate(data_sets.rows(source))]
    if source == "libsvm":
        found, wanted = ([{key: float32s(value) for key, value in each.items()} for each in some] for some in (found, wanted))
    assert found == wanted
    compared(
        format="webdataset",
        reader="webdataset's `WebDataset(…).decode()`",
        versions=by_library["versions"],
        source=source,
        records=len(found),
        fields=sorted(WEBDATASET_EXTENSIONS[source]),
    )


def test_gnu_tar_unpacks_what_it_lists(outputs: dict[str, Path], tmp_path: Path) -> None:
    (first, *_) = data_sets.shards(outputs["csv"])
    assert first.name == "train-000000.tar"
    subprocess.run(["/bin/tar", "-xf", str(first), "-C", str(tmp_path)], check=True)
    files = sorted(tmp_path.iterdir())
    assert len(files) == data_sets.COUNT // data_sets.SHARDS * len(WEBDATASET_EXTENSIONS["csv"])
    listed = subprocess.run(["/bin/tar", "-tf", str(first)], check=True, capture_output=True, text=True).stdout.splitlines()
    assert listed == [file.name for file in files]
    assert (tmp_path / "000000000000.name.txt").read_text() == data_sets.rows("csv")[0]["name"][0]
