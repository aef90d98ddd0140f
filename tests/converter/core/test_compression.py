"""Gzip members: every reader reads all members as one stream, and the file doesn't depend on how the bytes are divided among calls."""

import gzip
import random

from dataprep_converter.core.compression import MEMBER_BYTES, GzipMembers

NOISE = random.Random(1).randbytes(1000) * 9000  # noqa: S311  # seeded test data


def compressed(pieces: list[bytes]) -> bytes:
    members = GzipMembers(6)
    return b"".join(bytes(members.compress(piece)) for piece in pieces) + members.finish()


def test_gzip_reads_back_what_went_in() -> None:
    assert len(NOISE) > 2 * MEMBER_BYTES
    assert gzip.decompress(compressed([NOISE])) == NOISE


def test_the_bytes_do_not_depend_on_the_pieces() -> None:
    whole = compressed([NOISE])
    assert compressed([NOISE[i : i + 99_991] for i in range(0, len(NOISE), 99_991)]) == whole


def test_the_header_holds_no_time() -> None:
    assert compressed([b"x"])[:10].hex() == "1f8b0800000000000003"


def test_an_empty_file_is_still_gzip() -> None:
    assert gzip.decompress(compressed([])) == b""
