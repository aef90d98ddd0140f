"""Files of 32 images each: training reads each file once, as a whole, and doesn't read the images individually."""

from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Self

import pytest
from tests.builders.images import an_image
from tests.builders.jobs import run_spec

import dataprep_reader
from dataprep_api.dataset.report import ManifestFile
from dataprep_converter.inputs.access import Access
from dataprep_converter.stores import Input
from dataprep_converter.tools.verification import verify
from dataprep_reader.shards import ShardLayout


class Counting:
    """An input that counts its reads."""

    def __init__(self, source: Input, name: str, reads: Counter[str]) -> None:
        self._source = source
        self._name = name
        self._reads = reads

    def __getattr__(self, name: str) -> Any:
        return getattr(self._source, name)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._source.close()

    def read_at(self, offset: int, length: int) -> bytes:
        self._reads[self._name] += 1
        return self._source.read_at(offset, length)

    def stream(self, offset: int = 0, length: int | None = None) -> Iterator[bytes]:
        self._reads[self._name] += 1
        return self._source.stream(offset, length)


@pytest.mark.slow
@pytest.mark.parametrize("format_", ["fileBatch", "webdataset", "tfrecord"])
def test_a_thousand_images_in_batches_of_32_are_32_files_that_are_read_once(
    format_: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    image = an_image()
    (tmp_path / "in").mkdir()
    for number in range(1000):
        (tmp_path / "in" / f"{number:04}.jpg").write_bytes(image + number.to_bytes(2))
    run_spec(
        {
            "source": {"wholeFile": {"uris": [str(tmp_path / "in")]}},
            "features": [{"name": "content"}, {"name": "path"}],
            "output": {
                "uri": str(tmp_path / "out"), "format": format_,
                **({"granularity": "Minibatch", "minibatchSize": 32} if format_ == "fileBatch" else {"shards": {"count": 32}}),
            },
        }
    )  # fmt: skip
    files = verify(str(tmp_path / "out"), Access()).files
    assert len(files) == 32
    if format_ == "fileBatch":
        assert [file.records for file in files] == [32] * 31 + [8]

    reads: Counter[str] = Counter()
    opened = ShardLayout.opened

    def counted(layout: ShardLayout, file: ManifestFile) -> Input:
        made: Any = Counting(opened(layout, file), file.file, reads)
        source: Input = made
        return source

    monkeypatch.setattr(ShardLayout, "opened", counted)
    found = [len(batch["content"]) for batch in dataprep_reader.open(str(tmp_path / "out"), batch_size=32)]
    assert found == [32] * 31 + [8]
    assert reads == dict.fromkeys((file.file for file in files), 1)
