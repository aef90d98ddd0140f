"""`convert_to_records`: accepts the flags of TensorFlow's script and prints the same messages."""

import gzip
import hashlib
from pathlib import Path

import pytest

from dataprep_converter.cli import convert_to_records
from workbench import mnist


def code_of(*arguments: str | Path) -> int:
    with pytest.raises(SystemExit) as ended:
        convert_to_records.main([str(argument) for argument in arguments])
    return int(ended.value.code or 0)


@pytest.mark.slow
def test_it_writes_the_three_golden_files_and_says_so(digits: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert code_of("--directory", tmp_path, "--validation_size", "5000", "--input", digits) == 0
    said = capsys.readouterr()
    assert said.out == "".join(f"Writing {tmp_path}/{split}.tfrecords\n" for split in ("train", "validation", "test"))
    assert said.err == ""
    assert {
        name: (file.stat().st_size, hashlib.sha256(file.read_bytes()).hexdigest()) for name in mnist.FILES for file in [tmp_path / name]
    } == {name: (file.size, file.sha256) for name, file in mnist.FILES.items()}


@pytest.mark.parametrize("scheme", ["", "file://"])
def test_files_without_gzip_and_uris_are_found_too(few: Path, tmp_path: Path, scheme: str) -> None:
    source = tmp_path / "in"
    source.mkdir()
    for file in few.iterdir():
        (source / file.name.removesuffix(".gz")).write_bytes(gzip.decompress(file.read_bytes()))
    assert code_of(f"--directory={scheme}{tmp_path}/plain", f"--input={scheme}{source}") == 0
    assert code_of(f"--directory={tmp_path}/packed", f"--input={few}") == 0
    for name in mnist.FILES:
        assert (tmp_path / "plain" / name).read_bytes() == (tmp_path / "packed" / name).read_bytes()


def test_a_missing_input_is_one_line(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert code_of("--directory", tmp_path / "out", "--input", tmp_path / "absent") == 5
    [line] = capsys.readouterr().err.splitlines()
    assert line.startswith("dataprep: error: ")
    assert "absent/train-images-idx3-ubyte" in line


def test_a_validation_size_below_zero_is_refused(few: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert code_of("--directory", tmp_path / "out", "--input", few, "--validation_size", "-1") == 2
    assert "spec.splits.into[1].first" in capsys.readouterr().err
