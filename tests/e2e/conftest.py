"""Fixtures for the cluster, the installed operator and the stores. All of these are real programs, except the OSS fake.

All test processes share the cluster, the operator and HDFS. Each process has its own S3 server and its own OSS fake, so a test can stall
all writes or deny any right without affecting other processes. A test that kills a DataNode starts its own HDFS.
"""

import os
import shutil
import tempfile
import uuid
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from pathlib import Path

import pytest
from tests.availability import unavailable

from kubecluster import Cluster
from storeservers.hdfs import HdfsCluster
from storeservers.hdfs_files import HdfsFiles
from storeservers.oss import FakeOss
from storeservers.s3 import S3Server
from workbench import mnist, shared_hdfs
from workbench.installation import Installation, install_operator, load_spark
from workbench.jobs import Namespace
from workbench.outside import bring_back, send_away
from workbench.sharing import is_shared
from workbench.stores import BUCKET, Stores


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Marks every test in this folder as a cluster test, and orders the tests so that parallel processes don't wait for each other."""
    here = [item for item in items if Path(__file__).parent in item.path.parents]
    for item in here:
        item.add_marker(pytest.mark.cluster)
    # The audit of API requests comes last, after all requests have been made.
    items.sort(key=lambda item: item.path.name == "test_rights_used.py")
    if "PYTEST_XDIST_WORKER" in os.environ:
        items[:] = [*_spread(here), *(item for item in items if item not in here)]


def _spread(items: Sequence[pytest.Item]) -> list[pytest.Item]:
    """Interleaves the files: takes the first test of each file, then the second test of each file, and so on.

    Tests in one file compete for the same resources, so they are spread. Long tests come first, so that no long test runs alone at the end.
    """
    taken: Counter[Path] = Counter()
    places: dict[pytest.Item, int] = {}
    for item in items:
        taken[item.path] += 1
        places[item] = taken[item.path]
    spread = sorted((item for item in items if item.get_closest_marker("long") is None), key=places.__getitem__)
    for number, item in enumerate(item for item in items if item.get_closest_marker("long")):
        # pytest-xdist gives each process two tests to begin with: a long test and the test after it.
        spread.insert(2 * number, item)
    return spread


@pytest.fixture(scope="session")
def stores(cluster: Cluster) -> Iterator[Stores]:
    """HDFS with two data nodes, an S3 server, the OSS fake and a shared folder."""
    host = cluster.bridge_ip
    if host is None:
        unavailable("the stores need an address that the pods of this cluster reach; `make cluster-up` gives a cluster with one")
    folder = Path(tempfile.mkdtemp(prefix="dataprep-stores-"))
    folder.chmod(0o755)
    volume = folder / "volume"
    volume.mkdir()
    volume.chmod(0o777)
    try:
        with ExitStack() as stack:
            s3 = stack.enter_context(S3Server(folder / "s3", host=host))
            oss = stack.enter_context(FakeOss(folder / "oss", host=host))
            s3.make_bucket(BUCKET)
            oss.make_bucket(BUCKET)

            def find_hdfs() -> HdfsFiles:
                return shared_hdfs.attached() or stack.enter_context(HdfsCluster(folder / "hdfs", host=host))

            yield Stores(find_hdfs, s3=s3, oss=oss, volume=volume)
    finally:
        shutil.rmtree(folder, ignore_errors=True)


@pytest.fixture
def own_hdfs(stores: Stores) -> Iterator[HdfsCluster]:
    """An HDFS whose servers the test is allowed to kill."""
    with tempfile.TemporaryDirectory(prefix="dataprep-hdfs-") as folder, HdfsCluster(Path(folder), host=stores.s3.host) as hdfs:
        yield hdfs


@pytest.fixture(scope="session")
def operator(cluster: Cluster) -> Iterator[Installation]:
    """The operator that `python -m workbench test` has installed for all test processes. If there is none, a new operator is installed."""
    if is_shared():
        yield Installation(cluster)
        return
    installation = install_operator(cluster)
    yield installation
    installation.uninstall()


@pytest.fixture(scope="session")
def spark_image(cluster: Cluster, operator: Installation) -> Iterator[None]:
    """Loads the image of Spark clusters, and adds a node, because each pod of such a cluster requests a processor. Only tests marked
    `exclusive` may use this fixture."""
    del operator  # requested for its effect
    node = "spark"
    cluster.add_node(node)
    try:
        load_spark(cluster)
        yield
    finally:
        cluster.remove_node(node)


@pytest.fixture
def away(operator: Installation) -> Iterator[Installation]:
    """Scales down the installed operator without removing its rights.

    The operator is scaled up again after the test. If several test processes share the operator, it is scaled up
    after all of these processes have ended.
    """
    send_away(operator)
    yield operator
    if not is_shared():
        bring_back(operator)


@pytest.fixture
def own_operator(cluster: Cluster, namespace: Namespace, away: Installation) -> Iterator[Installation]:
    """An operator release in the test's namespace that watches this namespace only."""
    del away  # requested for its effect
    release = Installation(cluster, namespace=namespace.name, release="scoped")
    release.install({"namespaces": [namespace.name], "crds": {"install": False}})
    yield release
    release.uninstall()


@pytest.fixture
def namespace(cluster: Cluster, operator: Installation, stores: Stores) -> Iterator[Namespace]:
    """A fresh namespace under Pod Security `restricted`, with the stores' Secrets."""
    del operator  # requested for its effect
    name = f"test-{uuid.uuid4().hex[:8]}"
    labels = {"pod-security.kubernetes.io/enforce": "restricted"}
    made = Namespace(cluster, name)
    made.create(*stores.secrets(), labels=labels)
    yield made
    made.delete()


@pytest.fixture(scope="session")
def digits(stores: Stores) -> Path:
    """Synthetic MNIST in the shared folder, 70,000 images."""
    folder = mnist.copy_to(stores.volume / "mnist")
    for file in folder.iterdir():
        file.chmod(0o644)
    return folder


@pytest.fixture(scope="session")
def digits_on_hdfs(stores: Stores, digits: Path) -> str:
    """Copies the files to HDFS and returns the folder's URI."""
    folder = f"/mnist-{uuid.uuid4().hex[:8]}"
    stores.hdfs.mkdirs(folder)
    for file in digits.iterdir():
        stores.hdfs.write(f"{folder}/{file.name}", file.read_bytes())
    return f"{stores.hdfs.uri}{folder}"


@pytest.fixture(scope="session")
def digits_on_s3(stores: Stores, digits: Path) -> str:
    """Copies the files to S3 and returns the prefix's URI."""
    for file in digits.iterdir():
        stores.s3.write(BUCKET, f"digits/{file.name}", file.read_bytes())
    return f"s3://{BUCKET}/digits"
