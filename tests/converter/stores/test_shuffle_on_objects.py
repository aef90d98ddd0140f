"""A shuffle in two rounds on object stores, where a file that is written again gets a new ETag."""

import threading
from typing import Any

import pytest
from tests.converter.stores import small_jobs
from tests.converter.stores.places import Place, on_some
from tests.converter.stores.small_jobs import assert_whole

from dataprep_converter.inputs.access import Access
from dataprep_converter.readers.shuffle import shuffle_file

pytestmark = [pytest.mark.slow, pytest.mark.store]


@on_some("oss", "gcs")
def test_a_file_that_is_written_again_between_two_requests_is_opened_again(remote: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    small_jobs.two_rounds(monkeypatch)
    job = small_jobs.of_a_shuffle(remote)
    small_jobs.live(job.to("whole"), Access([remote.settings]))
    expected = small_jobs.whole(remote, "whole")
    read_range = shuffle_file.read_range
    replaced: list[str] = []
    opened: list[str] = []
    lock = threading.Lock()

    def read(source: Any, *args: Any, uri: str) -> Any:
        with lock:
            opened.append(uri)
            if not replaced:
                # Append a byte after the last range. A server may derive the ETag from the content, so the content must change for the ETag
                # to change.
                remote.store().put(uri, remote.store().get(uri) + b"x")
                replaced.append(uri)
        return read_range(source, *args, uri=uri)

    monkeypatch.setattr(shuffle_file, "read_range", read)
    small_jobs.live(job.to("again"), Access([remote.settings]))
    assert opened.count(replaced[0]) == max(map(opened.count, opened)) > min(map(opened.count, opened))
    assert_whole(remote, "again", expected)
