"""Every shape of schema in every format: a job writes verified files, or is refused before it writes anything. The number of workers
doesn't change the bytes."""

import re
from pathlib import Path
from typing import Final

import pytest
from tests.builders import pairs
from tests.builders.shapes import RECORDS, REFUSED, SOURCES, file_digests, shape_job

from dataprep_converter.core.errors import BadSpec
from dataprep_converter.formats.registry import FORMATS
from dataprep_converter.inputs.access import Access
from dataprep_converter.pipeline import shard_samples
from dataprep_converter.tools.verification import verify

WRITTEN: Final = [(source, format_) for source in SOURCES for format_ in FORMATS if (source, format_) not in REFUSED]


@pytest.fixture(autouse=True)
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    """Skip fsync: the tests check bytes rather than durability, and waiting for disks would take most of the time."""
    monkeypatch.setattr("os.fsync", lambda _: None)


def is_compared(source: str, format_: str) -> bool:
    """Return whether a case is in the quick run, which has one source for each format.

    It is the first source that the format can store. The search begins at a different source for each format.
    """
    start = list(FORMATS).index(format_) % len(SOURCES)
    sources = [each for each in (*list(SOURCES)[start:], *list(SOURCES)[:start]) if (each, format_) in WRITTEN]
    return source == sources[0]


@pytest.mark.parametrize(("source", "format_"), REFUSED)
def test_what_a_format_cannot_store_is_refused_before_any_write(source: str, format_: str, tmp_path: Path) -> None:
    job = shape_job(SOURCES[source](tmp_path), tmp_path / "out", format_=format_, parallelism=1)
    with pytest.raises(BadSpec, match=re.escape(REFUSED[source, format_])) as caught:
        file_digests(job, workers=1)
    assert format_ in str(caught.value)
    assert not [path for path in tmp_path.rglob("out/**/*") if path.is_file()]


@pytest.mark.slow
@pytest.mark.parametrize(("source", "format_"), WRITTEN)
def test_any_source_in_any_format(source: str, format_: str, tmp_path: Path) -> None:
    job = shape_job(SOURCES[source](tmp_path), tmp_path / "out", format_=format_, parallelism=1)
    assert len(file_digests(job, workers=1)) >= 3
    assert verify(job.spec.output.uri, Access()).records_out == RECORDS


@pytest.mark.slow
@pytest.mark.parametrize(("source", "format_"), pairs.chosen(WRITTEN, is_compared))
def test_the_number_of_workers_changes_no_byte(source: str, format_: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    written = SOURCES[source](tmp_path)
    one = file_digests(shape_job(written, tmp_path / "one", format_=format_, parallelism=1), workers=1)
    monkeypatch.setattr(shard_samples, "MOST_RECORDS", 2)
    assert file_digests(shape_job(written, tmp_path / "two", format_=format_, parallelism=2), workers=2) == one
