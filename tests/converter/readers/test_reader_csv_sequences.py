"""Tests CSV files that contain one sequence each: steps, labels of steps and of sequences, and the errors for faulty files."""

import gzip
import hashlib
import io
import json
from pathlib import Path
from typing import Any, ClassVar

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.builders.jobs import run_job
from tests.builders.specs import parse_job
from tests.converter.readers.reader_contract import ReaderContract, batches, faults, opened, plan, rows

from dataprep_api.resources.job import DataPrepJob
from dataprep_api.spec import Source
from dataprep_converter.core.errors import BadData, BadSpec, NotFound
from dataprep_converter.formats.tfrecord import records
from dataprep_converter.inputs.access import Access
from dataprep_converter.readers import Reader
from dataprep_converter.readers.text.csv_sequences import CsvSequencesReader
from dataprep_converter.tools.inspect import inspection
from dataprep_converter.tools.verification import verify

ROW_1 = "1.0,3.2,4.5,1.1,6.3,0\n"
ROW_2 = "1.6,2.4,5.9,0.2,2.2,1\n"
ROW_3 = "1,2,3,4,5,9\n"
THREE_STEPS_SHA256 = "7d3e3421db2edefd46af7fe368ab6651fe36e93354f7c4dfde6ced83db2836cf"
"""The digest of the framed SequenceExample, computed from hand-written wire bytes."""


def put(folder: Path, files: dict[str, str | bytes]) -> Path:
    for name, content in files.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_bytes(content.encode() if isinstance(content, str) else content)
    return folder


def a_source(*uris: Path, **options: Any) -> Source:
    return Source.model_validate({"csvSequences": {"uris": [str(uri) for uri in uris], **options}})


def of_files(folder: Path, files: dict[str, str | bytes], **options: Any) -> Source:
    return a_source(put(folder / "in", files), **options)


def values(source: Source) -> list[list[Any]]:
    """The columns of the good sequences."""
    return [[cell for name, cell in row.items() if name != "_sample"] for row in rows(batches(CsvSequencesReader, source))]


def reasons(source: Source) -> dict[int, str]:
    return faults(batches(CsvSequencesReader, source))


class TestFiles(ReaderContract):
    reader: ClassVar[type[Reader]] = CsvSequencesReader

    def a_source(self, folder: Path) -> Source:
        # The sequences have one to five steps. Some cells are quoted, and some files are compressed.
        files: dict[str, str | bytes] = {}
        for n in range(30):
            text = "".join(f'{n},{n / 7},"x, {step}"\n' for step in range(1 + n % 5))
            files[f"{n:05d}.csv"] = gzip.compress(text.encode(), mtime=0) if n % 3 == 0 else text
        return of_files(folder, files)

    def an_empty_source(self, folder: Path) -> Source:
        raise NotImplementedError

    def test_an_empty_source_has_no_units(self, tmp_path: Path) -> None:
        """There are no empty sources here, because even an empty file is a sequence, and an empty folder is refused."""
        with pytest.raises(NotFound, match="names no file"):
            plan(self.reader, a_source(put(tmp_path, {"in/_hidden.csv": ROW_1}) / "in"))

    def a_missing_source(self, folder: Path) -> tuple[Source, str]:
        put(folder, {"a.csv": ROW_1})
        return a_source(folder / "a.csv", folder / "absent.csv"), str(folder / "absent.csv")

    def change(self, folder: Path) -> Path:
        put(folder / "in", {"00001.csv": "1,2,3\n"})
        return folder / "in" / "00001.csv"


class TestFilesWithLabels(TestFiles):
    def a_source(self, folder: Path) -> Source:
        super().a_source(folder)
        for n in range(30):
            put(folder / "labels", {f"{n:05d}.csv": f"{n % 3}\n"})
        return a_source(folder / "in", labels={"uris": [str(folder / "labels")], "per": "Sequence"})


# --- from text to records -----------------------------------------------------------------------------------------


