"""The origin of a record.

`output.provenance` adds it as features. If a stage after the reader finds a fault, the message names the record's line.
"""

import gzip
import json
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from tests.builders.jobs import run_job
from tests.converter.stores.loopback import QuietFolder, served

from dataprep_api.resources.job import DataPrepJob
from dataprep_converter.core.errors import BadData, BadSpec
from dataprep_converter.formats.tfrecord.records import parse_example, read
from dataprep_converter.inputs.access import Access
from dataprep_converter.tools.verification import verify

# The records begin on lines 2, 4, 5 and 8.
TEXT = 'n,word\n1,a\n\n2,b\n3,"c\nd"\n\n4,e\n'


def made(folder: Path, source: dict[str, Any], *, workers: int = 1, **spec: Any) -> Path:
    out = folder / "out"
    output = {"uri": str(out), "provenance": True, "overwrite": "Always", "shards": {"count": 2}, **spec.pop("output", {})}
    document = {"apiVersion": "dataprep.io/v1alpha1", "kind": "DataPrepJob", "metadata": {"name": "x"}}
    written = {"source": source, "workers": {"parallelism": workers}, **spec, "output": output}
    run_job(DataPrepJob.parse({**document, "spec": written}), workers=workers)
    return out


def records(out: Path) -> list[dict[str, Any]]:
    files = sorted(out.glob("*.tfrecords"))
    return [parse_example(payload) for file in files for _, payload in read([file.read_bytes()])]


def table(folder: Path, *, zipped: bool = False) -> dict[str, Any]:
    (folder / "in").mkdir()
    (folder / "in" / "a.csv").write_bytes(gzip.compress(TEXT.encode(), mtime=0) if zipped else TEXT.encode())
    return {"csv": {"uris": [str(folder / "in")], "header": True}}


@pytest.mark.parametrize("zipped", [False, True], ids=["plain", "gzip"])
@pytest.mark.parametrize("shuffle", [None, {"seed": 3}], ids=["in order", "shuffled"])
def test_every_record_names_its_file_and_line(tmp_path: Path, zipped: bool, shuffle: dict[str, Any] | None) -> None:
    spec: dict[str, Any] = {"shuffle": shuffle} if shuffle else {}
    out = made(tmp_path, table(tmp_path, zipped=zipped), **spec)
    found = {record["n"][0]: record for record in records(out)}
    assert {n: record["_uid"] for n, record in found.items()} == {1: [b"a.csv:2"], 2: [b"a.csv:4"], 3: [b"a.csv:5"], 4: [b"a.csv:8"]}
    assert json.loads(found[3]["_source"][0]) == {"source": str(tmp_path / "in" / "a.csv"), "index": 2, "line": 5}
    verify(str(out), Access())


def test_features_that_are_listed_go_with_them(tmp_path: Path) -> None:
    out = made(tmp_path, table(tmp_path), features=[{"name": "word"}])
    assert [sorted(record) for record in records(out)] == [["_source", "_uid", "word"]] * 4


def test_records_of_files_without_lines_are_numbered(tmp_path: Path) -> None:
    for name in ("x/1.bin", "y/2 é.bin"):
        (tmp_path / "in" / name).parent.mkdir(parents=True)
        (tmp_path / "in" / name).write_bytes(name.encode())
    out = made(tmp_path, {"wholeFile": {"uris": [str(tmp_path / "in")]}})
    found = [(record["_uid"][0].decode(), json.loads(record["_source"][0])) for record in records(out)]
    assert found == [
        ("x/1.bin:0", {"source": str(tmp_path / "in/x/1.bin"), "index": 0}),
        ("y/2 é.bin:0", {"source": str(tmp_path / "in/y/2 é.bin"), "index": 0}),
    ]


def test_a_file_that_is_named_by_its_uri_has_its_own_name(tmp_path: Path) -> None:
    (tmp_path / "b.jsonl").write_text('{"n": 1}\n\n{"n": 2}\n')
    out = made(tmp_path, {"jsonl": {"uris": [str(tmp_path / "b.jsonl")]}})
    assert [record["_uid"] for record in records(out)] == [[b"b.jsonl:1"], [b"b.jsonl:3"]]


def test_it_is_the_same_for_any_number_of_workers(tmp_path: Path) -> None:
    source = table(tmp_path)
    first = records(made(tmp_path, source))
    assert records(made(tmp_path, source, workers=2)) == first


def test_a_column_of_that_name_is_refused(tmp_path: Path) -> None:
    (tmp_path / "b.jsonl").write_text('{"_uid": "x"}\n')
    with pytest.raises(
        BadSpec, match=r"output\.provenance adds a column _uid, but the source has a column with this name; rename that column\."
    ):
        made(tmp_path, {"jsonl": {"uris": [str(tmp_path / "b.jsonl")]}})


# --- faults after the reader --------------------------------------------------------------------------------------


@pytest.mark.parametrize("zipped", [False, True], ids=["plain", "gzip"])
def test_a_fault_that_a_step_finds_names_file_and_line(tmp_path: Path, zipped: bool) -> None:
    step = {"oneHot": {"columns": ["n"], "numClasses": 4}}
    with pytest.raises(BadData, match=r"in/a\.csv, record 3: line 8: n 4 is outside 0\.\.3"):
        made(tmp_path, table(tmp_path, zipped=zipped), transforms=[step])


