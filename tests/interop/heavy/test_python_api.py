"""`dataprep_io.write` with the real Polars, Hugging Face datasets and PyTorch: every value that is read back equals the library's value."""

import json
import sysconfig
from pathlib import Path
from typing import Any, Final

import pytest
from tests.interop.comparisons import compared

import environments
from dataprep_converter.inputs.access import Access
from dataprep_converter.tools.verification import verify
from dataprep_reader import open as open_data_set

pytestmark = [pytest.mark.interop, pytest.mark.heavy]

ROOT = Path(__file__).resolve().parents[3]
SCRIPT = ROOT / "tests/interop/readers/python_api.py"
PATHS = [str(ROOT / "api"), str(ROOT / "converter"), sysconfig.get_paths()["purelib"]]
ENVIRONMENTS: Final = {"polars": "datasets", "datasets": "datasets", "torch": "mds"}
NAMES: Final = {"polars": "Polars", "datasets": "Hugging Face's datasets", "torch": "PyTorch"}
KINDS: Final = {
    "polars": {
        "classes": {"kind": ["q", "p"], "level": ["p", "q", "unused"]},
        "chunks": {"kind": ["q", "p", "new"], "level": ["p", "q", "unused"]},
    },
    "datasets": {
        name: {"label": ["cat", "dog"]} for name in ("images", "iterable", "shuffled", "dict", "streams", "formatted")
    },
    "torch": {name: {"label": ["cat", "dog"]} for name in ("pairs", "subset", "concatenated", "splits")},
}  # fmt: skip
"""For each library, the class names of all data sets that have class names."""
REFUSALS: Final = {
    "polars": {
        "objects": "BadSpec: The data's column 'thing' is Object, which records can't contain.",
        "huge": "BadSpec: The data's column 'huge' is Int128, which records can't contain.",
    },
    "datasets": {
        "names": "BadSpec: classes: the classes of 'label' are dog, cat, but the data has the classes cat, dog.",
        "splits": "BadSpec: Split test: classes: the classes of 'label' are cat, dog, but the data has the classes a, b.",
        "missing": "BadData: The column 'image' has the path of a file that can't be read",
        "empty": "NoInput: The data set has no records, so there is nothing to write.",
    },
    "torch": {
        "loader": "TypeError: write expects the records of a data set, but torch.utils.data.dataloader.DataLoader yields batches.",
        "tensor": "TypeError: An array needs a name for its column",
        "length": "TypeError: write needs the number of samples, but __main__.with_torch.<locals>.Endless has no __len__.",
        "names": "TypeError: Record 0 has the type tuple.",
        "sparse": "BadData: The array 'x' has values of torch.float32, which can't be a column",
    },
}


def plain(value: Any) -> Any:
    return value.hex() if isinstance(value, bytes) else value


def records(folder: Path, split: str) -> list[dict[str, Any]]:
    """The records of a split, with bytes as hexadecimal digits."""
    batches = open_data_set(folder, split=split, as_="arrow", batch_size=1000)
    return [{name: plain(value) for name, value in row.items()} for batch in batches for row in batch.to_pylist()]


def named(rows: list[dict[str, Any]], classes: dict[str, list[str]], texts: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """The records, with class names instead of class numbers in columns where the library has strings."""
    return [
        {name: classes[name][value] if name in classes and isinstance(text[name], str) else value for name, value in row.items()}
        for row, text in zip(rows, texts, strict=True)
    ]


@pytest.mark.parametrize("library", ENVIRONMENTS)
def test_every_value_of_a_library_is_read_back(tmp_path: Path, library: str) -> None:
    (tmp_path / "wanted.json").write_text(json.dumps({"paths": PATHS, "folder": str(tmp_path / "sets"), "library": library}))
    said = json.loads(environments.run(ENVIRONMENTS[library], SCRIPT, [tmp_path / "wanted.json"]))
    for name, found in said["sets"].items():
        folder = tmp_path / "sets" / name
        manifest = verify(str(folder), Access(), every_record=True)
        assert manifest.labels == found["classes"] == KINDS[library].get(name, {}), name
        assert found["splits"] == {split: len(rows) for split, rows in found["rows"].items()}, name
        for split, rows in found["rows"].items():
            assert named(records(folder, split), manifest.labels, rows) == rows, name
        compared(
            format=manifest.format,
            reader=f"{NAMES[library]}, written by `dataprep_io.write`",
            versions=said["versions"],
            source=name,
            records=manifest.records_out,
            fields=sorted(feature["name"] for feature in manifest.features),
        )
    assert said["refusals"].keys() == REFUSALS[library].keys()
    for name, message in REFUSALS[library].items():
        assert said["refusals"][name].startswith(message), name
        assert not (tmp_path / "sets" / name / "_SUCCESS").exists()
