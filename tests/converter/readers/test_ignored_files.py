"""Input files that aren't read are counted, whatever the reason."""

import json
import sys
from pathlib import Path
from typing import Any

import pytest
from tests.builders.files import put
from tests.builders.images import an_image
from tests.builders.jobs import run_job
from tests.builders.specs import parse_job
from tests.converter.readers.annotated import coco, voc

from dataprep_api.resources.job import DataPrepJob
from dataprep_converter.inputs.access import Access
from dataprep_converter.steps import plan_step
from dataprep_converter.tools.inspect import inspection

IMAGE = an_image()
ROW = b'{"a": 1}\n'
CASES: dict[str, tuple[dict[str, bytes], dict[str, Any], int]] = {
    "other extensions": ({"a/1.jpg": IMAGE, "a/1.txt": b"", "a/noextension": b""}, {"images": {"uris": ["."]}}, 2),
    "hidden files, and files of hidden folders": (
        {"a/1.jpg": IMAGE, "a/.2.jpg": IMAGE, "a/_3.jpg": IMAGE, "_tmp/4.jpg": IMAGE, ".git/a/5": b""},
        {"images": {"uris": ["."]}},
        4,
    ),
    "hidden files directly in the folder": (
        {"1.jpg": IMAGE, ".2.jpg": IMAGE, "a/.3.jpg": IMAGE},
        {"images": {"uris": ["."], "recursive": False, "labelFrom": "None"}},
        1,
    ),
    "hidden files of any kind": ({"1.jsonl": ROW, "_SUCCESS": b"", "a/.part": b"", "a/2.jsonl": ROW}, {"jsonl": {"uris": ["."]}}, 2),
    "hidden files that a glob would match": (
        {"1.jsonl": ROW, "_2.jsonl": ROW, ".3.jsonl": ROW, "4.txt": b"", "_5.txt": b""},
        {"jsonl": {"uris": ["*.jsonl"]}},
        2,
    ),
    "a file that the source names": ({"_1.jsonl": ROW, ".2": b""}, {"jsonl": {"uris": ["_1.jsonl"]}}, 0),
    "metadata of a data set": ({"1.jsonl": ROW, "_dataprep/OWNER": b"", "_dataprep/a/b": b""}, {"jsonl": {"uris": ["."]}}, 0),
    "annotations in the images' folder": (
        {"1.jpg": IMAGE, "1.xml": voc([("a", 0, 0, 1, 1)]), "README": b""},
        {"annotatedImages": {"images": ["."], "annotations": ["."], "format": "Voc"}},
        1,
    ),
    "a common folder without any annotation": (
        {"1.jpg": IMAGE, "README": b""},
        {"annotatedImages": {"images": ["."], "annotations": ["."], "format": "Voc", "missing": "Empty"}},
        1,
    ),
    "other files of both folders": (
        {"i/1.jpg": IMAGE, "i/x": b"", "m/1.xml": voc([("a", 0, 0, 1, 1)]), "m/README": b"", "m/.hidden": b""},
        {"annotatedImages": {"images": ["i"], "annotations": ["m"], "format": "Voc"}},
        3,
    ),
    "COCO's file among the images": (
        {"1.jpg": IMAGE, "instances.json": coco({"1.jpg": [("a", 0, 0, 1, 1)]}, ["a"]), "README": b""},
        {"annotatedImages": {"images": ["."], "annotations": ["./instances.json"], "format": "Coco"}},
        1,
    ),
    "labels of no sequence": (
        {"s/1.csv": b"1\n", "l/1.csv": b"1\n", "l/2.csv": b"1\n"},
        {"csvSequences": {"uris": ["s"], "labels": {"uris": ["l"]}}},
        1,
    ),
    "keys that a join leaves out are no files": (
        {"a.csv": b"k,a\n1,1\n2,2\n", "b.csv": b"k,b\n1,1\n"},
        {
            "join": {
                "keys": ["k"],
                "missing": "Drop",
                "tables": [{"name": name, "source": {"csv": {"uris": [f"{name}.csv"], "header": True}}} for name in ("a", "b")],
            }
        },
        0,
    ),
}


def a_job(source: dict[str, Any], output: Path) -> DataPrepJob:
    spec = {"source": source, "output": {"uri": str(output)}}
    return parse_job(spec)


@pytest.mark.parametrize(("files", "source", "count"), CASES.values(), ids=CASES.keys())
def test_what_is_not_read_is_counted(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, files: dict[str, bytes], source: dict[str, Any], count: int
) -> None:
    put(tmp_path / "in", files)
    monkeypatch.chdir(tmp_path / "in")
    access = Access()
    for _ in range(2):
        assert plan_step.dry_run(a_job(source, tmp_path / "out"), access).ignored == count


def test_inspect_tells_how_many_files_were_ignored(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    put(tmp_path / "in", {"1.jsonl": ROW, "_2": b"", ".3": b""})
    job = a_job({"jsonl": {"uris": [str(tmp_path / "in")]}}, tmp_path / "out")
    planned, _ = run_job(job)
    inspection.show(str(tmp_path / "out"), Access(), records=0, as_json=False, stream=sys.stdout)
    assert "2 files among the inputs were ignored" in capsys.readouterr().out
    assert "<b>2</b><span>input files ignored</span>" in inspection.html(str(tmp_path / "out"), Access(), records=0)
    inspection.show(str(tmp_path / "out"), Access(), records=0, as_json=True, stream=sys.stdout)
    assert json.loads(capsys.readouterr().out)["ignored"] == 2
    (tmp_path / "out/_dataprep" / planned.run_id / "plan.json").write_text("{")
    inspection.show(str(tmp_path / "out"), Access(), records=0, as_json=False, stream=sys.stdout)
    assert "ignored" not in capsys.readouterr().out