def test_a_fault_that_a_feature_finds_names_file_and_line(tmp_path: Path) -> None:
    (tmp_path / "b.libsvm").write_text("# a comment\n1 1:1\n\n7 1:2\n")
    source = {"libsvm": {"uris": [str(tmp_path / "b.libsvm")], "dense": True, "numFeatures": 1}}
    with pytest.raises(BadData, match=r"b\.libsvm, record 1: line 4: label 7 is outside 0\.\.1"):
        made(tmp_path, source, labels=[{"name": "label", "numClasses": 2}])


SEQUENCES = {
    "a step": (
        {"labels": [{"name": "y", "numClasses": 3}]}, "line 5: y 7 is outside 0..2 (step 3 of 3)",
    ),
    "a renamed column": (
        {"transforms": [{"rename": {"columns": {"y": "z"}}}], "labels": [{"name": "z", "numClasses": 3}]},
        "line 5: z 7 is outside 0..2 (step 3 of 3)",
    ),
    "a value of the whole sequence": (
        {"labels": [{"name": "all", "numClasses": 3}]}, "line 2: all 9 is outside 0..2",
    ),
    "a term": (
        {"transforms": [{"vocabulary": {"columns": ["word"], "terms": ["a", "b"]}}]}, "line 4: word: 'c' is not in the vocabulary",
    ),
    "after terms that were dropped": (
        {"transforms": [{"vocabulary": {"columns": ["word"], "terms": ["a", "b"], "unknown": "Drop"}}],
         "labels": [{"name": "y", "numClasses": 3}]},
        "line 2: y 7 is outside 0..2 (step 3 of 3)",
    ),
}  # fmt: skip


@pytest.mark.parametrize("zipped", [False, True], ids=["plain", "gzip"])
@pytest.mark.parametrize(("spec", "expected"), SEQUENCES.values(), ids=SEQUENCES.keys())
def test_a_fault_in_a_sequence_names_file_and_line_of_its_step(tmp_path: Path, spec: dict[str, Any], expected: str, zipped: bool) -> None:
    (tmp_path / "in").mkdir()
    for name, text in ("a", "y,word,all\n1,a,1\n"), ("b", 'y,word,all\n1,a,9\n\n2,c,9\n7,"b",9\n'):
        (tmp_path / "in" / f"{name}.csv").write_bytes(gzip.compress(text.encode(), mtime=0) if zipped else text.encode())
    source = {"csvSequences": {"uris": [str(tmp_path / "in")], "header": True, "perSequence": ["all"]}}
    with pytest.raises(BadData) as caught:
        made(tmp_path, source, **spec)
    assert str(caught.value).startswith(f"{tmp_path}/in/b.csv, record 0: {expected}. ")


def test_a_fault_in_labels_of_their_own_names_the_line_of_their_file(tmp_path: Path) -> None:
    for folder, text in ("in", "1\n2\n"), ("labels", "# a comment\n1\n9\n"):
        (tmp_path / folder).mkdir()
        (tmp_path / folder / "a.csv").write_text(text)
    source = {"csvSequences": {"uris": [str(tmp_path / "in")], "labels": {"uris": [str(tmp_path / "labels")], "skipLines": 1}}}
    with pytest.raises(BadData, match=r"in/a\.csv, record 0: its labels, line 3: label 9 is outside 0\.\.2 \(step 2 of 2\)\."):
        made(tmp_path, source, labels=[{"name": "label", "numClasses": 3}])
    renamed: dict[str, Any] = {"transforms": [{"rename": {"columns": {"label": "z"}}}], "labels": [{"name": "z", "numClasses": 3}]}
    with pytest.raises(BadData, match=r"in/a\.csv, record 0: line 1: z 9 is outside 0\.\.2 \(step 2 of 2\)\."):
        made(tmp_path, source, **renamed)


def test_a_fault_in_a_file_without_lines_names_its_record(tmp_path: Path) -> None:
    (tmp_path / "images").write_bytes(bytes.fromhex("00000803000000020000000100000001") + b"\x07\x08")
    (tmp_path / "labels").write_bytes(bytes.fromhex("0000080100000002") + b"\x01\x09")
    source = {"idx": {"subsets": [{"name": "train", "images": str(tmp_path / "images"), "labels": str(tmp_path / "labels")}]}}
    with pytest.raises(BadData, match=r"images, record 1: label 9 is outside 0\.\.1"):
        made(tmp_path, source, labels=[{"name": "label", "numClasses": 2}])


def test_the_signature_of_an_address_is_in_no_record(tmp_path: Path) -> None:
    web = tmp_path / "web"
    web.mkdir()
    (web / "a.csv").write_text("n\n1\n")
    with served(partial(QuietFolder, directory=str(web))) as port:
        address = f"http://127.0.0.1:{port}/a.csv?versionId=7"
        out = made(tmp_path, {"csv": {"uris": [f"{address}&X-Amz-Expires=60&X-Amz-Signature=se/cret"], "header": True}})
    [record] = records(out)
    assert record["_uid"] == [b"a.csv?versionId=7:2"]
    assert json.loads(record["_source"][0])["source"] == address
    assert b"se/cret" not in next((out / "_dataprep").rglob("manifest.json")).read_bytes()
