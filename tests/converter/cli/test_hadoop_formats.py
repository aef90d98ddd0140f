"""sequenceFile and mapFile from end to end: names, equal bytes for any number of workers, verify, inspect."""

from pathlib import Path

import pytest
from tests.converter.cli.commandline import EXAMPLES, code_of, settings

from workbench import photos
from workbench.example_inputs import iris


def converted(folder: Path, name: str, source: Path, workers: int = 1) -> Path:
    output = folder / f"out-{workers}"
    wanted = settings({"params.input": source, "output.uri": output})
    assert code_of("run", EXAMPLES / name, *wanted, "--workers", str(workers)) == 0
    return output


def files(folder: Path) -> list[str]:
    """Returns the files that a reader sees in all folders."""
    found = (file.relative_to(folder) for file in folder.rglob("*") if file.is_file())
    return sorted(str(file) for file in found if not any(part.startswith(("_", ".")) for part in file.parts))


def test_map_files_lie_in_a_folder_for_each_split_and_nothing_else_is_files(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    source = iris(tmp_path)
    one, three = (converted(tmp_path, "map-file-local.yaml", source, workers) for workers in (1, 3))
    parts = [f"{split}/part-r-{number:05d}" for split in ("test", "train") for number in range(2)]
    assert files(one) == [f"{part}/{name}" for part in parts for name in ("data", "index")]
    assert [(one / name).read_bytes() for name in files(one)] == [(three / name).read_bytes() for name in files(three)]
    capsys.readouterr()
    assert code_of("inspect", one, "--records", "1") == 0
    shown = capsys.readouterr().out
    assert "train/part-r-00001/data" in shown
    assert "measurements: " in shown
    index = one / "train/part-r-00001/index"
    index.write_bytes(index.read_bytes()[:-1] + b"?")
    assert code_of("verify", one) != 0
    assert "train/part-r-00001/index has " in capsys.readouterr().err


def test_a_sequence_file_of_photographs_has_their_names_and_bytes(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    source = photos.write(tmp_path / "photos")
    output = converted(tmp_path, "sequence-file-local.yaml", source)
    assert files(output) == ["part-r-00000"]
    data = (output / "part-r-00000").read_bytes()
    for file in sorted(source.rglob("*.jpg")):
        assert data.count(file.read_bytes()) == 1
    (output / "part-r-00000").write_bytes(data[:-5])
    assert code_of("verify", output) != 0
    assert "truncated value (" in capsys.readouterr().err