def a_job(source: Source, output: Path, **spec: Any) -> DataPrepJob:
    features = {"features": [{"name": "features", "columns": ["0..4"]}], "labels": [{"name": "label", "columns": ["5"], "numClasses": 10}]}
    return parse_job(
        {"source": source.model_dump(by_alias=True, exclude_none=True), "output": {"uri": str(output)}} | features | spec, name="sequences"
    )


def made(job: DataPrepJob) -> bytes:
    run_job(job)
    (file,) = Path(job.spec.output.uri).glob("*.tfrecords")
    return file.read_bytes()


def test_sequences_of_three_and_five_rows_have_their_golden_bytes(tmp_path: Path) -> None:
    source = of_files(tmp_path, {"0.csv": ROW_1 + ROW_2 + ROW_3, "1.csv": ROW_1 + ROW_2 + ROW_3 + ROW_1 + ROW_2})
    data = made(a_job(source, tmp_path / "out"))
    assert hashlib.sha256(data[:142]).hexdigest() == THREE_STEPS_SHA256
    payloads = [payload for _, payload in records.read([data])]
    assert [len(payload) for payload in payloads] == [126, 195]
    assert len(data) == 142 + 211
    assert records.parse_example(payloads[1])["label"] == [[0], [1], [9], [0], [1]]


def test_values_of_a_sequence_can_be_predicted_by_regression(tmp_path: Path) -> None:
    source = of_files(tmp_path, {"0.csv": ROW_1 + ROW_2})
    spec = {"features": [{"name": "features", "columns": ["0..2"]}], "labels": [{"name": "label", "columns": ["3..5"]}]}
    (payload,) = [payload for _, payload in records.read([made(a_job(source, tmp_path / "out", **spec))])]
    found = records.parse_example(payload)
    assert [[round(value, 4) for value in step] for step in found["label"]] == [[1.1, 6.3, 0.0], [0.2, 2.2, 1.0]]
    assert [[round(value, 4) for value in step] for step in found["features"]] == [[1.0, 3.2, 4.5], [1.6, 2.4, 5.9]]


def test_a_sequence_has_one_class_or_one_number_in_its_context(tmp_path: Path) -> None:
    put(tmp_path / "labels", {"0.csv": "2,0.5\n", "1.csv": "0,1.5\n"})
    labels = {
        "uris": [str(tmp_path / "labels")],
        "per": "Sequence",
        "columns": [{"name": "class", "type": "Int64"}, {"name": "amount", "type": "Float32"}],
    }
    source = of_files(tmp_path, {"0.csv": ROW_1 + ROW_2 + ROW_3, "1.csv": ROW_2}, labels=labels)
    spec = {"features": [{"name": "features", "columns": ["0..4"]}], "labels": [{"name": "class", "numClasses": 3}, {"name": "amount"}]}
    found = [records.parse_example(payload) for _, payload in records.read([made(a_job(source, tmp_path / "out", **spec))])]
    assert [(record["class"], record["amount"], len(record["features"])) for record in found] == [([2], [0.5], 3), ([0], [1.5], 1)]


def test_a_class_of_a_sequence_outside_the_range_is_named_with_its_file(tmp_path: Path) -> None:
    put(tmp_path / "labels", {"0.csv": "3\n"})
    source = of_files(tmp_path, {"0.csv": ROW_1}, labels={"uris": [str(tmp_path / "labels")], "per": "Sequence"})
    with pytest.raises(BadData) as caught:
        made(a_job(source, tmp_path / "out", labels=[{"name": "label", "numClasses": 3}]))
    assert f"{tmp_path}/in/0.csv, record 0: its labels, line 1: label 3 is outside 0..2" in str(caught.value)


def test_a_class_outside_the_range_is_named_with_file_and_step(tmp_path: Path) -> None:
    source = of_files(tmp_path, {"0.csv": ROW_1 + ROW_2.replace(",1\n", ",10\n")})
    with pytest.raises(BadData) as caught:
        made(a_job(source, tmp_path / "out"))
    assert f"{tmp_path}/in/0.csv, record 0: line 2: label 10 is outside 0..9 (step 2 of 2)" in str(caught.value)


