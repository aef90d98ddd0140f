"""Behavior specific to HDFS: users, replication, configuration, and DataNodes that die during reads and writes."""

# All programs that these tests start are our own.

import logging
import subprocess
import sys
import time
import uuid
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from tests.converter.stores.at_once import raised

from dataprep_api.spec import HdfsOptions
from dataprep_converter.core.errors import AlreadyExists, BadSpec, NotPermitted, Unreachable
from dataprep_converter.runtime import watchdog
from dataprep_converter.stores import StoreSettings
from dataprep_converter.stores.hdfs import hdfs, hdfs_border
from dataprep_converter.stores.hdfs.hdfs import HdfsStore
from storeservers import HdfsCluster
from storeservers.hdfs import site_xml

pytestmark = pytest.mark.store

MIB = 1 << 20


@pytest.fixture
def store() -> HdfsStore:
    return HdfsStore(StoreSettings(uri_prefix="hdfs://"))


@pytest.fixture
def folder(hdfs_cluster: HdfsCluster) -> str:
    path = f"/hdfs/{uuid.uuid4().hex}"
    hdfs_cluster.mkdirs(path, permission="777")
    return path


@pytest.fixture
def acts_as_nobody_yet(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(hdfs, "_users", {})
    monkeypatch.setenv(hdfs_border.USER_VARIABLE, "")
    monkeypatch.delenv(hdfs_border.USER_VARIABLE)


def run(program: str, *, seconds: float = 60) -> str:
    imports = (
        "from dataprep_converter.stores import StoreSettings\nfrom dataprep_converter.stores.hdfs.hdfs import HdfsStore\n"
        "def tell(attempt):\n  try:\n    print(attempt())\n  except Exception as exc:\n    print(type(exc).__name__, exc)\n"
    )
    done = subprocess.run([sys.executable, "-c", imports + program], capture_output=True, text=True, check=False, timeout=seconds)
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_replication_permission_and_block_size_are_as_asked(hdfs_cluster: HdfsCluster, store: HdfsStore, folder: str) -> None:
    options = HdfsOptions(replication=1, permission="640", block_size="1Mi")
    store.put(f"{hdfs_cluster.uri}{folder}/file", bytes(3 * MIB), hdfs=options)

    found = hdfs_cluster.stat(f"{folder}/file")
    assert (found.replication, found.permission, found.block_size, found.size) == (1, "640", MIB, 3 * MIB)


def test_without_options_the_clusters_own_are_taken(hdfs_cluster: HdfsCluster, store: HdfsStore, folder: str) -> None:
    store.put(f"{hdfs_cluster.uri}{folder}/file", b"x")

    found = hdfs_cluster.stat(f"{folder}/file")
    assert (found.replication, found.permission, found.block_size) == (2, "644", 128 * MIB)


def test_a_block_size_that_hdfs_refuses_is_the_specs_fault(hdfs_cluster: HdfsCluster, store: HdfsStore, folder: str) -> None:
    with pytest.raises(BadSpec, match="block size 1000 is less than"):
        store.create(f"{hdfs_cluster.uri}{folder}/file", hdfs=HdfsOptions(block_size=1000))


def test_a_cluster_without_space_for_a_block_says_so(hdfs_cluster: HdfsCluster, store: HdfsStore, folder: str) -> None:
    upload = store.create(f"{hdfs_cluster.uri}{folder}/file", hdfs=HdfsOptions(block_size="64Ti"))
    with pytest.raises(
        Unreachable, match=r"could only be written to 0 of the .* in this operation \(no DataNode has space for another block"
    ):
        upload.write(b"x")
    upload.abort()


def test_the_user_of_the_settings_writes(hdfs_cluster: HdfsCluster, folder: str) -> None:
    run(f"""
store = HdfsStore(StoreSettings(uri_prefix="hdfs://", user="alice"))
store.put("{hdfs_cluster.uri}{folder}/file", b"x")
""")

    assert hdfs_cluster.stat(f"{folder}/file").owner == "alice"


def test_a_missing_right_names_user_and_path(hdfs_cluster: HdfsCluster, folder: str) -> None:
    hdfs_cluster.mkdirs(f"{folder}/closed", permission="700")
    hdfs_cluster.write(f"{folder}/closed/file", b"x")
    closed = f"{hdfs_cluster.uri}{folder}/closed"
    said = run(f"""
store = HdfsStore(StoreSettings(uri_prefix="hdfs://", user="nobody"))
tell(lambda: store.put("{closed}/new", b"x"))
tell(lambda: store.create("{closed}/below/new"))
tell(lambda: store.get("{closed}/file"))
tell(lambda: list(store.list("{closed}")))
tell(lambda: store.delete("{closed}/file"))
""").splitlines()

    assert len(said) == 5
    for line, path in zip(said, ["/new", "/below/new", "/file", "", "/file"], strict=True):
        assert line.startswith(f"NotPermitted AccessDenied: user=nobody path={folder}/closed{path} "), line


def test_one_process_is_one_user(acts_as_nobody_yet: None) -> None:  # noqa: ARG001 - a fixture
    HdfsStore(StoreSettings(uri_prefix="hdfs://a", user="alice"))
    HdfsStore(StoreSettings(uri_prefix="hdfs://b", user="alice"))
    with pytest.raises(BadSpec, match="alice and bob"):
        HdfsStore(StoreSettings(uri_prefix="hdfs://c", user="bob"))


def test_a_name_node_that_is_not_there_is_named_within_seconds(store: HdfsStore) -> None:
    uri = "hdfs://127.0.0.1:1/folder/file"
    calls: dict[str, Callable[[], object]] = {
        "stat": lambda: store.stat(uri),
        "get": lambda: store.get(uri),
        "delete": lambda: store.delete(uri),
        "list": lambda: list(store.list(uri)),
        "put": lambda: store.put(uri, b"x"),
        "create": lambda: store.create(uri),
    }
    for call, (error, seconds) in zip(calls, raised(calls.values()), strict=True):
        assert isinstance(error, Unreachable), (call, error)
        assert "cannot connect to 127.0.0.1:1: Connection refused" in str(error), call
        assert seconds < 12, call


def test_a_host_that_has_no_address_is_named(store: HdfsStore) -> None:
    with pytest.raises(Unreachable, match=r"cannot connect to nn\.invalid:8020"):
        store.create("hdfs://nn.invalid/file")


def test_the_name_service_of_the_configuration_is_used(hdfs_cluster: HdfsCluster, folder: str, tmp_path: Path) -> None:
    (tmp_path / "core-site.xml").write_text(site_xml({"fs.defaultFS": "hdfs://cluster"}))
    (tmp_path / "hdfs-site.xml").write_text(
        site_xml(
            {
                "dfs.nameservices": "cluster",
                "dfs.ha.namenodes.cluster": "one, two",
                "dfs.namenode.rpc-address.cluster.one": "127.0.0.1:1",
                "dfs.namenode.rpc-address.cluster.two": f"{hdfs_cluster.host}:{hdfs_cluster.port}",
            }
        )
    )
    store = HdfsStore(StoreSettings(uri_prefix="hdfs://", hadoop_conf=str(tmp_path)))
    assert list(store.addresses("cluster")) == ["127.0.0.1:1", f"{hdfs_cluster.host}:{hdfs_cluster.port}"]

    entry = store.put(f"hdfs://cluster{folder}/file", b"x")
    assert list(store.list(f"hdfs://cluster{folder}")) == [entry]
    assert hdfs_cluster.read(f"{folder}/file") == b"x"


def test_a_configuration_gives_the_default_file_system(hdfs_cluster: HdfsCluster, folder: str, tmp_path: Path) -> None:
    hdfs_cluster.write_client_configuration(tmp_path)
    store = HdfsStore(StoreSettings(uri_prefix="hdfs://", hadoop_conf=str(tmp_path)))

    entry = store.put(f"hdfs://{folder}/file", b"x")

    assert hdfs_cluster.read(f"{folder}/file") == b"x"
    assert list(store.list(f"hdfs://{folder}")) == [entry]


def test_without_host_and_configuration_the_uri_is_refused(store: HdfsStore, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("HADOOP_CONF_DIR", raising=False)
    with pytest.raises(BadSpec, match=r"fs\.defaultFS"):
        store.stat("hdfs:///folder")


def test_a_configuration_that_is_no_xml_is_refused(tmp_path: Path) -> None:
    (tmp_path / "core-site.xml").write_text("fs.defaultFS=hdfs://nn")
    with pytest.raises(BadSpec, match=r"core-site\.xml"):
        HdfsStore(StoreSettings(uri_prefix="hdfs://", hadoop_conf=str(tmp_path)))


def test_a_folder_where_a_file_should_be_is_named(hdfs_cluster: HdfsCluster, store: HdfsStore, folder: str) -> None:
    hdfs_cluster.mkdirs(f"{folder}/sub/below")
    with pytest.raises((NotPermitted, AlreadyExists), match="folder"):
        store.put(f"{hdfs_cluster.uri}{folder}/sub", b"x", replace=True)
    assert [each.path for each in hdfs_cluster.files(folder)] == []


def test_a_rename_whose_answer_was_lost_is_done(hdfs_cluster: HdfsCluster, store: HdfsStore, folder: str) -> None:
    upload = store.create(f"{hdfs_cluster.uri}{folder}/file")
    upload.write(b"content")
    real = upload._client

    class RenamesTwice:
        def rename(self, source: str, target: str, overwrite: bool) -> None:
            real.rename(source, target, overwrite)
            real.rename(source, target, overwrite)

        def __getattr__(self, name: str) -> object:
            return getattr(real, name)

    upload._client = RenamesTwice()  # type: ignore[assignment] # stands in for the client
    entry = upload.commit(replace=False)

    assert store.stat(f"{hdfs_cluster.uri}{folder}/file") == entry


def test_an_abort_that_meets_a_fault_is_made_again(hdfs_cluster: HdfsCluster, store: HdfsStore, folder: str) -> None:
    upload = store.create(f"{hdfs_cluster.uri}{folder}/file")
    upload.write(b"content")
    real = upload._client
    faults = iter([OSError("connection reset")])

    class FailsOnce:
        def delete(self, path: str, recursive: bool) -> bool:
            for fault in faults:
                raise fault
            return real.delete(path, recursive)

    upload._client = FailsOnce()  # type: ignore[assignment] # as above
    upload.abort()

    assert hdfs_cluster.files(folder) == []


def test_a_creation_whose_answer_was_lost_leaves_nothing(
    hdfs_cluster: HdfsCluster, store: HdfsStore, folder: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    real = store.new_client(hdfs_cluster.uri.removeprefix("hdfs://"))

    class LosesTheAnswer:
        def create(self, path: str, options: object) -> None:
            real.create(path, options)  # type: ignore[arg-type] # as it came
            raise OSError("RPC listener disconnected")

        def __getattr__(self, name: str) -> object:
            return getattr(real, name)

    monkeypatch.setattr(store, "new_client", lambda _: LosesTheAnswer())
    with pytest.raises(Unreachable, match="RPC listener disconnected"):
        store.create(f"{hdfs_cluster.uri}{folder}/file")

    assert hdfs_cluster.files(folder) == []


def test_calls_of_the_client_are_watched(hdfs_cluster: HdfsCluster, store: HdfsStore, folder: str, monkeypatch: pytest.MonkeyPatch) -> None:
    beats = watchdog.Heartbeats.create()
    monkeypatch.setattr(watchdog, "_current", beats)
    upload = store.create(f"{hdfs_cluster.uri}{folder}/file")
    inside: list[float] = []

    class Hangs:
        def write(self, data: bytes) -> int:
            time.sleep(0.05)
            inside.append(beats.longest_seconds())
            return len(data)

        def close(self) -> None:
            raise RuntimeError("OperationFailed")

    parked = upload._writer
    upload._writer = Hangs()  # type: ignore[assignment] # stands in for the writer
    upload.write(b"x")
    with pytest.raises(Unreachable):
        upload.commit(replace=False)
    upload.abort()

    assert inside[0] >= 0.05
    assert beats.longest_seconds() == 0
    del parked
    beats.close()


# -- servers that die ---------------------------------------------------------------------------------------------------


@pytest.fixture
def mended_cluster(hdfs_cluster: HdfsCluster) -> Iterator[HdfsCluster]:
    """Yield the cluster, and start all servers that a test has left dead."""
    yield hdfs_cluster
    hdfs_cluster.start_missing()


def test_a_data_node_killed_while_writing_costs_at_most_a_retry(
    mended_cluster: HdfsCluster, folder: str, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.ERROR)
    store = HdfsStore(StoreSettings(uri_prefix="hdfs://"))
    piece = bytes(range(256)) * 4096
    uri = f"{mended_cluster.uri}{folder}/shard"
    began = time.monotonic()
    messages: list[str] = []
    while len(messages) < 20:
        upload = store.create(uri, hdfs=HdfsOptions(block_size=4 * MIB))
        try:
            for number in range(24):
                upload.write(piece)
                if number == 6 and not messages and len(mended_cluster.processes) == 3:
                    mended_cluster.kill_datanode(0)
            assert [each.path for each in mended_cluster.files(folder) if not each.path.startswith(f"{folder}/.")] == []
            upload.commit(replace=False)
            break
        except Unreachable as exc:
            upload.abort()
            messages.append(str(exc))
            assert not mended_cluster.exists(f"{folder}/shard")
            time.sleep(2)
    assert time.monotonic() - began < 100
    assert all(mended_cluster.host in message for message in messages)

    assert [each.path for each in mended_cluster.files(folder)] == [f"{folder}/shard"]
    assert store.get(uri) == piece * 24


def test_a_data_node_killed_while_reading_is_not_noticed(mended_cluster: HdfsCluster, folder: str) -> None:
    store = HdfsStore(StoreSettings(uri_prefix="hdfs://"))
    content = bytes(range(256)) * 4096 * 24
    uri = f"{mended_cluster.uri}{folder}/shard"
    store.put(uri, content, hdfs=HdfsOptions(block_size=4 * MIB))

    found = []
    with store.open(uri) as source:
        for number, piece in enumerate(source.stream()):
            found.append(piece)
            if number == 3:
                mended_cluster.kill_datanode(1)
        assert b"".join(found) == content
        assert source.read_at(5 * MIB, MIB) == content[5 * MIB : 6 * MIB]


def test_a_name_node_that_restarts_is_waited_for(mended_cluster: HdfsCluster, folder: str) -> None:
    store, place = HdfsStore(StoreSettings(uri_prefix="hdfs://")), f"{mended_cluster.uri}{folder}"
    store.put(f"{place}/file", b"x")
    mended_cluster.kill_namenode()
    mended_cluster.start_namenode()

    assert store.get(f"{place}/file") == b"x"
    store.put(f"{place}/file2", b"y")
