"""Of several equal records, only the first is kept. Records that only look alike are all kept."""

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
from dataprep_converter.planning.dedupe import digests, find_repeated


def again(columns: dict[str, Any]) -> list[int]:
    """Returns the rows that equal an earlier row."""
    records = pa.record_batch(columns)
    known = digests(records, list(columns))
    return [int(number) for found in find_repeated(known, np.arange(records.num_rows)) for number in found]


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


@given(values=st.lists(st.integers(0, 30), min_size=1, max_size=60), parts=st.integers(1, 7))
def test_it_does_not_matter_in_how_many_parts_they_are_sorted(values: list[int], parts: int) -> None:
    seen: set[int] = set()
    expected = [number for number, value in enumerate(values) if value in seen or seen.add(value)]  # type: ignore[func-returns-value]
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(dedupe, "_AT_ONCE", -(-len(values) // parts))
        assert sorted(again({"a": pa.array(values)})) == expected


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
