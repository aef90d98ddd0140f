"""Checks of a complete object's bytes against its ETag."""

import hashlib
from collections.abc import Iterator

import pytest

from dataprep_converter.core.errors import Unreachable
from dataprep_converter.stores.digests import checked, checked_stream

CONTENT = b"what was written"
DAMAGED = b"what was writteN"
OTHER = b"what was Written"
TAG = hashlib.md5(CONTENT, usedforsecurity=False).hexdigest()


class Readings:
    """An object that returns different bytes at each read."""

    def __init__(self, *contents: bytes, tag: str = TAG) -> None:
        self.left = list(contents)
        self.tag = tag

    def read(self) -> tuple[bytes, str]:
        return self.left.pop(0), self.tag

    def stream(self) -> Iterator[bytes]:
        content = self.left.pop(0)
        yield content[:5]
        yield content[5:]

    def streamed(self) -> Iterator[bytes]:
        return checked_stream(self.stream(), size=len(CONTENT), etag=self.tag, uri="s3://b/k", again=self.stream)


@pytest.mark.parametrize("tag", [TAG, TAG.upper()], ids=["s3", "oss"])
def test_right_bytes_are_read_once(tag: str) -> None:
    assert checked(Readings(CONTENT, tag=tag).read, uri="s3://b/k") == CONTENT
    assert list(Readings(CONTENT, tag=tag).streamed()) == [CONTENT[:5], CONTENT[5:]]


def test_the_tag_of_parts_says_nothing_of_the_bytes() -> None:
    assert checked(Readings(DAMAGED, tag=f"{TAG}-2").read, uri="s3://b/k") == DAMAGED
    assert b"".join(Readings(DAMAGED, tag=f"{TAG}-2").streamed()) == DAMAGED


def test_a_tag_that_is_no_digest_is_believed_to_be_none_after_a_second_reading() -> None:
    assert checked(Readings(DAMAGED, DAMAGED).read, uri="s3://b/k") == DAMAGED
    assert b"".join(Readings(DAMAGED, DAMAGED).streamed()) == DAMAGED


@pytest.mark.parametrize("second", [CONTENT, OTHER], ids=["right", "damaged otherwise"])
def test_bytes_that_were_changed_on_the_way_are_refused(second: bytes) -> None:
    with pytest.raises(Unreachable, match=r"The bytes of s3://b/k were changed in transit"):
        checked(Readings(DAMAGED, second).read, uri="s3://b/k")
    with pytest.raises(Unreachable, match=r"The bytes of s3://b/k were changed in transit"):
        list(Readings(DAMAGED, second).streamed())


def test_the_last_piece_is_not_given_out_before_all_were_right() -> None:
    pieces = Readings(DAMAGED, CONTENT).streamed()
    assert next(pieces) == CONTENT[:5]
    with pytest.raises(Unreachable):
        next(pieces)