def test_sequences_are_verified_and_shown_step_by_step(tmp_path: Path) -> None:
    source = of_files(tmp_path, {"0.csv": ROW_1 + ROW_2})
    output = tmp_path / "out"
    made(a_job(source, output))
    manifest = verify(str(output), Access())
    assert {feature["name"]: (feature["shape"], feature["sequence"]) for feature in manifest.features} == {
        "features": ([-1, 5], True),
        "label": ([-1], True),
    }
    shown = {as_json: io.StringIO() for as_json in (False, True)}
    for as_json, stream in shown.items():
        inspection.show(str(output), Access(), records=1, as_json=as_json, stream=stream)
    assert "label: [0], [1]" in shown[False].getvalue()
    assert json.loads(shown[True].getvalue())["records"][0]["label"] == [[0], [1]]


# --- steps and labels ---------------------------------------------------------------------------------------------


def test_each_column_is_a_sequence_of_its_values(tmp_path: Path) -> None:
    source = of_files(tmp_path, {"a.csv": "t,x\n1,0.5\n2,1.5\n", "b.csv": "\ufefft,x\r\n3,2.5\r\n\r\n"}, header=True)
    units, state = plan(CsvSequencesReader, source)
    schema = opened(CsvSequencesReader, source, state).schema()
    marked = {b"sequence": b"yes"}
    assert {field.name: field.metadata for field in schema} == {"t": marked, "x": marked}
    assert values(source) == [[[1, 2], [0.5, 1.5]], [[3], [2.5]]]
    assert units.samples == 2


def test_skipped_lines_columns_defaults_and_null_words_go_as_in_csv(tmp_path: Path) -> None:
    columns = [{"name": "a", "type": "Int64", "default": "-1"}, {"name": "b", "type": "String"}, {"name": "c", "type": "Float32"}]
    source = of_files(tmp_path, {"0.csv": "# a\n;x;1.5\nNA;NA;2\n"}, skipLines=1, delimiter=";", columns=columns, nullWords=["NA"])
    assert values(source) == [[[-1, -1], ["x", ""], [1.5, 2.0]]]


def test_some_columns_are_selected(tmp_path: Path) -> None:
    source = of_files(tmp_path, {"0.csv": "1,word,3\n4,5,6\n"}, select=["-1", "0"])
    assert values(source) == [[[3, 6], [1, 4]]]


def test_a_column_that_every_row_repeats_has_one_value_for_the_sequence(tmp_path: Path) -> None:
    files: dict[str, str | bytes] = {"a.csv": "1,cat\n2,cat\n", "b.csv": '3,dog\n"4",dog\n5,ox\n', "c.csv": "6,ox\n"}
    source = of_files(tmp_path, files, perSequence=["1"])
    assert values(source) == [[[1, 2], "cat"], [[6], "ox"]]
    assert reasons(source) == {1: "line 3: column '1' is 'ox', but 'dog' in the first row; it has one value per sequence"}


def test_labels_of_steps_come_from_files_of_the_same_names(tmp_path: Path) -> None:
    put(tmp_path / "labels", {"a/0.csv": "7\n8\n", "a/1.csv": "9\n"})
    labels = {"uris": [str(tmp_path / "labels")]}
    source = of_files(tmp_path, {"a/0.csv": "1,2\n3,4\n", "a/1.csv": "5,6\n"}, labels=labels)
    assert values(source) == [[[1, 3], [2, 4], [7, 8]], [[5], [6], [9]]]
    assert opened(CsvSequencesReader, source, plan(CsvSequencesReader, source)[1]).schema().names == ["0", "1", "label"]


def test_labels_of_sequences_come_from_files_of_the_same_names(tmp_path: Path) -> None:
    put(tmp_path / "labels", {"0.csv": "what,how\nrise,0.5\n", "1.csv": "what,how\nfall,1.5\n"})
    labels = {"uris": [str(tmp_path / "labels")], "per": "Sequence", "header": True}
    source = of_files(tmp_path, {"0.csv": "1\n2\n", "1.csv": "3\n"}, labels=labels)
    assert values(source) == [[[1, 2], "rise", 0.5], [[3], "fall", 1.5]]


