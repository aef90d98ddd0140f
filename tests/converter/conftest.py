"""Fixtures shared by the tests of the converter: a few digits, store servers that are started only once, and the fake MaxCompute."""

import os
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TypeVar

import pytest
from tests.availability import unavailable
from tests.builders.in_memory import tmp_path
from tests.converter.stores import oss_clients
from tests.sharing_out import on_hdfs

from dataprep_converter.core import native
from dataprep_converter.readers.databases import table
from dataprep_converter.runtime import makers
from dataprep_converter.stores import StoreSettings
from storeservers import AzureServer, FakeGcs, FakeOss, HdfsCluster, S3Server, ServerFailed
from storeservers.cache import BuildFailed
from storeservers.odps import FakeMaxCompute
from workbench import mnist

__all__ = ["tmp_path"]


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Marks a slow test as nightly if it runs without the C library.

    The library's own tests, most of them in `tests/converter/core/test_native.py`, compare each of its functions with the Python code that
    replaces it. The quick format tests run twice: with the library, and without it.
    """
    for item in items:
        known = item.callspec.params if isinstance(item, pytest.Function) and hasattr(item, "callspec") else {}
        if known.get("native_and_python") == "python" and item.get_closest_marker("slow"):
            item.add_marker(pytest.mark.nightly)


@pytest.fixture(autouse=True)
def no_job_has_run(monkeypatch: pytest.MonkeyPatch) -> None:
    """Forget the runs of earlier tests, which would count as ended runs of this process (`makers.has_ended`)."""
    monkeypatch.setattr(makers, "_at_work", {})


_HDFS = pytest.StashKey[HdfsCluster]()


@pytest.hookimpl(trylast=True)  # after the fixtures, which might start servers again
def pytest_runtest_teardown(item: pytest.Item, nextitem: pytest.Item | None) -> None:
    """Stops HDFS when this process has finished the test files that use HDFS.

    These files run first. The servers would take one second of processor time per minute even if they were idle.
    """
    cluster = item.config.stash.get(_HDFS, None)
    if cluster is not None and nextitem is not None and "PYTEST_XDIST_WORKER" in os.environ and not on_hdfs(nextitem.nodeid.split("::")[0]):
        cluster.stop()


T = TypeVar("T", HdfsCluster, S3Server, FakeOss, AzureServer, FakeGcs)

BUCKET = "contract-bucket"


@pytest.fixture(scope="session")
def servers_folder() -> Iterator[Path]:
    # pytest's temporary folder isn't used, because pytest keeps the folders of three runs, which would take gigabytes.
    with tempfile.TemporaryDirectory(prefix="dataprep-stores-") as folder:
        yield Path(folder)


@pytest.fixture(scope="session")
def hdfs_servers(servers_folder: Path, pytestconfig: pytest.Config) -> Iterator[HdfsCluster]:
    for cluster in _running(lambda: HdfsCluster(servers_folder / "hdfs"), "HDFS (needs java, mvn)"):
        pytestconfig.stash[_HDFS] = cluster
        yield cluster


@pytest.fixture
def hdfs_cluster(hdfs_servers: HdfsCluster) -> HdfsCluster:
    """HDFS, which is started again if it has been stopped."""
    if not hdfs_servers.processes:
        hdfs_servers.start_missing()
    return hdfs_servers


@pytest.fixture(scope="session")
def s3_server(servers_folder: Path) -> Iterator[S3Server]:
    for server in _running(lambda: S3Server(servers_folder / "s3"), "an S3 server (needs go)"):
        server.make_bucket(BUCKET)
        yield server


@pytest.fixture(scope="session")
def oss_fake(servers_folder: Path) -> Iterator[FakeOss]:
    for server in _running(lambda: FakeOss(servers_folder / "oss"), "the OSS fake"):
        server.make_bucket(BUCKET)
        yield server


@pytest.fixture(scope="session")
def azure_server(servers_folder: Path) -> Iterator[AzureServer]:
    for server in _running(lambda: AzureServer(servers_folder / "azure"), "Azurite (needs node, npm)"):
        server.make_container(BUCKET)
        yield server


@pytest.fixture(scope="session")
def gcs_fake(servers_folder: Path) -> Iterator[FakeGcs]:
    for server in _running(lambda: FakeGcs(servers_folder / "gcs"), "the Cloud Storage fake"):
        server.make_bucket(BUCKET)
        yield server


@pytest.fixture(scope="module")
def running_oss(tmp_path_factory: pytest.TempPathFactory) -> Iterator[FakeOss]:
    """The fake OSS, for tests of the fake itself."""
    with FakeOss(tmp_path_factory.mktemp("oss")) as server:
        server.make_bucket(oss_clients.BUCKET)
        yield server


@pytest.fixture
def oss(running_oss: FakeOss) -> FakeOss:
    """The fake OSS, with all its controls reset."""
    running_oss.deny()
    running_oss.clear_faults()
    running_oss.clear_requests()
    return running_oss


@pytest.fixture
def s3_settings(s3_server: S3Server) -> StoreSettings:
    return StoreSettings(
        uri_prefix="s3://",
        endpoint=s3_server.endpoint,
        region=s3_server.region,
        credentials={"accessKeyId": s3_server.access_key, "accessKeySecret": s3_server.secret_key},
    )


@pytest.fixture
def azure_settings(azure_server: AzureServer) -> StoreSettings:
    return StoreSettings(uri_prefix="abfs://", endpoint=azure_server.endpoint, credentials={"accountKey": azure_server.key})


@pytest.fixture
def gcs_settings(gcs_fake: FakeGcs) -> Iterator[StoreSettings]:
    yield StoreSettings(uri_prefix="gs://", endpoint=gcs_fake.endpoint, credentials={"serviceAccountKey": gcs_fake.service_account_key})
    gcs_fake.allow()


@pytest.fixture
def oss_settings(oss_fake: FakeOss) -> Iterator[StoreSettings]:
    yield StoreSettings(
        uri_prefix="oss://",
        endpoint=oss_fake.endpoint,
        region=oss_fake.region,
        path_style=True,
        credentials={"accessKeyId": oss_fake.access_key, "accessKeySecret": oss_fake.secret_key},
    )
    oss_fake.deny()
    oss_fake.clear_faults()


def _running(make: Callable[[], T], what: str) -> Iterator[T]:
    try:
        server = make()
        server.start()
    except (ServerFailed, BuildFailed, OSError) as exc:
        unavailable(f"{what} is missing: {exc}")
    try:
        yield server
    finally:
        server.stop()


@pytest.fixture(scope="session")
def few(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The first 1,000 training images and 200 test images of the synthetic MNIST."""
    return mnist.write(tmp_path_factory.mktemp("few"), train=1000, test=200)


