"""The store servers behave as other tests assume. The OSS fake is tested in separate files.

Tests that kill HDFS servers run only at night (`nightly`). By day, tests of jobs cover this: they kill servers too, and would fail if the
servers couldn't be restarted.
"""

import contextlib
import json
import os
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path

import fsspec  # type: ignore[import-untyped]  # it ships no types
import obstore
import pytest
from obstore.exceptions import AlreadyExistsError, PermissionDeniedError
from obstore.store import S3Store
from tests.converter.stores.oss_clients import BUCKET, MIB, some_bytes

from storeservers import HdfsCluster, Lifetime, S3Server
from storeservers.hdfs_files import WebHdfsError
from storeservers.processes import ProcessIdentity, ServerFailed, ServerProcess, free_ports, wait_until

pytestmark = pytest.mark.store


# -- processes ----------------------------------------------------------------------------------------------------------


def a_sleeper(folder: Path, *, lifetime: Lifetime = Lifetime.WITH_STARTER) -> ServerProcess:
    return ServerProcess.start(
        "sleeper",
        ["sleep", "600"],
        log=folder / "sleeper.log",
        environment={},
        lifetime=lifetime,
    )


def test_a_server_that_ends_too_early_is_reported_with_its_log(tmp_path: Path) -> None:
    server = ServerProcess.start(
        "liar",
        ["sh", "-c", "echo no such luck; exit 3"],
        log=tmp_path / "log",
        environment={},
        lifetime=Lifetime.WITH_STARTER,
    )

    with pytest.raises(ServerFailed, match=r"liar ended with 3:\nno such luck"):
        server.wait_until(lambda: False, seconds=10)


def test_a_server_dies_with_the_tests_that_started_it(tmp_path: Path) -> None:
    starter = (
        "import sys, time; from pathlib import Path; from storeservers.processes import *;"
        f"server = ServerProcess.start('sleeper', ['sleep', '600'], log=Path({str(tmp_path / 'log')!r}), environment={{}},"
        "lifetime=Lifetime.WITH_STARTER); print(server.pid, flush=True); time.sleep(600)"
    )
    sources = str(Path(sys.modules["storeservers"].__path__[0]).parent)
    with subprocess.Popen(  # runs this interpreter with our own code
        [sys.executable, "-c", starter],
        stdout=subprocess.PIPE,
        env={**os.environ, "PYTHONPATH": sources},
    ) as tests:
        assert tests.stdout is not None
        server = ProcessIdentity.of(int(tests.stdout.readline()))
        was_running = server.running()

        tests.send_signal(signal.SIGKILL)

    assert was_running
    wait_until(lambda: not server.running(), seconds=10, what="the server is gone")


def test_a_server_outlives_the_thread_that_asked_for_it(tmp_path: Path) -> None:
    with ThreadPoolExecutor(1) as pool:
        server = pool.submit(a_sleeper, tmp_path).result()
    threading.Event().wait(0.5)

    assert server.running
    server.stop()


def test_a_port_is_given_to_one_process_as_long_as_it_lives() -> None:
    ports = free_ports("127.0.0.1", count=3)

    asked = f"from storeservers import processes; print([processes._claimed(port) for port in {ports}])"
    sources = str(Path(sys.modules["storeservers"].__path__[0]).parent)
    answer = subprocess.run(  # runs this interpreter with our own code
        [sys.executable, "-c", asked], capture_output=True, text=True, check=True, env={**os.environ, "PYTHONPATH": sources}
    )

    assert len(set(ports)) == 3
    assert answer.stdout == "[False, False, False]\n"


def test_an_identity_tells_a_process_from_a_later_one_with_its_id(tmp_path: Path) -> None:
    server = a_sleeper(tmp_path)
    later = replace(server.identity, start_ticks=server.identity.start_ticks - 1)

    later.end(grace_seconds=1)
    still_running = server.running
    server.kill()

    assert still_running
    assert not server.identity.running()


# -- HDFS ---------------------------------------------------------------------------------------------------------------


@pytest.fixture
def hdfs(hdfs_cluster: HdfsCluster) -> HdfsCluster:
    return hdfs_cluster


def hdfs_client(cluster: HdfsCluster) -> fsspec.AbstractFileSystem:
    # With the default settings, a call to a dead NameNode takes three minutes.
    return fsspec.filesystem(
        "hdfs",
        host=cluster.host,
        port=cluster.port,
        skip_instance_cache=True,
        **{
            "dfs.client.failover.max.attempts": "2",
            "dfs.client.failover.sleep.base.millis": "200",
            "dfs.client.failover.sleep.max.millis": "1000",
        },
    )


