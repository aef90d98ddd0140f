"""The OSS fake follows OSS's documentation for uploads, listings and deletions, and it injects faults on request."""

import http.client
import io
import re
import time
from concurrent.futures import ThreadPoolExecutor

import alibabacloud_oss_v2 as alioss  # type: ignore[import-untyped]  # it ships no types
import pytest
from alibabacloud_oss_v2.exceptions import OperationError  # type: ignore[import-untyped]  # it ships no types
from tests.converter.stores.oss_clients import (
    BUCKET,
    MIB,
    begin_upload,
    complete,
    get,
    oss_client,
    put,
    refusal_of,
    signed_headers,
    some_bytes,
    upload_part,
)

from storeservers import FakeOss
from storeservers.oss import Fault
from storeservers.oss.crc64 import crc64
from storeservers.oss.listing import page_of
from storeservers.processes import wait_until

pytestmark = pytest.mark.store


def test_an_upload_is_an_object_when_it_is_complete_and_not_before(oss: FakeOss) -> None:
    client = oss_client(oss)
    content = some_bytes(3 * MIB)
    upload_id = begin_upload(client, "multi/whole")
    second = upload_part(client, "multi/whole", upload_id, number=2, content=content[2 * MIB :])
    upload_part(client, "multi/whole", upload_id, number=1, content=b"a part that is sent again replaces itself")
    first = upload_part(client, "multi/whole", upload_id, number=1, content=content[: 2 * MIB])
    before = oss.keys(BUCKET, "multi/whole"), [(each.key, each.part_sizes) for each in oss.uploads(BUCKET)]

    completed = complete(client, "multi/whole", upload_id, [first, second])

    assert before == ([], [("multi/whole", {1: 2 * MIB, 2: MIB})])
    assert get(client, "multi/whole") == content
    assert completed.hash_crc64 == str(crc64(content))
    assert re.fullmatch(r'"[0-9A-F]{32}-2"', completed.etag or "")
    assert oss.uploads(BUCKET) == []
    assert refusal_of(lambda: complete(client, "multi/whole", upload_id, [first, second])).code == "NoSuchUpload"


def test_the_uploader_of_the_client_works_with_parallel_parts(oss: FakeOss) -> None:
    content = some_bytes(5 * MIB + 1)

    oss_client(oss).uploader(part_size=MIB, parallel_num=4).upload_from(
        alioss.PutObjectRequest(BUCKET, "multi/uploader"), io.BytesIO(content)
    )

    assert oss.read(BUCKET, "multi/uploader") == content


def test_completing_does_not_overwrite_when_that_is_forbidden(oss: FakeOss) -> None:
    client = oss_client(oss)
    upload_id = begin_upload(client, "forbidden/complete")
    part = upload_part(client, "forbidden/complete", upload_id, number=1, content=b"mine")
    oss.write(BUCKET, "forbidden/complete", b"theirs")

    refused = refusal_of(lambda: complete(client, "forbidden/complete", upload_id, [part], forbid_overwrite=True))
    client.abort_multipart_upload(alioss.AbortMultipartUploadRequest(BUCKET, "forbidden/complete", upload_id))

    assert (refused.status_code, refused.code) == (409, "FileAlreadyExists")
    assert oss.read(BUCKET, "forbidden/complete") == b"theirs"
    assert oss.uploads(BUCKET) == []


def test_an_upload_is_completed_with_all_parts_when_none_are_named(oss: FakeOss) -> None:
    client = oss_client(oss)
    upload_id = begin_upload(client, "multi/all")
    upload_part(client, "multi/all", upload_id, number=7, content=b"b")
    upload_part(client, "multi/all", upload_id, number=3, content=b"a" * 102_400)

    client.complete_multipart_upload(alioss.CompleteMultipartUploadRequest(BUCKET, "multi/all", upload_id, complete_all="yes"))

    assert oss.read(BUCKET, "multi/all") == b"a" * 102_400 + b"b"


@pytest.mark.parametrize(
    ("parts", "code"),
    [
        pytest.param([(1, None), (2, "WRONG")], "InvalidPart", id="wrong ETag"),
        pytest.param([(1, None), (3, "NONE")], "InvalidPart", id="absent part"),
        pytest.param([(2, None), (1, None)], "InvalidPartOrder", id="order"),
        pytest.param([(1, None), (2, None)], "EntityTooSmall", id="a small part before the last"),
    ],
)
def test_an_upload_with_wrong_parts_is_not_completed(oss: FakeOss, parts: list[tuple[int, str | None]], code: str) -> None:
    client = oss_client(oss)
    upload_id = begin_upload(client, "multi/wrong")
    sent = {number: upload_part(client, "multi/wrong", upload_id, number=number, content=b"small") for number in (1, 2)}
    named = [alioss.UploadPart(part_number=number, etag=etag or sent[number].etag) for number, etag in parts]

    refused = refusal_of(lambda: complete(client, "multi/wrong", upload_id, named))

    client.abort_multipart_upload(alioss.AbortMultipartUploadRequest(BUCKET, "multi/wrong", upload_id))
    assert (refused.status_code, refused.code) == (400, code)
    assert oss.keys(BUCKET, "multi/wrong") == []


