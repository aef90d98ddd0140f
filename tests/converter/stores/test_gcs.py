"""Behavior specific to Cloud Storage: tokens, rights, and uploads, which end with a conditional copy."""

import os
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest
from tests.builders.stores import MIB, fresh_name, put_in_parts
from tests.converter.stores.calls import assert_refused, every_call
from tests.converter.stores.lost_answers import lose_answers

from dataprep_converter.core.errors import AlreadyExists, BadCredentials, BadSpec, InputChanged, NotFound, NotPermitted, Unreachable
from dataprep_converter.inputs.access import Access
from dataprep_converter.steps.preflight import preflight
from dataprep_converter.stores import StoreSettings
from dataprep_converter.stores.objects.gcs import GcsBucket, GcsStore
from storeservers import FakeGcs

pytestmark = pytest.mark.store

RIGHTS = ["storage.objects.create", "storage.objects.get", "storage.objects.list", "storage.objects.delete"]


@pytest.fixture
def bucket(gcs_fake: FakeGcs) -> str:
    name = fresh_name("gcs")
    gcs_fake.make_bucket(name)
    return name


@pytest.fixture
def store(gcs_settings: StoreSettings) -> GcsStore:
    return GcsStore(gcs_settings)


@pytest.mark.parametrize("right", RIGHTS)
def test_the_preflight_names_the_right_that_is_missing(gcs_fake: FakeGcs, gcs_settings: StoreSettings, bucket: str, right: str) -> None:
    gcs_fake.allow([each for each in RIGHTS if each != right])

    with pytest.raises(NotPermitted, match=rf"missing {right} on gs://{bucket}/out/_dataprep/.*: 403 AccessDenied"):
        preflight(Access([gcs_settings]), f"gs://{bucket}/out", [])


def test_leftovers_that_may_not_be_listed_are_left_and_the_right_is_named(gcs_fake: FakeGcs, store: GcsStore, bucket: str) -> None:
    gcs_fake.allow(RIGHTS)
    with pytest.raises(NotPermitted, match=f"missing storage.multipartUploads.list on gs://{bucket}"):
        store.sweep(f"gs://{bucket}")


def test_an_absent_bucket_is_named(store: GcsStore) -> None:
    assert_refused(store, "gs://no-such-bucket/file", NotFound, match="bucket no-such-bucket does not exist at 127")


def test_a_key_of_another_account_is_refused_by_the_token_service(gcs_settings: StoreSettings, bucket: str, tmp_path: Path) -> None:
    strange = FakeGcs(tmp_path)
    key = strange.service_account_key.replace(strange.endpoint, gcs_settings.endpoint or "")
    store = GcsStore(replace(gcs_settings, credentials={"serviceAccountKey": key}))

    assert_refused(store, f"gs://{bucket}/file", BadCredentials, match="No token for the Secret's service account: .*invalid_grant")


@pytest.mark.parametrize(("key", "said"), [("no JSON", "is not the JSON key that Google issues"), ("{}", "No token for the Secret's")])
def test_a_secret_that_holds_no_key_is_told(key: str, said: str) -> None:
    with pytest.raises(BadCredentials, match=said):
        GcsStore(StoreSettings(uri_prefix="gs://", credentials={"serviceAccountKey": key})).stat("gs://b/file")


def test_a_pod_with_a_workload_identity_asks_the_metadata_server(gcs_fake: FakeGcs, bucket: str) -> None:
    # Use a separate process, because google-auth reads the address only once.
    host = f"{gcs_fake.host}:{gcs_fake.port}"
    program = (
        "from dataprep_converter.stores import StoreSettings; from dataprep_converter.stores.objects.gcs import GcsStore\n"
        f"store = GcsStore(StoreSettings(uri_prefix='gs://', endpoint='{gcs_fake.endpoint}')); uri = 'gs://{bucket}/file'\n"
        "store.put(uri, b'content')\n"
        "with store.open(uri) as source: print(source.read_at(3, 4).decode())\n"
    )
    environment = {key: value for key, value in os.environ.items() if not key.startswith(("GOOGLE_", "CLOUDSDK_"))}
    nowhere = {"GCE_METADATA_HOST": host, "GCE_METADATA_IP": host, "HOME": "/nonexistent", "PYTHONPATH": os.pathsep.join(sys.path)}

    done = subprocess.run([sys.executable, "-c", program], env=environment | nowhere, capture_output=True, text=True, check=False)

    assert (done.stdout, done.returncode) == ("tent\n", 0), done.stderr


