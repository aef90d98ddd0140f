"""dataprep_reader on every store: all four ways to open a data set return the same records, even in several threads."""

import json
import uuid
from collections.abc import Callable
from pathlib import Path

import pytest
from tests.converter.conftest import BUCKET
from tests.reader.sets import flat, halves, opened

from dataprep_converter.core.errors import NotFound
from dataprep_converter.inputs.access import Access
from dataprep_converter.stores import StoreSettings
from storeservers import HdfsCluster

pytestmark = pytest.mark.store


def on_hdfs(request: pytest.FixtureRequest) -> tuple[str, StoreSettings]:
    hdfs: HdfsCluster = request.getfixturevalue("hdfs_cluster")
    return hdfs.uri, StoreSettings(uri_prefix="hdfs://", user=hdfs.user)


def on_s3(request: pytest.FixtureRequest) -> tuple[str, StoreSettings]:
    return f"s3://{BUCKET}", request.getfixturevalue("s3_settings")


def on_oss(request: pytest.FixtureRequest) -> tuple[str, StoreSettings]:
    return f"oss://{BUCKET}", request.getfixturevalue("oss_settings")


STORES: dict[str, Callable[[pytest.FixtureRequest], tuple[str, StoreSettings]]] = {"hdfs": on_hdfs, "s3": on_s3, "oss": on_oss}


@pytest.mark.parametrize("name", STORES)
@pytest.mark.parametrize("format_", ["tfrecord", "parquet"])
def test_a_data_set_is_read_from_every_store(
    name: str, format_: str, request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    root, settings = STORES[name](request)
    monkeypatch.setattr("dataprep_reader.Access", lambda: Access([settings]))
    local = halves(tmp_path, format=format_)
    folder = f"{root}/reader-{uuid.uuid4().hex[:8]}/set"
    store = Access([settings]).store(folder)
    files = sorted(path.relative_to(local).as_posix() for path in local.rglob("*") if path.is_file())
    for file in files:
        if file != "_SUCCESS":
            store.put(f"{folder}/{file}", (local / file).read_bytes())
    with pytest.raises(NotFound, match=f"{folder} has no _SUCCESS: there is no finished data set"):
        opened(folder, split="train")
    store.put(f"{folder}/_SUCCESS", (local / "_SUCCESS").read_bytes())

    shards = [f"{folder}/{file}" for file in files if file.startswith("train-")]
    manifest = json.loads((local / "_SUCCESS").read_text())["manifest"]
    for source in (folder, shards, f"{folder}/_dataprep/paths/train.txt", f"{folder}/{manifest}"):
        assert flat(opened(source, split="train", threads=3)) == list(range(30)), source
    assert sorted(flat(opened(shards[0], shuffle=3))) == list(range(10))