def test_uploads_and_their_parts_are_listed_in_pages(oss: FakeOss) -> None:
    client = oss_client(oss)
    uploads = [(f"listed/{number}", begin_upload(client, f"listed/{number}")) for number in range(5)]
    for number in range(1, 6):
        upload_part(client, *uploads[0], number=number, content=b"x" * number)

    upload_pages = client.list_multipart_uploads_paginator(limit=2).iter_page(alioss.ListMultipartUploadsRequest(BUCKET, prefix="listed/"))
    part_pages = client.list_parts_paginator(limit=2).iter_page(alioss.ListPartsRequest(BUCKET, *uploads[0]))

    assert [[each.key for each in page.uploads or []] for page in upload_pages] == [
        ["listed/0", "listed/1"],
        ["listed/2", "listed/3"],
        ["listed/4"],
    ]
    assert [[each.size for each in page.parts or []] for page in part_pages] == [[1, 2], [3, 4], [5]]
    for key, upload_id in uploads:
        client.abort_multipart_upload(alioss.AbortMultipartUploadRequest(BUCKET, key, upload_id))
    assert oss.uploads(BUCKET) == []


# listing


@pytest.fixture(scope="module")
def listed(running_oss: FakeOss) -> FakeOss:
    running_oss.make_bucket("listed")
    for key in ("a", "b/1", "b/2", "b/c/3", "d", "größe 1", "ö"):
        running_oss.write("listed", key, key.encode())
    return running_oss


@pytest.mark.parametrize("limit", [1, 2, 3, 1000])
def test_both_listings_give_all_keys_and_folders_once(listed: FakeOss, limit: int) -> None:
    client = oss_client(listed)
    first = client.list_objects_paginator(limit=limit).iter_page(alioss.ListObjectsRequest("listed", delimiter="/"))
    second = client.list_objects_v2_paginator(limit=limit).iter_page(alioss.ListObjectsV2Request("listed", delimiter="/"))
    for pages in (list(first), list(second)):
        keys = [each.key for page in pages for each in page.contents or []]
        folders = [each.prefix for page in pages for each in page.common_prefixes or []]
        sizes = {len(page.contents or []) + len(page.common_prefixes or []) for page in pages[:-1]}

        assert keys == ["a", "d", "größe 1", "ö"]
        assert folders == ["b/"]
        assert sizes <= {limit}


def test_a_prefix_and_a_start_narrow_the_listing(listed: FakeOss) -> None:
    answer = oss_client(listed).list_objects_v2(alioss.ListObjectsV2Request("listed", prefix="b/", start_after="b/1", fetch_owner=True))

    assert [(each.key, each.size) for each in answer.contents or []] == [("b/2", 3), ("b/c/3", 5)]
    assert (answer.key_count, answer.is_truncated) == (2, False)


def test_a_page_has_100_keys_unless_more_are_asked_for_and_1000_at_most(oss: FakeOss) -> None:
    oss.make_bucket("many")
    for number in range(105):
        oss.write("many", f"{number:04}", b"")
    client = oss_client(oss)

    page = client.list_objects_v2(alioss.ListObjectsV2Request("many"))
    refused = refusal_of(lambda: client.list_objects_v2(alioss.ListObjectsV2Request("many", max_keys=1001)))

    assert (len(page.contents or []), page.is_truncated) == (100, True)
    assert (refused.status_code, refused.code) == (400, "InvalidArgument")


def test_a_page_after_a_folder_begins_behind_all_its_keys() -> None:
    keys = ["a/1", "a/2", "a0", "b"]

    page = page_of(keys, prefix="", delimiter="/", after="a/", limit=10)

    assert (page.keys, page.folders, page.is_truncated) == (["a0", "b"], [], False)


def test_a_batch_of_objects_is_deleted(oss: FakeOss) -> None:
    for key in ("batch/1", "batch/größe 2", "batch/3"):
        oss.write(BUCKET, key, b"x")
    order = [alioss.DeleteObject(key) for key in ("batch/1", "batch/größe 2", "batch/absent")]

    answer = oss_client(oss).delete_multiple_objects(alioss.DeleteMultipleObjectsRequest(BUCKET, objects=order))

    deleted = [each.key for each in answer.deleted_objects or []]
    assert deleted == ["batch/1", "batch/größe 2", "batch/absent"]
    assert oss.keys(BUCKET, "batch/") == ["batch/3"]


def test_deleting_what_is_not_there_is_no_error(oss: FakeOss) -> None:
    answer = oss_client(oss).delete_object(alioss.DeleteObjectRequest(BUCKET, "absent"))

    assert answer.status_code == 204


# faults and the log