def test_an_input_that_is_replaced_while_it_is_read_is_told(store: GcsStore, bucket: str) -> None:
    uri = f"gs://{bucket}/file"
    store.put(uri, b"a" * 100)
    with store.open(uri) as source:
        store.put(uri, b"b" * 100)
        with pytest.raises(InputChanged, match="has been replaced"):
            source.read_at(0, 10)


@pytest.mark.parametrize("exclusive", [True, False])
@pytest.mark.parametrize("times", [1, 2])
@pytest.mark.parametrize("size", [100, 17 * MIB], ids=str)
def test_a_completion_whose_answer_is_lost_is_ours(
    gcs_fake: FakeGcs, store: GcsStore, bucket: str, monkeypatch: pytest.MonkeyPatch, size: int, times: int, exclusive: bool
) -> None:
    # For a large object, lose the response to the completion first, and then the response to the copy.
    lose_answers(
        monkeypatch, of=lambda method, query: (method == "POST" and "uploadId" in query) or (method == "PUT" and not query), times=times
    )
    entry = put_in_parts(store, f"gs://{bucket}/file", b"c" * size, replace=not exclusive)

    assert entry == store.stat(f"gs://{bucket}/file")
    assert store.get(f"gs://{bucket}/file") == b"c" * size
    assert gcs_fake.keys(bucket) == ["file"]


@pytest.mark.parametrize(("size", "tells"), [(100, True), (17 * MIB, True), (17 * MIB, False)])
def test_a_lost_answer_does_not_make_anothers_object_ours(
    gcs_fake: FakeGcs, store: GcsStore, bucket: str, monkeypatch: pytest.MonkeyPatch, size: int, tells: bool
) -> None:
    if not tells:
        # Simulate that the request for the checksum is refused, or that a compatible service keeps no checksums.
        monkeypatch.setattr(GcsBucket, "checksum", lambda *_: None)
    store.put(f"gs://{bucket}/file", b"t" * size)
    upload = store.create(f"gs://{bucket}/file")
    upload.write(b"m" * size)
    lose_answers(monkeypatch, of=lambda method, query: method == "PUT" and not query)
    with pytest.raises(AlreadyExists):
        upload.commit(replace=False)
    upload.abort()

    assert gcs_fake.keys(bucket) == ["file"]


def test_an_upload_that_met_another_object_may_still_replace_it(gcs_fake: FakeGcs, store: GcsStore, bucket: str) -> None:
    store.put(f"gs://{bucket}/file", b"old")
    upload = store.create(f"gs://{bucket}/file")
    upload.write(bytes(9 * MIB))
    with pytest.raises(AlreadyExists):
        upload.commit(replace=False)
    upload.commit(replace=True)

    assert store.get(f"gs://{bucket}/file") == bytes(9 * MIB)
    assert gcs_fake.keys(bucket) == ["file"]


def test_a_uri_without_bucket_is_refused(store: GcsStore) -> None:
    with pytest.raises(BadSpec, match=r"names no bucket: write gs://bucket/key"):
        store.stat("gs:///file")


def test_a_service_that_is_not_there_is_named(gcs_settings: StoreSettings) -> None:
    store = GcsStore(replace(gcs_settings, endpoint="http://127.0.0.1:1"))
    for call in ("stat", "list"):
        with pytest.raises(Unreachable, match=r"Cloud Storage: cannot connect to 127\.0\.0\.1:1"):
            every_call(store, "gs://bucket/file")[call]()
