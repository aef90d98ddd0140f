"""Copies that a store makes by itself: an upload whose parts are copied from another object of the bucket."""

from collections.abc import Callable, Mapping
from urllib.parse import quote

import pytest
from tests.builders.dataframes import begin, numbers, run_tasks
from tests.builders.stores import MIB, put_in_parts
from tests.converter.stores.lost_answers import lose_answers
from tests.converter.stores.places import PLACES, Place, some_bytes

from dataprep_converter.core.errors import InputChanged, NotFound, Unreachable
from dataprep_converter.inputs.access import Access
from dataprep_converter.stores import CopiesObjects, Entry, Store, publish
from dataprep_converter.stores.objects import parts
from dataprep_converter.stores.objects.objects import ObjectStore
from dataprep_converter.stores.objects.oss import OssStore
from dataprep_converter.stores.store_requests import Answer, Requests
from dataprep_converter.tools.verification import verify
from dataprep_frames import moving, publishing
from storeservers import FakeOss
from storeservers.oss import Fault


def on_only(*ids: str) -> pytest.MarkDecorator:
    return pytest.mark.parametrize("remote", [each for each in PLACES if each.id in ids], indirect=True)


on_copying_stores = on_only("s3", "oss")


@pytest.fixture(autouse=True)
def small_parts(monkeypatch: pytest.MonkeyPatch) -> None:
    """Splits copies of more than 8 MiB into several parts."""
    monkeypatch.setattr(parts, "COPIED_BYTES", parts.PART_BYTES)


def copying_store(place: Place) -> CopiesObjects:
    store = place.store()
    assert isinstance(store, CopiesObjects)
    return store


def refuse_reads(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: object) -> None:
        raise AssertionError("the object is read")

    for store in (ObjectStore, OssStore):
        monkeypatch.setattr(store, "open", refuse)
        monkeypatch.setattr(store, "get", refuse)


@on_copying_stores
@pytest.mark.parametrize("size", [1, 17 * MIB + 3], ids=["one part", "three parts"])
@pytest.mark.parametrize("replace", [False, True])
def test_a_copy_has_the_bytes_of_its_source(remote: Place, monkeypatch: pytest.MonkeyPatch, size: int, replace: bool) -> None:
    store, content = remote.store(), some_bytes(size)
    source = put_in_parts(store, remote.at("attempt/größe 1+2%.bin"), content)
    target = remote.at("copy.bin")
    with monkeypatch.context() as patched:
        refuse_reads(patched)
        upload = copying_store(remote).stage_copy(source, target)
        assert upload is not None
        assert store.stat(target) is None
        entry = upload.commit(replace=replace)

    assert entry == store.stat(target)
    assert store.get(target) == content
    assert remote.leftovers() == 0


@on_copying_stores
def test_a_copy_that_is_aborted_or_swept_publishes_nothing(remote: Place) -> None:
    store = remote.store()
    source = put_in_parts(store, remote.at("source"), b"content")
    for end in ("abort", "sweep"):
        upload = copying_store(remote).stage_copy(source, remote.at("copy"))
        assert upload is not None
        assert remote.leftovers() == 1
        if end == "abort":
            upload.abort()
        else:
            store.sweep(remote.root)
            with pytest.raises(Unreachable, match="is gone"):
                upload.commit(replace=False)
        assert remote.leftovers() == 0
    assert remote.names() == ["source"]


@on_copying_stores
def test_a_source_that_was_replaced_or_removed_is_not_copied(remote: Place) -> None:
    store = remote.store()
    source = put_in_parts(store, remote.at("source"), b"content")
    store.put(source.uri, b"another")
    with pytest.raises(InputChanged, match=r"/source has been replaced since it was listed"):
        copying_store(remote).stage_copy(source, remote.at("copy"))
    store.delete(source.uri)
    with pytest.raises(NotFound, match=r"/source does not exist"):
        copying_store(remote).stage_copy(source, remote.at("copy"))
    assert remote.names() == []
    assert remote.leftovers() == 0


@on_copying_stores
def test_an_empty_object_is_not_copied(remote: Place) -> None:
    """An upload can't consist of an empty part only. The caller then sends the object again."""
    source = remote.store().put(remote.at("source"), b"")

    assert copying_store(remote).stage_copy(source, remote.at("copy")) is None
    assert remote.leftovers() == 0