@pytest.fixture(scope="module")
def maxcompute_server() -> Iterator[FakeMaxCompute]:
    with FakeMaxCompute() as server:
        yield server


@pytest.fixture
def maxcompute(maxcompute_server: FakeMaxCompute, monkeypatch: pytest.MonkeyPatch) -> FakeMaxCompute:
    """The fake MaxCompute without errors, configured by environment variables."""
    maxcompute_server.controls.denied.clear()
    maxcompute_server.controls.log.clear()
    monkeypatch.setenv("ODPS_ENDPOINT", maxcompute_server.endpoint)
    monkeypatch.setenv("ODPS_ACCESS_ID", maxcompute_server.access_id)
    monkeypatch.setenv("ODPS_ACCESS_KEY", maxcompute_server.secret)
    return maxcompute_server


@pytest.fixture
def small_slices(monkeypatch: pytest.MonkeyPatch) -> None:
    """Sets the size of a slice to 50 rows."""
    monkeypatch.setattr(table, "MOST_BLOCK_ROWS", 25)
    monkeypatch.setattr(table, "SLICE_BLOCKS", 2)


@pytest.fixture(scope="module", params=["native.c", "python"])
def native_and_python(request: pytest.FixtureRequest) -> Iterator[None]:
    """Runs each test twice: with native.c, if it is built on this machine, and without it."""
    with pytest.MonkeyPatch.context() as patch:
        if request.param == "python":
            patch.setattr(native, "_library", lambda: None)
        yield
