"""A folder with so many objects that it is listed page by page. At night, the folder has 100,000 objects."""

from collections.abc import Iterator
from dataclasses import dataclass, field
from urllib.parse import parse_qs, urlsplit

import pytest
from tests.converter.stores.loopback import Quiet, served

from dataprep_converter.stores import Store, StoreSettings
from dataprep_converter.stores.registry import store_class

_OF_A_PAGE = 1000
_DATE = "2026-01-01T00:00:00.000Z"
_KEYS = {"accessKeyId": "key", "accessKeySecret": "secret"}


@dataclass
class Bucket:
    """A server that responds only to listing requests, in XML that both OSS and S3 clients understand."""

    objects: int
    endpoint: str = ""
    pages: list[int] = field(default_factory=list)
    """The numbers of the requested pages."""

    def page(self, number: int) -> str:
        first = number * _OF_A_PAGE
        objects = "".join(
            f"<Contents><Key>in/{each:06d}.jpg</Key><LastModified>{_DATE}</LastModified><ETag>&quot;{each:032x}&quot;</ETag>"
            f"<Type>Normal</Type><Size>{each}</Size><StorageClass>Standard</StorageClass></Contents>"
            for each in range(first, first + _OF_A_PAGE)
        )
        is_last = first + _OF_A_PAGE >= self.objects
        on = "" if is_last else f"<NextContinuationToken>{number + 1}</NextContinuationToken>"
        return (
            f'<?xml version="1.0" encoding="UTF-8"?>\n<ListBucketResult><Name>bucket</Name><Prefix>in/</Prefix><MaxKeys>{_OF_A_PAGE}</MaxKeys>'
            f"<KeyCount>{_OF_A_PAGE}</KeyCount><IsTruncated>{str(not is_last).lower()}</IsTruncated>{on}{objects}</ListBucketResult>"
        )


@pytest.fixture(params=[5_000, pytest.param(100_000, marks=pytest.mark.nightly)])
def bucket(request: pytest.FixtureRequest) -> Iterator[Bucket]:
    here = Bucket(request.param)

    class Answers(Quiet):
        def do_GET(self) -> None:  # noqa: N802 - the base class asks for this name
            query = parse_qs(urlsplit(self.path).query)
            assert query["prefix"] == ["in/"]
            here.pages.append(int(query.get("continuation-token", ["0"])[0]))
            # OSS's client rejects responses that lack a request id. The client also requires `Date`, which the server already sends.
            self.answer(200, here.page(here.pages[-1]), {"content-type": "application/xml", "x-oss-request-id": "1"})

    with served(Answers) as port:
        here.endpoint = f"http://127.0.0.1:{port}"
        yield here


@pytest.mark.slow
@pytest.mark.parametrize("scheme", ["oss", "s3"])
def test_the_objects_of_a_long_folder_come_page_by_page(bucket: Bucket, scheme: str) -> None:
    settings = StoreSettings(uri_prefix=f"{scheme}://", endpoint=bucket.endpoint, region="cn-shenzhen", path_style=True, credentials=_KEYS)
    store: Store = store_class(scheme)(settings)

    number = -1
    for number, entry in enumerate(store.list(f"{scheme}://bucket/in")):
        # A page is requested only when it is needed, so only one page of the entries is in memory.
        assert len(bucket.pages) == number // _OF_A_PAGE + 1
        assert (entry.uri, entry.size, entry.pin) == (f"{scheme}://bucket/in/{number:06d}.jpg", number, f"{number:032x}")
    assert number == bucket.objects - 1
    assert bucket.pages == list(range(bucket.objects // _OF_A_PAGE))
