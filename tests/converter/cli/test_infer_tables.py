"""`dataprep infer` on tables as people have them: their missing values."""

import json
from pathlib import Path
from typing import Any

import pytest
import yaml
from tests.converter.cli.commandline import code_of


def inferred(source: Path, folder: Path) -> tuple[str, dict[str, Any]]:
    assert code_of("infer", source, "--output", folder / "job.yaml", "--to", folder / "out") == 0
    written = (folder / "job.yaml").read_text()
    spec: dict[str, Any] = yaml.safe_load(written)["spec"]
    return written, spec


def records(folder: Path, capsys: pytest.CaptureFixture[str]) -> list[dict[str, Any]]:
    """What the job writes as JSON Lines, which keeps nulls."""
    assert code_of("run", folder / "job.yaml", "--quiet", "--set", "output.format=jsonl") == 0
    capsys.readouterr()
    (shard,) = (folder / "out").glob("*.jsonl")
    return [json.loads(line) for line in shard.read_text().splitlines()]


def test_missing_values_are_found_and_written_into_the_job(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "a.csv").write_text("price,city,note\n1.5,Rome,\n-,?,none\n2.5,,x\nNA,Oslo,x\n")
    written, spec = inferred(tmp_path / "a.csv", tmp_path)
    assert spec["source"]["csv"]["nullWordsOf"] == {"price": ["-", "NA"], "city": ["", "?"], "note": [""]}
    assert "# missing values: price (- and NA), city (empty and ?), note (empty); remove words that are values from " in written
    assert "# column price: float, 2 of 4 empty, 2 different values, such as 1.5, 2.5\n" in written
    assert records(tmp_path, capsys) == [
        {"price": 1.5, "city": "Rome", "note": None},
        {"price": None, "city": None, "note": "none"},
        {"price": 2.5, "city": None, "note": "x"},
        {"price": None, "city": "Oslo", "note": "x"},
    ]


def test_a_word_far_below_the_first_rows_is_found(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "a.csv").write_text("n,text\n" + "1,some words that fill the first MiB of the file\n" * 30_000 + "nil,end\n")
    _, spec = inferred(tmp_path / "a.csv", tmp_path)
    assert spec["source"]["csv"]["nullWordsOf"] == {"n": ["nil"]}
    assert [record["n"] for record in records(tmp_path, capsys)[-2:]] == [1, None]


def test_a_missing_label_is_no_class(tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_text("x,label\n1,a\n2,NA\n3,b\n")
    written, _ = inferred(tmp_path / "a.csv", tmp_path)
    assert "# guessed label: column label (2 values in the first records: a, b)\n" in written
