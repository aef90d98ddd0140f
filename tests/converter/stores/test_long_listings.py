"""A folder with so many objects that it is listed page by page. At night, the folder has 100,000 objects."""

from bisect import bisect_right
from collections.abc import Iterator
from dataclasses import dataclass, field
from urllib.parse import parse_qs, urlsplit

import pytest
from tests.converter.stores.loopback import Quiet, served

from dataprep_converter.stores import Store, StoreSettings
from dataprep_converter.stores.objects.key_listing import ALONE
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
    """The number of the first object of each requested page."""

    def page(self, first: int) -> str:
        numbers = range(first, min(first + _OF_A_PAGE, self.objects))
        objects = "".join(
            f"<Contents><Key>{key(each)}</Key><LastModified>{_DATE}</LastModified><ETag>&quot;{each:032x}&quot;</ETag>"
            f"<Type>Normal</Type><Size>{each}</Size><StorageClass>Standard</StorageClass></Contents>"
            for each in numbers
        )
        is_last = numbers.stop >= self.objects
        on = "" if is_last else f"<NextContinuationToken>{numbers.stop}</NextContinuationToken>"
        return (
            f'<?xml version="1.0" encoding="UTF-8"?>\n<ListBucketResult><Name>bucket</Name><Prefix>in/</Prefix><MaxKeys>{_OF_A_PAGE}</MaxKeys>'
            f"<KeyCount>{len(numbers)}</KeyCount><IsTruncated>{str(not is_last).lower()}</IsTruncated>{on}{objects}</ListBucketResult>"
        )

    def first_after(self, name: str) -> int:
        """Return the number of the first object whose key is greater than `name`."""
        return bisect_right(range(self.objects), name, key=key)


def key(number: int) -> str:
    return f"in/{number:06d}.jpg"


@pytest.fixture(params=[5_000, 20_500, pytest.param(100_000, marks=pytest.mark.nightly)])
def bucket(request: pytest.FixtureRequest) -> Iterator[Bucket]:
    here = Bucket(request.param)

    class Answers(Quiet):
        def do_GET(self) -> None:  # noqa: N802 - the base class asks for this name
            query = {name: value for name, [value] in parse_qs(urlsplit(self.path).query).items()}
            assert query["prefix"] == "in/"
            here.pages.append(
                int(query["continuation-token"]) if "continuation-token" in query else here.first_after(query.get("start-after", ""))
            )
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
        page = number // _OF_A_PAGE
        # The first pages are requested only when they are needed. From then on, only the pages that will be needed next are in memory.
        if page < ALONE:
            assert bucket.pages == [each * _OF_A_PAGE for each in range(page + 1)]
        else:
            assert max(bucket.pages) <= number + 80 * _OF_A_PAGE
        assert (entry.uri, entry.size, entry.pin) == (f"{scheme}://bucket/{key(number)}", number, f"{number:032x}")
    assert number == bucket.objects - 1
    assert len(bucket.pages) <= 1.3 * bucket.objects / _OF_A_PAGE + 8