def test_labels_that_do_not_fit_their_sequence_are_named(tmp_path: Path) -> None:
    labels = put(tmp_path / "labels", {"0.csv": "1\n2\n3\n", "1.csv": "", "2.csv": "x\n", "4.csv": "1\n"})
    files: dict[str, str | bytes] = {f"{n}.csv": "1\n2\n" if n < 2 else "1\n" for n in range(5)}
    columns = [{"name": "label", "type": "Int64"}]
    source = of_files(tmp_path, files, labels={"uris": [str(labels)], "columns": columns})
    assert reasons(source) == {
        0: f"its labels {labels}/0.csv are 3 rows, expected one for each of 2 steps",
        1: f"its labels {labels}/1.csv, line 1: there is no row",
        2: "its labels, line 1: 'x' is not a Int64 (column 'label')",
        3: f"its labels {labels}/3.csv are not there",
    }
    assert values(source) == [[[1], [1]]]
    whole = of_files(tmp_path, files, labels={"uris": [str(labels)], "columns": columns, "per": "Sequence"})
    assert reasons(whole)[0] == f"its labels {labels}/0.csv are 3 rows, expected one for the whole sequence"


@pytest.mark.parametrize(
    ("order", "expected"),
    [
        ("Bytes", ["1.csv", "10.csv", "2.csv", "a/10/1.csv", "a/9/1.csv"]),
        ("Numbers", ["1.csv", "2.csv", "10.csv", "a/9/1.csv", "a/10/1.csv"]),
    ],
)
def test_files_stand_in_the_order_of_their_names_or_numbers(tmp_path: Path, order: str, expected: list[str]) -> None:
    source = of_files(tmp_path, dict.fromkeys(("10.csv", "a/10/1.csv", "2.csv", "1.csv", "a/9/1.csv"), "1\n"), order=order)
    units, _ = plan(CsvSequencesReader, source)
    assert units.table["path"].to_pylist() == expected


# --- files at fault -----------------------------------------------------------------------------------------------

FAULTS: dict[str, tuple[dict[str, str | bytes], dict[str, Any], dict[int, str]]] = {
    "ragged": ({"a": "1,2\n", "b": "1,2\n3\n5,6\n", "c": "3,4\n"}, {}, {1: "line 2: expect 2 fields but have 1"}),
    "empty": ({"a": "1\n", "b": ""}, {}, {1: "line 1: there is no row"}),
    "blank": ({"a": "1\n", "b": "\n\r\n"}, {}, {1: "line 1: there is no row"}),
    "only a header": ({"a": "x\n1\n", "b": "x\n"}, {"header": True}, {1: "line 2: there is no row"}),
    "too few lines": ({"a": "#\n#\n1\n", "b": "#\n"}, {"skipLines": 2}, {1: "line 2: there is no row"}),
    "no header": (
        {"a": "x,y\n1,2\n", "b": "3,4\n5,6\n"}, {"header": True}, {1: "line 1: the header has the columns 3, 4; expected x, y"},
    ),
    "a header below": (
        {f"{n:02d}": "x,y\n1,2\n" if n == 20 else "1,2\n" for n in range(22)}, {}, {20: "line 1: 'x' is not a Int64 (column '0')"},
    ),
    "no number": ({"a": "1\n", "b": '2\n"3\n4"\n', "c": "x"}, {"columns": [{"name": "n", "type": "Int64"}]},
                  {1: "line 2: '3\\n4' is not a Int64 (column 'n')", 2: "line 1: 'x' is not a Int64 (column 'n')"}),
    "an empty cell": ({"a": "1,2\n", "b": "3,\n"}, {}, {1: "line 1: column '1' is empty or a word such as NA, and has no default"}),
    "an open quote": ({"a": '"1"\n', "b": '2\n"3\n', "c": "4\n"}, {}, {1: "line 2: a quote is never closed"}),
    "broken gzip": ({"a": "1\n", "b": gzip.compress(b"2\n" * 99)[:-9]}, {}, {1: "the gzip stream ends early"}),
    "not text": ({"a": "x\n", "b": b"y\n\xff\n"}, {}, {1: "line 2: column '0' is not UTF-8"}),
}  # fmt: skip


