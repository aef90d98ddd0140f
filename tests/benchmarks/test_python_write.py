"""The benchmark of `dataprep_io.write`: its ratios, and one run with little data. The figures are not tested."""

from pathlib import Path

import pytest
from benchmarks import python_write
from benchmarks.measuring import Took


def took(seconds: float) -> Took:
    return Took(records=1000, seconds=seconds, cpu_seconds=None, peak_bytes=64 << 20)


def test_the_ratio_is_that_of_the_median_speeds() -> None:
    runs = {"job": [took(2), took(1), took(9)], "arrow": [took(1), took(1), took(4)], "numpy": [took(4)], "pandas": [took(2.5)]}
    assert python_write.report(runs, 1000).splitlines()[2:] == [
        "| dataprep run, from Parquet | 500 | 1.00 |  | 64 |",
        "| an Arrow table | 1,000 | 2.00 | ≥ 0.9 ✓ | 64 |",
        "| NumPy arrays | 250 | 0.50 |  | 64 |",
        "| a DataFrame of pandas | 400 | 0.80 | ≥ 0.9 ✗ | 64 |",
        "",
        "1,000 rows of 22 numbers to TFRecord, medians of 3 rounds.",
    ]


@pytest.mark.slow
def test_equal_data_has_equal_shards(tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(python_write, "GOALS", {})
    options = ["--records", "2000", "--rounds", "1", "--folder", str(tmp_path), "--only", "arrow", "numpy"]
    assert python_write.main(options) == 0
    assert "differ" not in capsys.readouterr().out