@on_only("s3")
@pytest.mark.parametrize("answer", [Answer(501, {}, b"<Error><Code>NotImplemented</Code></Error>"), Answer(200, {"etag": '"d41d8"'}, b"")])
def test_a_server_without_such_copies_gets_the_bytes_again(remote: Place, monkeypatch: pytest.MonkeyPatch, answer: Answer) -> None:
    """Some servers refuse the copy request. Others treat it as the upload of an empty part."""
    source = put_in_parts(remote.store(), remote.at("source"), some_bytes(17 * MIB))
    replace_answers(monkeypatch, answer, of=lambda headers: "x-amz-copy-source" in headers)

    assert copying_store(remote).stage_copy(source, remote.at("copy")) is None
    assert remote.names() == ["source"]
    assert remote.leftovers() == 0


@on_only("s3")
def test_a_small_object_is_copied_without_a_range(remote: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    """S3 refuses ranges of objects of up to 5 MB."""
    asked: list[Mapping[str, str]] = []

    def is_copy(headers: Mapping[str, str]) -> bool:
        if "x-amz-copy-source" in headers:
            asked.append(headers)
            return True
        return False

    replace_answers(monkeypatch, Answer(501, {}, b""), of=is_copy)
    source = Entry(remote.at("größe 1"), 5, "abc")

    assert copying_store(remote).stage_copy(source, remote.at("copy")) is None
    path = source.uri.removeprefix("s3:/")
    assert asked == [{"x-amz-copy-source": quote(path), "x-amz-copy-source-if-match": '"abc"'}]


@on_copying_stores
def test_a_completion_whose_answer_is_lost_is_ours(remote: Place, monkeypatch: pytest.MonkeyPatch, request: pytest.FixtureRequest) -> None:
    store, content = remote.store(), some_bytes(17 * MIB)
    source = put_in_parts(store, remote.at("source"), content)
    upload = copying_store(remote).stage_copy(source, remote.at("copy"))
    assert upload is not None
    if remote.root.startswith("oss:"):
        oss_fake: FakeOss = request.getfixturevalue("oss_fake")
        oss_fake.inject(Fault("drop", after=True, matching="CompleteMultipartUpload"))
    else:
        lose_answers(monkeypatch, of=lambda method, query: method == "POST" and "uploadId" in query)

    assert upload.commit(replace=False) == store.stat(remote.at("copy"))
    assert store.get(remote.at("copy")) == content


@on_copying_stores
@pytest.mark.parametrize("format_", ["tfrecord", "mapFile"])
def test_files_of_a_data_frame_do_not_pass_through_the_driver(remote: Place, monkeypatch: pytest.MonkeyPatch, format_: str) -> None:
    """Only companion files, such as the index of a map file, are read, because tasks report no pins for them."""
    sent: list[str] = []

    def stage_copy(
        source: Store, source_uri: str, *rest: object, original: Callable[..., object] = publish.stage_copy, **options: object
    ) -> object:
        sent.append(source_uri.rpartition("/")[2])
        return original(source, source_uri, *rest, **options)

    monkeypatch.setattr(moving, "stage_copy", stage_copy)
    folder, settings = remote.at("set"), remote.settings
    write = begin(folder, numbers(0, 1).schema, settings=[settings], format=format_)
    publishing.commit(write, run_tasks(write, [[numbers(0, 5)], [numbers(5, 5)]]))

    assert verify(folder, Access([settings]), every_record=True).records_out == 10
    assert {name for name in sent if name != "index"} == set()
    assert len(sent) == (2 if format_ == "mapFile" else 0)
    assert remote.leftovers() == 0


def replace_answers(monkeypatch: pytest.MonkeyPatch, answer: Answer, *, of: Callable[[Mapping[str, str]], bool]) -> None:
    """Replace the server's answer to each request whose headers satisfy `of`."""
    real = Requests._send_once

    def send_once(
        self: Requests, method: str, key: str, *, query: Mapping[str, str], headers: Mapping[str, str], body: bytes | memoryview
    ) -> Answer:
        return answer if of(headers) else real(self, method, key, query=query, headers=headers, body=body)

    monkeypatch.setattr(Requests, "_send_once", send_once)