def test_hdfs_comes_up_with_two_datanodes(hdfs: HdfsCluster) -> None:
    assert len(hdfs.live_datanodes()) == 2


@pytest.mark.parametrize("replication", [1, 2])
def test_a_file_has_the_replication_that_its_writer_asked_for(hdfs: HdfsCluster, replication: int) -> None:
    path = f"/replication-{replication}/file"

    with hdfs_client(hdfs).open(path, "wb", replication=replication) as file:
        file.write(b"twelve bytes")

    [entry] = hdfs.ls(f"/replication-{replication}")
    assert (entry.path, entry.replication, entry.size, entry.is_folder) == (path, replication, 12, False)
    assert hdfs.read(path) == b"twelve bytes"


def test_a_name_with_blanks_and_letters_beyond_ascii_is_read_and_listed(hdfs: HdfsCluster) -> None:
    hdfs.write("/names/größe 1%.txt", b"x")

    assert [each.path for each in hdfs.files("/names")] == ["/names/größe 1%.txt"]
    assert hdfs.read("/names/größe 1%.txt") == b"x"
    assert hdfs_client(hdfs).cat_file("/names/größe 1%.txt") == b"x"


def test_a_folder_of_somebody_else_is_closed(hdfs: HdfsCluster, monkeypatch: pytest.MonkeyPatch) -> None:
    hdfs.mkdirs("/closed", owner="somebody", permission="700")
    monkeypatch.setenv("HADOOP_USER_NAME", "nobody")

    with (
        pytest.raises(Exception, match=r"AccessControlException.*user=nobody"),
        hdfs_client(hdfs).open("/closed/file", "wb") as file,
    ):
        file.write(b"x")

    entry = hdfs.stat("/closed")
    assert (entry.owner, entry.permission, hdfs.ls("/closed")) == ("somebody", "700", [])


def test_what_is_deleted_or_was_never_there_does_not_exist(hdfs: HdfsCluster) -> None:
    hdfs.write("/gone/file", b"x")
    existed = hdfs.exists("/gone/file")

    hdfs.delete("/gone")

    assert existed
    assert not hdfs.exists("/gone/file")


