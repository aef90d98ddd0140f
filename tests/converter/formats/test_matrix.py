"""Every source in every format: a job gives the same, verified bytes with any number of workers, or is refused before any write."""

import re
from pathlib import Path

import pytest
from tests.builders.shapes import RECORDS, REFUSED, SOURCES, file_digests, shape_job

from dataprep_converter.core.errors import BadSpec
from dataprep_converter.formats.registry import FORMATS
from dataprep_converter.inputs.access import Access
from dataprep_converter.pipeline import shard_samples
from dataprep_converter.tools.verification import verify


@pytest.mark.slow
@pytest.mark.parametrize("format_", FORMATS)
@pytest.mark.parametrize("source", SOURCES)
def test_any_source_in_any_format(source: str, format_: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    # Skip fsync: the tests check bytes rather than durability, and waiting for disks would take most of the time.
    monkeypatch.setattr("os.fsync", lambda _: None)
    written = SOURCES[source](tmp_path)
    one = shape_job(written, tmp_path / "one", format_=format_, parallelism=1)
    if (source, format_) in REFUSED:
        with pytest.raises(BadSpec, match=re.escape(REFUSED[source, format_])) as caught:
            file_digests(one, workers=1)
        assert format_ in str(caught.value)
        assert not [path for path in tmp_path.rglob("one/**/*") if path.is_file()]
        return
    first = file_digests(one, workers=1)
    assert len(first) >= 3
    assert verify(one.spec.output.uri, Access()).records_out == RECORDS
    monkeypatch.setattr(shard_samples, "MOST_RECORDS", 2)
    assert file_digests(shape_job(written, tmp_path / "two", format_=format_, parallelism=2), workers=2) == first
