"""Behavior specific to WebHDFS, against a real NameNode and real DataNodes."""

import json
import socket
import uuid
from collections.abc import Iterator
from dataclasses import replace

import pytest
from tests.converter.stores.loopback import Quiet, served

from dataprep_api.spec import HdfsOptions
from dataprep_converter.core.errors import BadCredentials, BadSpec, InputChanged, NotPermitted, StoreError, StoreFull, Unreachable
from dataprep_converter.inputs.access import Access
from dataprep_converter.runtime.request_budget import RequestBudget
from dataprep_converter.steps.preflight import preflight
from dataprep_converter.stores import StoreSettings
from dataprep_converter.stores.hdfs.hdfs import HdfsStore
from dataprep_converter.stores.hdfs.webhdfs import Place, WebHdfsStore
from storeservers import HdfsCluster
from storeservers.faulty import Fault, HttpProxy, Kind

SETTINGS = StoreSettings(uri_prefix="webhdfs://")


@pytest.fixture
def folder() -> str:
    return f"/webhdfs/{uuid.uuid4().hex}"


@pytest.fixture
def root(hdfs_cluster: HdfsCluster, folder: str) -> str:
    return f"webhdfs://{hdfs_cluster.http_address}{folder}"


@pytest.mark.store
def test_replication_permission_and_block_size_are_as_asked_for(hdfs_cluster: HdfsCluster, root: str, folder: str) -> None:
    options = HdfsOptions.model_validate({"replication": 1, "permission": "600", "blockSize": "2Mi"})
    WebHdfsStore(SETTINGS).put(f"{root}/file", b"x", hdfs=options)

    found = hdfs_cluster.stat(f"{folder}/file")
    assert (found.replication, found.permission, found.block_size) == (1, "600", 2 << 20)


@pytest.mark.store
def test_both_ways_into_hdfs_see_the_same_files_and_pins(hdfs_cluster: HdfsCluster, root: str, folder: str) -> None:
    WebHdfsStore(SETTINGS).put(f"{root}/a/ü b", b"content")

    [there] = HdfsStore(StoreSettings(uri_prefix="hdfs://")).list(f"{hdfs_cluster.uri}{folder}")
    [here] = WebHdfsStore(SETTINGS).list(root)
    assert (here.pin, here.size, here.details) == (there.pin, there.size, there.details)


@pytest.mark.store
def test_a_file_is_not_moved_into_a_folder_of_its_name(hdfs_cluster: HdfsCluster, root: str, folder: str) -> None:
    store = WebHdfsStore(SETTINGS)
    store.put(f"{root}/name/below", b"x")
    for exclusive in (True, False):
        with pytest.raises(StoreError):
            store.put(f"{root}/name", b"y", replace=not exclusive)

    assert [each.path for each in hdfs_cluster.files(folder)] == [f"{folder}/name/below"]


@pytest.mark.store
def test_an_input_that_is_replaced_while_it_is_read_is_told(root: str) -> None:
    store = WebHdfsStore(SETTINGS)
    store.put(f"{root}/file", b"a" * 100)
    with store.open(f"{root}/file") as source:
        store.put(f"{root}/file", b"b" * 10)
        with pytest.raises(InputChanged, match="has been replaced"):
            source.read_at(0, 5)
        with pytest.raises(InputChanged, match="has been replaced"):
            source.read_at(50, 5)
        store.delete(f"{root}/file")
        with pytest.raises(InputChanged, match="was deleted"):
            b"".join(source.stream())


@pytest.mark.store
def test_a_user_without_rights_is_named_by_the_preflight(hdfs_cluster: HdfsCluster, root: str, folder: str) -> None:
    hdfs_cluster.mkdirs(folder, permission="755")

    with pytest.raises(NotPermitted, match=rf"AccessDenied: user=nobody path={folder}/out/.* \(needs WRITE on .*{folder}"):
        preflight(Access([replace(SETTINGS, user="nobody")]), f"{root}/out", [])


@pytest.mark.store
def test_what_hdfs_cannot_do_is_a_matter_of_the_spec(root: str) -> None:
    with pytest.raises(BadSpec, match="HDFS refuses .*block size"):
        WebHdfsStore(SETTINGS).put(f"{root}/file", b"x", hdfs=HdfsOptions.model_validate({"blockSize": "1Ki"}))


# -- without it ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("uri", "peer", "path"),
    [
        ("webhdfs://nn/a", "nn:9870", "/a"),
        ("webhdfs://nn:50070/a/b", "nn:50070", "/a/b"),
        ("swebhdfs://nn/a", "nn:9871", "/a"),
        ("webhdfs://[::1]/a", "::1:9870", "/a"),
    ],
)
def test_a_port_that_is_not_given_is_hadoops_own(uri: str, peer: str, path: str) -> None:
    place = WebHdfsStore(SETTINGS).place(uri)
    assert (place.peer, place.path) == (peer, path)


def test_a_uri_without_host_is_refused() -> None:
    with pytest.raises(BadSpec, match=r"names no NameNode: write webhdfs://host:9870/path"):
        WebHdfsStore(SETTINGS).stat("webhdfs:///a")


