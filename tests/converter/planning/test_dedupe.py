"""Only the first of several equal records is kept. Records that are similar but not equal are all kept."""

import tracemalloc
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.converter.cli.commandline import code_of

from dataprep_converter.core.errors import BadSpec
from dataprep_converter.core.tensors import to_arrow
from dataprep_converter.formats.tfrecord import records
from dataprep_converter.planning import dedupe
from dataprep_converter.planning.dedupe import digests, digests_of_all, find_repeated, unique_digests
from dataprep_converter.runtime import limits


def again(columns: dict[str, Any]) -> list[int]:
    """Returns the rows that equal an earlier row."""
    records = pa.record_batch(columns)
    known = digests(records, list(columns))
    return [int(number) for found in find_repeated(known) for number in found]


@pytest.mark.parametrize(
    ("columns", "rows"),
    [
        ({"a": pa.array(["x", "y", "x", None, None, ""])}, [2, 4]),
        ({"a": pa.array(["ab", "a"]), "b": pa.array(["c", "bc"])}, []),
        ({"a": pa.array([1, 2, 1]), "b": pa.array([1.5, 1.5, 1.5])}, [2]),
        ({"a": pa.array([b"\0", b"\0\0", b"\0"], pa.large_binary())}, [2]),
        ({"a": to_arrow(np.array([[1, 2], [2, 1], [1, 2]]))}, [2]),
        ({"a": pa.array(["x", "y", "x"]).dictionary_encode()}, [2]),
        ({"a": pa.array([True, False, True])}, [2]),
    ],
)
def test_equal_records_are_found_and_the_first_one_stays(columns: dict[str, Any], rows: list[int]) -> None:
    assert again(columns) == rows


@given(values=st.lists(st.integers(0, 30), min_size=1, max_size=60), at_once=st.integers(1, 70), scanned=st.integers(1, 9))
def test_it_does_not_matter_how_many_are_sorted_at_a_time(values: list[int], at_once: int, scanned: int) -> None:
    seen: set[int] = set()
    expected = [number for number, value in enumerate(values) if value in seen or seen.add(value)]  # type: ignore[func-returns-value]
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(dedupe, "_at_once", lambda: at_once)
        patch.setattr(dedupe, "_SCANNED", scanned)
        assert sorted(again({"a": pa.array(values)})) == expected


def test_samples_that_are_no_duplicates_have_digests_of_their_own() -> None:
    found = digests_of_all(np.arange(5, 9), pa.record_batch({"a": pa.array(["x", "x"])}), np.array([6, 8]), ["a"])
    assert found.tolist() == [
        unique_digests(np.array([5]))[0].tolist(),
        found[3].tolist(),
        unique_digests(np.array([7]))[0].tolist(),
        *digests(pa.record_batch({"a": pa.array(["x"])}), ["a"]).tolist(),
    ]
    assert [sample.tolist() for sample in find_repeated(found)] == [[3]]


@pytest.mark.parametrize("equal", [1, 3], ids=["few are equal", "a third is equal"])
def test_the_memory_does_not_grow_with_the_number_of_samples(equal: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(dedupe, "_at_once", lambda: 1 << 12)
    peaks = []
    for count in (1 << 14, 1 << 17):
        known = unique_digests(np.arange(count))
        repeated = np.arange(equal, count, equal) if equal > 1 else np.array([count - 1])
        known[repeated] = known[0]
        tracemalloc.start()
        assert sum(len(found) for found in find_repeated(known)) == len(repeated)
        peaks.append(tracemalloc.get_traced_memory()[1])
        tracemalloc.stop()
    assert max(peaks) < (2 if equal > 1 else 1) * (1 << 12) * dedupe._SORT_BYTES + 100_000


@pytest.mark.parametrize(("memory", "at_once"), [(512 << 20, 1 << 21), (16 << 30, 1 << 25)], ids=["little", "much"])
def test_more_are_sorted_at_a_time_if_there_is_more_memory(memory: int, at_once: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(limits, "memory_bytes", lambda: memory)
    assert dedupe._at_once() == at_once


def test_a_column_that_can_not_be_compared_is_named() -> None:
    with pytest.raises(BadSpec, match="deduplicate: the column 'a' is list<item: int64>; use columns of text, bytes, numbers or tensors."):
        again({"a": pa.array([[1]])})


JOB = """
apiVersion: dataprep.io/v1alpha1
kind: DataPrepJob
metadata: {name: once}
spec:
  source: {csv: {uris: [INPUT], header: true}}
  deduplicate: {columns: [text, n]}
  splits: {into: [{name: train, first: 3}, {name: test}]}
  onBadRecord: {policy: Skip}
  output: {uri: OUTPUT}
"""


def test_a_job_leaves_out_what_is_repeated_and_says_how_much(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "a.csv").write_text("text,n,m\na,1,0\na,1,1\nb,1,2\na,2,3\na,1,4\nx,y,z\nb,1,5\nc,3,6\n")
    (tmp_path / "job.yaml").write_text(JOB.replace("INPUT", str(tmp_path / "a.csv")).replace("OUTPUT", str(tmp_path / "out")))
    assert code_of("run", tmp_path / "job.yaml", "--workers", "1", "--set", "source.csv.columns=" + COLUMNS) == 0
    found = {
        split: [
            records.parse_example(payload)["m"] for _, payload in records.read([(tmp_path / "out" / f"{split}.tfrecords").read_bytes()])
        ]
        for split in ("train", "test")
    }
    assert found == {"train": [[0], [2], [3]], "test": [[6]]}
    assert "3 of 8 records say the same as an earlier one and are left out" in capsys.readouterr().err


COLUMNS = "[{name: text, type: String}, {name: n, type: Int64}, {name: m, type: Int64}]"