@pytest.mark.parametrize(("files", "options", "expected"), FAULTS.values(), ids=FAULTS.keys())
def test_a_file_at_fault_is_a_bad_record_and_the_others_are_whole(
    tmp_path: Path, files: dict[str, str | bytes], options: dict[str, Any], expected: dict[int, str]
) -> None:
    source = of_files(tmp_path, files, **options)
    assert reasons(source) == expected
    assert [row["_sample"] for row in rows(batches(CsvSequencesReader, source))] == [n for n in range(len(files)) if n not in expected]


def test_a_fault_ends_the_job_with_file_and_line(tmp_path: Path) -> None:
    source = of_files(tmp_path, {"0.csv": ROW_1, "1.csv": ROW_1 + "1,2\n"})
    with pytest.raises(BadData) as caught:
        made(a_job(source, tmp_path / "out"))
    assert f"{tmp_path}/in/1.csv, record 0: line 2: expect 6 fields but have 2" in str(caught.value)


def test_a_header_that_is_read_as_data_is_refused_with_its_file(tmp_path: Path) -> None:
    source = of_files(tmp_path, {"a.csv": "1,x\n", "b.csv": "time,what\n2,y\n"})
    with pytest.raises(BadSpec) as caught:
        plan(CsvSequencesReader, source)
    said = f"{tmp_path}/in/b.csv, line 1: this row looks like a header above rows of numbers. Set source.csvSequences.header: true if"
    assert said in str(caught.value)


def test_files_without_any_row_are_no_source(tmp_path: Path) -> None:
    with pytest.raises(BadData, match="source.csvSequences: none of the 2 files has a row"):
        plan(CsvSequencesReader, of_files(tmp_path, {"a.csv": "", "b.csv": "\n"}))


def test_a_column_of_the_labels_needs_a_name_of_its_own(tmp_path: Path) -> None:
    put(tmp_path / "labels", {"0.csv": "1,2\n"})
    source = of_files(tmp_path, {"0.csv": "1,2\n"}, labels={"uris": [str(tmp_path / "labels")]})
    state = plan(CsvSequencesReader, source)[1]
    with pytest.raises(BadSpec, match="the column '0' is in the sequences too; rename it in source.csvSequences.labels.columns"):
        opened(CsvSequencesReader, source, state)


def test_each_folder_of_sequences_has_its_labels(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match=r"labels\.uris and uris must have the same number of entries, got 1 and 2"):
        a_source(tmp_path / "a", tmp_path / "b", labels={"uris": ["x"]})


def test_types_are_told_from_several_files(tmp_path: Path) -> None:
    source = of_files(tmp_path, {"a.csv": "1\n2\n", "b.csv": "", "c.csv": "1.5\n"})
    assert values(source) == [[[1.0, 2.0]], [[1.5]]]


# --- properties ---------------------------------------------------------------------------------------------------

STEP = st.tuples(
    st.integers(-(2**63), 2**63 - 1),
    st.floats(allow_nan=False, width=32),
    st.text(st.characters(codec="utf-8", exclude_characters="\r\n\0"), max_size=5),
)


@pytest.mark.slow
@given(st.lists(st.lists(STEP, min_size=1, max_size=4), min_size=1, max_size=6), st.integers(1, 3))
def test_any_sequences_are_read_back(
    tmp_path_factory: pytest.TempPathFactory, sequences: list[list[tuple[int, float, str]]], size: int
) -> None:
    folder = tmp_path_factory.mktemp("sequences")
    quoted = {
        f"{n}.csv": "".join(f'{i},{f!r},"{t.replace(chr(34), chr(34) * 2)}"\n' for i, f, t in steps) for n, steps in enumerate(sequences)
    }
    columns = [{"name": name, "type": kind} for name, kind in (("i", "Int64"), ("f", "Float32"), ("t", "String"))]
    source = of_files(folder, dict(quoted), columns=columns)
    found = rows(batches(CsvSequencesReader, source, size=size))
    assert [list(zip(row["i"], row["f"], row["t"], strict=True)) for row in found] == sequences