def test_a_fault_hits_as_many_requests_as_it_is_armed_for(oss: FakeOss) -> None:
    oss.inject(Fault("error", status=503, count=2, method="PUT", matching=r"^PutObject /test-bucket/faulty$"))
    client = oss_client(oss)

    put(client, "healthy", b"x")
    refused = [refusal_of(lambda: put(client, "faulty", b"x")) for _ in range(2)]
    put(client, "faulty", b"x")

    assert [(each.status_code, each.code) for each in refused] == [(503, "ServiceUnavailable")] * 2
    assert oss.faults() == []


def test_a_client_that_tries_again_gets_over_a_fault(oss: FakeOss) -> None:
    oss.inject(Fault("error", status=500, count=2))

    put(oss_client(oss, attempts=3), "retried", some_bytes(MIB))

    assert [each.status for each in oss.requests()] == [500, 500, 200]
    assert oss.read(BUCKET, "retried") == some_bytes(MIB)


def test_a_fault_may_let_requests_pass_first(oss: FakeOss) -> None:
    oss.inject(Fault("error", status=500, skip=1))
    client = oss_client(oss)

    put(client, "first", b"x")

    assert refusal_of(lambda: put(client, "second", b"x")).status_code == 500


@pytest.mark.parametrize("after", [False, True])
def test_a_connection_is_dropped_before_or_after_the_work_is_done(oss: FakeOss, after: bool) -> None:
    key = f"dropped/{after}"
    oss.inject(Fault("drop", after=after))

    with pytest.raises(OperationError):
        put(oss_client(oss), key, some_bytes(MIB))

    assert (key in oss.keys(BUCKET)) is after


def test_a_stalled_answer_runs_into_the_time_limit_of_the_client(oss: FakeOss) -> None:
    oss.write(BUCKET, "stalled", b"x")
    oss.inject(Fault("stall", seconds=8))
    begin = time.monotonic()

    with pytest.raises(OperationError):
        get(oss_client(oss), "stalled")

    assert 4 < time.monotonic() - begin < 7.5


def test_a_stalled_request_continues_when_the_faults_are_cleared(oss: FakeOss) -> None:
    oss.inject(Fault("stall", seconds=60))
    with ThreadPoolExecutor(1) as pool:
        begin = time.monotonic()
        writing = pool.submit(put, oss_client(oss), "released", b"x")
        while oss.faults():
            time.sleep(0.01)
        assert "released" not in oss.keys(BUCKET)
        oss.clear_faults()
        writing.result()

    assert "released" in oss.keys(BUCKET)
    assert time.monotonic() - begin < 4


def test_a_truncated_body_is_noticed(oss: FakeOss) -> None:
    oss.write(BUCKET, "truncated", some_bytes(3 * MIB))
    oss.inject(Fault("truncate", size=MIB))

    with pytest.raises(Exception, match=r"IncompleteRead|InvalidChunk|broken|crc"):
        get(oss_client(oss), "truncated")

    assert oss.requests()[-1].sent_bytes == MIB


def test_a_client_that_leaves_in_the_middle_leaves_no_object(oss: FakeOss) -> None:
    headers = {**signed_headers(oss, "PUT", "half/object"), "Content-Length": str(2 * MIB)}
    connection = http.client.HTTPConnection(oss.host, oss.port, timeout=10)

    connection.putrequest("PUT", f"/{BUCKET}/half/object")
    for name, value in headers.items():
        connection.putheader(name, value)
    connection.endheaders(some_bytes(MIB))
    connection.close()

    wait_until(lambda: len(oss.requests()) > 0, seconds=10, what="the request is logged")
    assert oss.requests()[-1].status == 0
    assert oss.keys(BUCKET, "half/") == []


def test_the_log_tells_what_was_asked_and_how_much_was_moved(oss: FakeOss) -> None:
    client = oss_client(oss)
    put(client, "logged", some_bytes(1000))
    get(client, "logged")
    refusal_of(lambda: get(client, "absent"))

    assert [
        (each.method, each.operation, each.action, each.key, each.status, each.code, each.received_bytes) for each in oss.requests()
    ] == [
        ("PUT", "PutObject", "oss:PutObject", "logged", 200, "", 1000),
        ("GET", "GetObject", "oss:GetObject", "logged", 200, "", 0),
        ("GET", "GetObject", "oss:GetObject", "absent", 404, "NoSuchKey", 0),
    ]
    assert oss.requests()[1].sent_bytes == 1000
    assert {each.access_key for each in oss.requests()} == {oss.access_key}


def test_objects_and_uploads_outlive_a_restart_of_oss(oss: FakeOss) -> None:
    client = oss_client(oss)
    put(client, "restart/object", b"x", metadata={"a": "b"})
    upload_id = begin_upload(client, "restart/upload")
    part = upload_part(client, "restart/upload", upload_id, number=1, content=b"y")

    oss.stop()
    oss.start()

    complete(client, "restart/upload", upload_id, [part])
    assert get(client, "restart/object") == b"x"
    assert get(client, "restart/upload") == b"y"
    assert oss.entries(BUCKET, "restart/object")[0].headers["x-oss-meta-a"] == "b"
