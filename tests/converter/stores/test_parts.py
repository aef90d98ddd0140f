"""Tests of the parts of an upload."""

import random
import tracemalloc
from concurrent.futures import ThreadPoolExecutor

import pytest

from dataprep_converter.stores.objects.parts import PART_BYTES, Parts


@pytest.mark.parametrize("size", [0, 1, 999, 1000, 1001, 2000, 12_345], ids=str)
@pytest.mark.parametrize("seed", range(3))
def test_all_parts_but_the_last_are_full_however_the_bytes_come(size: int, seed: int) -> None:
    content = random.Random(seed).randbytes(size)  # noqa: S311 - test data
    sent: dict[int, bytes] = {}

    def send(number: int, data: memoryview) -> str:
        sent[number] = bytes(data)
        return str(number)

    with ThreadPoolExecutor(2) as threads:
        parts = Parts(begin=lambda: None, send=send, threads=threads, part_bytes=1000)
        position, lengths = 0, random.Random(seed)  # noqa: S311 - test data
        while position < size:
            length = lengths.choice([1, 10, 700, 1000, 2500])
            parts.write(content[position : position + length])
            position += length
        assert parts.begun == (size > 1000)
        tags = parts.finish()

    numbers = range(1, max(1, -(-size // 1000)) + 1)
    assert tags == [str(number) for number in numbers]
    assert b"".join(sent[number] for number in numbers) == content
    assert all(len(sent[number]) == 1000 for number in numbers[:-1])


def test_many_small_uploads_take_little_memory() -> None:
    with ThreadPoolExecutor(2) as threads:
        tracemalloc.start()
        uploads = [Parts(begin=lambda: None, send=lambda *_: "", threads=threads, part_bytes=PART_BYTES) for _ in range(64)]
        for upload in uploads:
            upload.write(bytes(10_000))
            upload.finish()
        _, peak = tracemalloc.get_traced_memory()
        tracemalloc.stop()
    assert peak < PART_BYTES
