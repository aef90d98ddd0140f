"""Places. A place is a separate folder for a test on a store. The test can look at the folder without the store's client."""

import hashlib
import uuid
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Protocol

import pytest

from dataprep_converter.stores import Store, StoreSettings
from dataprep_converter.stores.registry import store_class
from storeservers import AzureServer, FakeGcs, FakeOss, HdfsCluster, S3Server

BUCKET = "contract-bucket"


class Names(Protocol):
    """Lists the files in a place, or in one of its folders, without using our store. Paths are relative to the place's root.

    Hidden files are included, folders are not. A test that makes a hundred data sets in one place lists one
    data set's folder at a time.
    """

    def __call__(self, below: str = "") -> list[str]: ...


class Leftovers(Protocol):
    """Counts the unfinished uploads in a place, or in one of its folders, without using our store."""

    def __call__(self, below: str = "") -> int: ...


@dataclass(frozen=True)
class Place:
    """A separate folder for each test, and functions to look at it without our store."""

    root: str
    settings: StoreSettings
    names: Names
    leftovers: Leftovers
    sweeps: bool = True
    """Whether leftovers of dead writers can be seen and removed. On Azure, the service removes them itself."""

    def store(self) -> Store:
        return store_class(self.root.partition("://")[0] if "://" in self.root else "")(self.settings)

    def at(self, name: str) -> str:
        return f"{self.root}/{name}"


def a_folder() -> str:
    return f"contract/{uuid.uuid4().hex}"


def hidden(keys: list[str]) -> list[str]:
    return [key for key in keys if key.rpartition("/")[2].startswith(".")]


def some_bytes(size: int, *, seed: int = 0) -> bytes:
    block = b"".join(hashlib.sha256(f"{seed}-{number}".encode()).digest() for number in range(4099))
    return (block * (size // len(block) + 1))[:size]


def hidden_ones(names: Names) -> Leftovers:
    """Return a function that counts hidden files, for stores where an unfinished upload is a hidden file."""
    return lambda below="": len(hidden(names(below)))


def beginning(folder: str, below: str) -> str:
    """Return the prefix of all keys in `folder`, or in its sub-folder `below`."""
    return f"{folder}/{below}/" if below else f"{folder}/"


def keys_in(server: S3Server | FakeOss | AzureServer | FakeGcs, folder: str) -> Names:
    """Return a function that lists the keys in a bucket's folder, relative to this folder."""
    return lambda below="": [key.removeprefix(f"{folder}/") for key in server.keys(BUCKET, beginning(folder, below))]


def uploads_in(server: S3Server | FakeOss, folder: str) -> Leftovers:
    """Return a function that counts the unfinished multipart uploads in a bucket's folder."""
    return lambda below="": sum(each.key.startswith(beginning(folder, below)) for each in server.uploads(BUCKET))


def files(request: pytest.FixtureRequest) -> Place:
    tmp_path: Path = request.getfixturevalue("tmp_path")
    return in_folder(tmp_path / "out")


def in_folder(root: Path) -> Place:
    """Return a place in a local folder."""

    def keys(below: str = "") -> list[str]:
        return sorted(str(each.relative_to(root)) for each in (root / below).rglob("*") if each.is_file())

    return Place(str(root), StoreSettings(uri_prefix=""), keys, hidden_ones(keys))


def hdfs(request: pytest.FixtureRequest) -> Place:
    cluster: HdfsCluster = request.getfixturevalue("hdfs_cluster")
    folder = f"/{a_folder()}"

    def keys(below: str = "") -> list[str]:
        top = f"{folder}/{below}".rstrip("/")
        found = cluster.files(top) if cluster.exists(top) else []
        return sorted(each.path.removeprefix(f"{folder}/") for each in found)

    return Place(f"{cluster.uri}{folder}", StoreSettings(uri_prefix="hdfs://"), keys, hidden_ones(keys))


def webhdfs(request: pytest.FixtureRequest) -> Place:
    cluster: HdfsCluster = request.getfixturevalue("hdfs_cluster")
    place = hdfs(request)
    return replace(place, root=place.root.replace(cluster.uri, f"webhdfs://{cluster.http_address}"), settings=StoreSettings("webhdfs://"))


def s3(request: pytest.FixtureRequest) -> Place:
    server: S3Server = request.getfixturevalue("s3_server")
    folder = a_folder()
    return Place(
        f"s3://{BUCKET}/{folder}",
        request.getfixturevalue("s3_settings"),
        keys_in(server, folder),
        uploads_in(server, folder),
    )


def oss(request: pytest.FixtureRequest) -> Place:
    server: FakeOss = request.getfixturevalue("oss_fake")
    folder = a_folder()
    return Place(
        f"oss://{BUCKET}/{folder}",
        request.getfixturevalue("oss_settings"),
        keys_in(server, folder),
        uploads_in(server, folder),
    )


def azure(request: pytest.FixtureRequest) -> Place:
    server: AzureServer = request.getfixturevalue("azure_server")
    folder = a_folder()
    return Place(
        f"abfs://{BUCKET}@{server.account}.dfs.core.windows.net/{folder}",
        request.getfixturevalue("azure_settings"),
        keys_in(server, folder),
        lambda _="": 0,
        sweeps=False,
    )


def gcs(request: pytest.FixtureRequest) -> Place:
    server: FakeGcs = request.getfixturevalue("gcs_fake")
    folder = a_folder()
    keys = keys_in(server, folder)
    return Place(
        f"gs://{BUCKET}/{folder}",
        request.getfixturevalue("gcs_settings"),
        keys,
        lambda below="": len(hidden(keys(below))) + sum(key.startswith(beginning(folder, below)) for key in server.uploads(BUCKET)),
    )


PLACES = [
    pytest.param(files, id="files"),
    pytest.param(hdfs, id="hdfs", marks=pytest.mark.store),
    pytest.param(webhdfs, id="webhdfs", marks=pytest.mark.store),
    pytest.param(s3, id="s3", marks=pytest.mark.store),
    pytest.param(oss, id="oss", marks=pytest.mark.store),
    pytest.param(gcs, id="gcs", marks=pytest.mark.store),
    pytest.param(azure, id="azure", marks=pytest.mark.store),
]
"""Parameters for a fixture: functions that make a place from pytest's request."""


def on_some(*ids: str) -> pytest.MarkDecorator:
    """Run a test that uses the fixture `remote` on these stores, and on the other stores only at night."""
    others = [pytest.param(*each.values, id=each.id, marks=[*each.marks, pytest.mark.nightly]) for each in PLACES[1:] if each.id not in ids]
    return pytest.mark.parametrize("remote", [*(each for each in PLACES if each.id in ids), *others], indirect=True)