def said(exception: str, message: str) -> bytes:
    return json.dumps({"RemoteException": {"exception": exception, "javaClassName": f"x.{exception}", "message": message}}).encode()


@pytest.mark.parametrize(
    ("status", "body", "error", "message"),
    [
        (403, said("InvalidToken", "token (for alice) is expired"), BadCredentials, "refused the login of alice: 403 InvalidToken token"),
        (401, b"<html>Authentication required</html>", BadCredentials, "refused the login"),
        (403, said("StandbyException", "Operation category READ is not supported in state standby"), Unreachable, "StandbyException"),
        (403, said("SafeModeException", "Name node is in safe mode"), Unreachable, "SafeModeException"),
        (
            403,
            said("IOException", "File /x could only be written to 0 of the 1 minReplication nodes. There are 2 datanode(s) running"),
            Unreachable,
            "datanode(s) running (no DataNode has space for another block, or none can be reached from here).",
        ),
        (403, said("DSQuotaExceededException", "The DiskSpace quota of /x is exceeded"), StoreFull, "No quota left for /x"),
        (403, said("AccessControlException", "no words known"), NotPermitted, "AccessDenied: user=alice path=/x"),
        (404, b"nothing here", StoreError, "doesn't serve WebHDFS: 404 nothing here"),
        (404, said("FileNotFoundException", "File does not exist: /x")[:40], Unreachable, "for /x is truncated"),
    ],
)
def test_what_the_namenode_says_becomes_ours(status: int, body: bytes, error: type[StoreError], message: str) -> None:
    found = Place(False, "nn", 9870, "/x", {}, "alice", RequestBudget()).refusal(status, body)
    assert isinstance(found, error)
    assert message in str(found)


def test_a_namenode_that_is_not_there_is_named() -> None:
    with socket.socket() as closed:
        closed.bind(("127.0.0.1", 0))
        port = closed.getsockname()[1]
        with pytest.raises(Unreachable, match=rf"WebHDFS: cannot connect to 127\.0\.0\.1:{port}"):
            WebHdfsStore(SETTINGS).place(f"webhdfs://127.0.0.1:{port}/x").ask_once("GET", "GETFILESTATUS")


class _Token(Quiet):
    def do_GET(self) -> None:  # noqa: N802 - the base class's name
        known = "delegation=t0ken" in self.path and "user.name" not in self.path
        body = said("FileNotFoundException" if known else "InvalidToken", "words")
        self.answer(404 if known else 403, body)


@pytest.fixture
def gateway() -> Iterator[str]:
    with served(_Token) as port:
        yield f"webhdfs://127.0.0.1:{port}/x"


def test_a_delegation_token_takes_the_place_of_a_user(gateway: str) -> None:
    assert WebHdfsStore(replace(SETTINGS, credentials={"delegationToken": "t0ken"})).stat(gateway) is None
    with pytest.raises(BadCredentials) as raised:
        WebHdfsStore(replace(SETTINGS, credentials={"delegationToken": "0ther"})).stat(gateway)
    assert "0ther" not in str(raised.value)


class _Statuses(Quiet):
    """Responds like a NameNode, but doesn't announce the length of the body."""

    def do_GET(self) -> None:  # noqa: N802 - the base class's name
        self.send_response(200)
        self.end_headers()
        self.wfile.write(b'{"FileStatuses":{"FileStatus":[]}}')


def test_an_answer_that_is_cut_is_asked_for_again() -> None:
    with served(_Statuses) as port, HttpProxy(port, expired="") as proxy:
        proxy.arm([Fault(1, Kind.TRUNCATED), Fault(2, Kind.TRUNCATED)])
        uri = f"webhdfs://127.0.0.1:{proxy.port}/x"
        with pytest.raises(Unreachable, match=r"the response from .* for /x is truncated"):
            WebHdfsStore(SETTINGS).place(uri).ask_once("GET", "LISTSTATUS")
        assert [*WebHdfsStore(SETTINGS).list(uri)] == []
        assert proxy.count == 3


class _EarlyRefusal(Quiet):
    """Refuses an upload without reading its body, and closes the connection."""

    def do_PUT(self) -> None:  # noqa: N802 - the base class's name
        self.close_connection = True
        if "namenode" not in self.path:
            self.answer(307, "", {"location": f"http://127.0.0.1:{self.connection.getsockname()[1]}/data?namenode"})
        else:
            self.answer(403, said("AccessControlException", "Permission denied: user=nobody, access=WRITE"))

    def do_DELETE(self) -> None:  # noqa: N802 - the base class's name
        self.answer(200, '{"boolean": false}')


def test_a_refusal_that_comes_before_the_data_was_read_is_named() -> None:
    with served(_EarlyRefusal) as port:
        upload = WebHdfsStore(SETTINGS).create(f"webhdfs://127.0.0.1:{port}/x")
        with pytest.raises(NotPermitted, match="user=nobody"):
            upload.write(bytes(64 << 20))
        upload.abort()