def test_the_client_configuration_leads_a_client_to_the_cluster(hdfs: HdfsCluster, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    hdfs.write("/configured", b"x")
    hdfs.write_client_configuration(tmp_path)
    monkeypatch.setenv("HADOOP_CONF_DIR", str(tmp_path))

    found = subprocess.run(
        [sys.executable, "-c", "import hdfs_native; print(hdfs_native.Client().get_file_info('/configured').length)"],
        check=True,
        capture_output=True,
        text=True,
    )

    assert found.stdout == "1\n"


@pytest.mark.nightly
def test_a_killed_datanode_is_missed_and_comes_back(hdfs: HdfsCluster) -> None:
    hdfs.write("/survivor", some_bytes(MIB))

    hdfs.kill_datanode(0)
    hdfs.wait_for_live_datanodes(1, seconds=60)
    content_without = hdfs_client(hdfs).cat_file("/survivor")
    hdfs.start_datanode(0)
    hdfs.wait_for_live_datanodes(2)

    assert content_without == some_bytes(MIB)


@pytest.mark.nightly
def test_a_datanode_is_killed_with_a_block_half_written(hdfs: HdfsCluster) -> None:
    ended = threading.Event()
    hdfs.write("/written/before", some_bytes(8 * MIB))

    def write() -> None:
        number = 0
        while not ended.is_set():
            # The client might get an error for the file that is being written when the DataNode dies.
            with contextlib.suppress(WebHdfsError, OSError):
                hdfs.write(f"/written/{number}", some_bytes(8 * MIB))
            number += 1

    writer = threading.Thread(target=write)
    writer.start()
    try:
        begun = hdfs.kill_datanode_while_writing(0)
        still_there = {block for block in begun if block.exists()}
    finally:
        ended.set()
        writer.join()
        hdfs.start_missing()

    assert begun
    assert still_there == begun
    assert hdfs.read("/written/before") == some_bytes(8 * MIB)


def test_a_datanode_that_nobody_writes_to_is_not_killed(hdfs: HdfsCluster) -> None:
    with pytest.raises(ServerFailed, match="nothing was written to datanode-0"):
        hdfs.kill_datanode_while_writing(0, seconds=0.02)

    assert len(hdfs.live_datanodes()) == 2


@pytest.mark.nightly
def test_a_killed_namenode_comes_back_with_its_files(hdfs: HdfsCluster) -> None:
    hdfs.write("/kept", b"x")

    hdfs.kill_namenode()
    hdfs.start_namenode()

    assert hdfs.read("/kept") == b"x"
    assert hdfs_client(hdfs).cat_file("/kept") == b"x"


# -- S3 -----------------------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def s3(tmp_path_factory: pytest.TempPathFactory) -> Iterator[S3Server]:
    with S3Server(tmp_path_factory.mktemp("s3")) as server:
        server.make_bucket(BUCKET)
        yield server


def s3_client(server: S3Server, *, access_key: str | None = None, secret_key: str | None = None) -> S3Store:
    return S3Store(
        BUCKET,
        endpoint=server.endpoint,
        region=server.region,
        access_key_id=access_key or server.access_key,
        secret_access_key=secret_key or server.secret_key,
        client_options={"allow_http": True},
        retry_config={"max_retries": 0},
    )


def test_a_multipart_upload_to_s3_is_one_object(s3: S3Server) -> None:
    content = some_bytes(17 * MIB)

    obstore.put(s3_client(s3), "multi/part", content, use_multipart=True, chunk_size=5 * MIB)

    assert s3.keys(BUCKET, "multi/") == ["multi/part"]
    assert s3.read(BUCKET, "multi/part") == content
    assert bytes(obstore.get_range(s3_client(s3), "multi/part", start=6 * MIB, length=9)) == content[6 * MIB :][:9]


def test_s3_creates_an_object_only_once(s3: S3Server) -> None:
    obstore.put(s3_client(s3), "once", b"first", mode="create")

    with pytest.raises(AlreadyExistsError):
        obstore.put(s3_client(s3), "once", b"second", mode="create")

    assert s3.read(BUCKET, "once") == b"first"


def test_an_unfinished_upload_to_s3_is_no_object(s3: S3Server) -> None:
    s3.request("POST", f"/{BUCKET}/unfinished", query={"uploads": ""})

    assert [each.key for each in s3.uploads(BUCKET)] == ["unfinished"]
    assert s3.keys(BUCKET, "unfinished") == []


def test_a_wrong_secret_is_refused_by_s3(s3: S3Server) -> None:
    with pytest.raises(PermissionDeniedError, match="SignatureDoesNotMatch"):
        obstore.put(s3_client(s3, secret_key="wrong"), "key", b"x")


def test_a_right_that_the_policy_does_not_give_is_denied_by_s3(s3: S3Server) -> None:
    s3.write(BUCKET, "readable", b"x")
    s3.add_user("reader", "reader-secret")
    s3.set_policy(
        BUCKET,
        '{"Statement": [{"Effect": "Allow", "Principal": "reader", "Action": ["s3:GetObject"],'
        f'"Resource": ["arn:aws:s3:::{BUCKET}/*"]}}]}}',
    )
    client = s3_client(s3, access_key="reader", secret_key="reader-secret")

    content = bytes(obstore.get(client, "readable").bytes())
    with pytest.raises(PermissionDeniedError, match="AccessDenied"):
        obstore.put(client, "readable", b"y")

    assert content == b"x"


def test_s3_keeps_its_objects_over_a_restart(s3: S3Server) -> None:
    s3.write(BUCKET, "kept in/s3", b"x")

    s3.stop()
    s3.start()

    assert bytes(obstore.get(s3_client(s3), "kept in/s3").bytes()) == b"x"


# -- the command --------------------------------------------------------------------------------------------------------


@pytest.mark.nightly
def test_up_starts_all_stores_and_down_stops_them(tmp_path: Path) -> None:
    sources = str(Path(sys.modules["storeservers"].__path__[0]).parent)

    def command(*arguments: str) -> None:
        subprocess.run(  # runs this interpreter with our own package
            [sys.executable, "-m", "storeservers", *arguments, "--dir", str(tmp_path)],
            check=True,
            capture_output=True,
            timeout=180,
            env={**os.environ, "PYTHONPATH": sources},
        )

    command("up")
    state = json.loads((tmp_path / "servers.json").read_text())
    identities = [ProcessIdentity(each["pid"], each["start_ticks"]) for store in state.values() for each in store["processes"]]
    were_running = [identity.running() for identity in identities]
    command("down")

    assert were_running == [True] * 5
    assert [identity.running() for identity in identities] == [False] * 5
    assert set(state) == {"hdfs", "s3", "oss"}
