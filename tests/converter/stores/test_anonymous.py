"""Public buckets are read without credentials, and nothing is sent that could identify the reader."""

import json

import pytest
from tests.builders.stores import fresh_name
from tests.converter.stores.loopback import Quiet, served

from dataprep_api import spec
from dataprep_converter.core.errors import BadSpec, NotPermitted
from dataprep_converter.inputs import store_settings
from dataprep_converter.inputs.access import Access
from dataprep_converter.steps import preflight
from dataprep_converter.stores import StoreSettings
from storeservers import AzureServer, S3Server


class _Public(Quiet):
    """A fake of a public bucket, which returns the same object for every request."""

    seen: list[dict[str, str]]

    def do_GET(self) -> None:  # noqa: N802 - the base class's name
        self.seen.append({name.lower(): value for name, value in self.headers.items()})
        common = {"ETag": '"1"', "Last-Modified": "Sat, 21 Nov 2026 20:00:00 GMT", "x-goog-generation": "1", "x-goog-metageneration": "1"}
        if "Range" in self.headers:
            self.answer(206, b"content", headers=common | {"Content-Range": "bytes 0-6/7"})
        else:
            self.answer(200, b"content", headers=common)

    do_HEAD = do_GET  # noqa: N815 - as above


@pytest.mark.parametrize("uri", ["s3://bucket/a", "gs://bucket/a", "abfs://bucket@account/a", "oss://bucket/a"])
def test_no_request_has_credentials(uri: str, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "AZURE_STORAGE_ACCOUNT_KEY", "OSS_ACCESS_KEY_ID", "OSS_ACCESS_KEY_SECRET"):
        monkeypatch.setenv(name, "c2VjcmV0")
    seen: list[dict[str, str]] = []
    with served(type("Handler", (_Public,), {"seen": seen})) as port:
        prefix = f"{uri.partition('://')[0]}://"
        store = spec.Store(uri_prefix=prefix, endpoint=f"http://127.0.0.1:{port}", region="us-east-1", path_style=True, anonymous=True)
        access = Access(store_settings.settings_for([store], None))
        with access.store(uri).open(uri) as source:
            assert source.read_at(0, 7) == b"content"
        assert access.store(uri).get(uri) == b"content"

    assert seen
    assert not [headers for headers in seen if {"authorization", "x-amz-security-token"} & headers.keys()]


@pytest.mark.parametrize(
    "uri", ["hdfs://nn:8020/a", "webhdfs://nn:9870/a", "swebhdfs://nn:9871/a", "sftp://host/a", "odps://project/tables/t"]
)
def test_a_store_without_anonymous_requests_is_not_asked(uri: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ODPS_ENDPOINT", "http://127.0.0.1:1/api")
    scheme = uri.partition("://")[0]
    stores = [spec.Store(uri_prefix="s3://"), spec.Store(uri_prefix=f"{scheme}://", anonymous=True)]
    access = Access(store_settings.settings_for(stores, None))
    with pytest.raises(BadSpec) as refused:
        preflight.check_source(access, uri)
    assert str(refused.value) == (
        f"stores[1].anonymous isn't supported for {scheme}://; it is supported for s3://, oss://, gs://, abfs://, abfss://, hf://, ftp://."
    )


@pytest.mark.parametrize("uri", ["https://host/a", "file:///data/a", "/data/a"])
def test_an_anonymous_entry_is_true_of_stores_without_credentials(uri: str) -> None:
    assert Access([StoreSettings(uri_prefix=uri, anonymous=True)]).store(uri)


@pytest.mark.store
def test_a_public_bucket_is_listed_and_read_but_not_written(s3_server: S3Server) -> None:
    bucket = fresh_name("public")
    s3_server.make_bucket(bucket)
    s3_server.write(bucket, "a/b", b"content")
    allowed = {"Effect": "Allow", "Principal": "*", "Action": ["s3:GetObject", "s3:ListBucket"]}
    resources = [f"arn:aws:s3:::{bucket}", f"arn:aws:s3:::{bucket}/*"]
    s3_server.set_policy(bucket, json.dumps({"Version": "2012-10-17", "Statement": [allowed | {"Resource": resources}]}))
    store = Access([StoreSettings(uri_prefix="s3://", endpoint=s3_server.endpoint, path_style=True, anonymous=True)]).store("s3://x/")

    [entry] = store.list(f"s3://{bucket}/a")
    assert store.get(entry.uri) == b"content"
    with pytest.raises(NotPermitted):
        store.put(f"s3://{bucket}/c", b"x")


@pytest.mark.store
def test_a_public_container_is_listed_and_read(azure_server: AzureServer, azure_settings: StoreSettings) -> None:
    name = fresh_name("public")
    azure_server.make_container(name, public=True)
    root = f"abfs://{name}@{azure_server.account}.dfs.core.windows.net"
    Access([azure_settings]).store(root).put(f"{root}/a/b", b"content")
    store = Access([StoreSettings(uri_prefix="abfs://", endpoint=azure_settings.endpoint, anonymous=True)]).store(root)

    [entry] = store.list(f"{root}/a")
    assert store.get(entry.uri) == b"content"
