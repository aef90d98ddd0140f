"""The CSV cases from the how-to pages: classification, regression, ranges, one-hot and defaults.

Each case is a complete job from text to TFRecord bytes.
"""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tests.builders.jobs import run_job
from tests.builders.specs import parse_job

from dataprep_api.resources.job import DataPrepJob
from dataprep_converter.core.errors import BadData, BadSpec
from dataprep_converter.formats.tfrecord import records
from workbench.example_inputs import iris

ROWS = "1.0,3.2,4.5,1.1,6.3,0\n1.6,2.4,5.9,0.2,2.2,1\n"
# These bytes were checked with protobuf's code and read with TensorFlow.
RECORD_1 = (
    "3800000000000000a3797d570a360a240a086665617475726573121812160a140000803fcdcc4c4000009040cdcc8c3f9a99c940"
    "0a0e0a056c6162656c12051a030a01009c52cbf5"
)
RECORD_2 = (
    "3800000000000000a3797d570a360a240a086665617475726573121812160a14cdcccc3f9a991940cdccbc40cdcc4c3ecdcc0c40"
    "0a0e0a056c6162656c12051a030a010105a7e32e"
)
REGRESSION_RECORD = (
    "3b000000000000001a23ac5c0a390a1c0a0866656174757265731210120e0a0c0000803fcdcc4c40000090400a190a056c6162656c"
    "1210120e0a0ccdcc8c3f9a99c9400000000036efb213"
)
CLASSIFICATION: dict[str, Any] = {
    "features": [{"name": "features", "columns": ["0..4"]}],
    "labels": [{"name": "label", "columns": ["5"], "numClasses": 10}],
}


def put(folder: Path, files: dict[str, str]) -> Path:
    for name, text in files.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(text, newline="")
    return folder


def made(folder: Path, *uris: Path | str, csv: dict[str, Any] | None = None, **spec: Any) -> bytes:
    """Returns the records that a job makes from these files. By default, the job has the features and labels of a classification."""
    output = folder / f"out{len(list(folder.glob('out*')))}"
    job = parse_job(
        {
            "source": {"csv": {"uris": [str(uri) for uri in uris], **(csv or {})}},
            "output": {"uri": str(output)},
            **(spec or CLASSIFICATION),
        },
        name="csv",
    )
    run_job(job)
    (file,) = output.glob("*.tfrecords")
    return file.read_bytes()


def parsed(data: bytes) -> list[dict[str, list[Any]]]:
    return [records.parse_example(payload) for _, payload in records.read([data])]


def test_rows_for_classification_have_their_golden_bytes(tmp_path: Path) -> None:
    data = made(tmp_path, put(tmp_path / "in", {"a.csv": ROWS}))
    assert data.hex() == RECORD_1 + RECORD_2
    assert len(data) == 2 * 72


def test_a_row_for_regression_has_its_golden_bytes(tmp_path: Path) -> None:
    spec: dict[str, Any] = {"features": [{"name": "features", "columns": ["0..2"]}], "labels": [{"name": "label", "columns": ["3..5"]}]}
    data = made(tmp_path, put(tmp_path / "in", {"a.csv": ROWS}), **spec)
    assert data[:75].hex() == REGRESSION_RECORD
    assert len(data) == 2 * 75


def test_a_one_hot_label_makes_111_bytes(tmp_path: Path) -> None:
    one_hot = {"oneHot": {"columns": ["5"], "numClasses": 10}}
    data = made(tmp_path, put(tmp_path / "in", {"a.csv": ROWS}), **CLASSIFICATION, transforms=[one_hot])
    assert len(data) == 2 * 111
    assert parsed(data)[1]["label"] == [0.0, 1.0, *[0.0] * 8]


@pytest.mark.parametrize(
    ("row", "reason"),
    [
        ("1,2,3,4,5,10", "record 1: line 2: label 10 is outside 0..9"),
        ("1,2,3,4,5,-1", "record 1: line 2: label -1 is outside 0..9"),
        ("1,2,x,4,5,0", "record 1: line 2: 'x' is not a Float32 (column '2')"),
        ("1,2,3,4,0", "record 1: line 2: expect 6 fields but have 5"),
        ("1,2,3,4,5,0,", "record 1: line 2: expect 6 fields but have 7"),
        (
            "1,2,,4,5,0",
            'record 1: line 2: 2 has no value, and a vector can\'t have a null among its values; add defaults: {"2": "NaN"} to source.csv',
        ),
    ],
)
def test_a_row_that_does_not_fit_ends_the_job_with_its_file(tmp_path: Path, row: str, reason: str) -> None:
    source = put(tmp_path / "in", {"a.csv": ROWS.splitlines()[0] + f"\n{row}\n"})
    columns = [{"name": str(n), "type": "Float32" if n < 5 else "Int64"} for n in range(6)]
    with pytest.raises(BadData) as caught:
        made(tmp_path, source, csv={"columns": columns})
    assert f"{source}/a.csv, {reason}" in str(caught.value)


def test_a_row_that_does_not_fit_can_be_left_out(tmp_path: Path) -> None:
    source = put(tmp_path / "in", {"a.csv": ROWS.replace("\n", "\n1,2,,4,5,0\n", 1)})
    assert made(tmp_path, source, **CLASSIFICATION, onBadRecord={"policy": "Skip"}).hex() == RECORD_1 + RECORD_2


def test_a_file_a_folder_and_a_glob_give_the_same_records_in_the_order_of_names(tmp_path: Path) -> None:
    lines = ROWS.splitlines(keepends=True)
    whole = put(tmp_path / "one", {"some_csv_file.csv": ROWS}) / "some_csv_file.csv"
    two = put(tmp_path / "two", {"b.csv": lines[1], "a.csv": lines[0]})
    for uri in (whole, two, f"{two}/*.csv"):
        assert made(tmp_path, uri).hex() == RECORD_1 + RECORD_2


@pytest.mark.parametrize("delimiter", [",", "\t", ";"])
def test_the_lines_at_the_top_of_every_file_are_skipped(tmp_path: Path, delimiter: str) -> None:
    first, second = (line.replace(",", delimiter) for line in ROWS.splitlines(keepends=True))
    source = put(tmp_path / "in", {"a.csv": f"a header; of, any kind\n{first}", "b.csv": f"another\n{second}"})
    assert made(tmp_path, source, csv={"skipLines": 1, "delimiter": delimiter}).hex() == RECORD_1 + RECORD_2


@pytest.mark.parametrize("column", ["4", "-1"])
def test_iris_by_ranges_of_columns_and_one_hot(tmp_path: Path, column: str) -> None:
    spec: dict[str, Any] = {
        "features": [{"name": "data", "columns": ["0..3"]}],
        "transforms": [{"oneHot": {"columns": [column], "numClasses": 3}}],
        "labels": [{"name": "label", "columns": [column]}],
    }
    file = iris(tmp_path)
    found = parsed(made(tmp_path, file, csv={"skipLines": 1}, **spec))
    cells = np.loadtxt(file, delimiter=",", skiprows=1)
    assert len(found) == 150
    np.testing.assert_array_equal([record["data"] for record in found], cells[:, :4].astype(np.float32))
    np.testing.assert_array_equal([record["label"] for record in found], np.eye(3)[cells[:, 4].astype(int)])


def test_iris_in_batches_of_32_is_four_whole_ones_and_22(tmp_path: Path) -> None:
    file = iris(tmp_path)
    spec = {
        "source": {"csv": {"uris": [str(file)], "skipLines": 1}},
        "features": [{"name": "data", "columns": ["0..3"]}],
        "transforms": [{"oneHot": {"columns": ["4"], "numClasses": 3}}],
        "labels": [{"name": "label", "columns": ["4"]}],
        "output": {"uri": str(tmp_path / "out"), "format": "npz", "granularity": "Minibatch", "minibatchSize": 32},
    }
    job = {"apiVersion": "dataprep.io/v1alpha1", "kind": "DataPrepJob", "metadata": {"name": "iris"}, "spec": spec}
    run_job(DataPrepJob.parse(job))
    batches = [np.load(path) for path in sorted((tmp_path / "out").glob("*.npz"))]
    assert [batch["features/data"].shape for batch in batches] == [(32, 4)] * 4 + [(22, 4)]
    assert [batch["labels/label"].shape for batch in batches] == [(32, 3)] * 4 + [(22, 3)]
    cells = np.loadtxt(file, delimiter=",", skiprows=1)
    np.testing.assert_array_equal(np.concatenate([batch["features/data"] for batch in batches]), cells[:, :4].astype(np.float32))


def test_several_groups_of_columns_are_features_and_labels(tmp_path: Path) -> None:
    spec: dict[str, Any] = {
        "features": [{"name": "left", "columns": ["0..1"]}, {"name": "right", "columns": ["2", "4"]}],
        "labels": [{"name": "amount", "columns": ["3"]}, {"name": "class", "columns": ["-1"], "numClasses": 2}],
    }
    first, _ = parsed(made(tmp_path, put(tmp_path / "in", {"a.csv": ROWS}), **spec))
    assert {name: np.round(values, 4).tolist() for name, values in first.items()} == {
        "left": [1.0, 3.2], "right": [4.5, 6.3], "amount": [1.1], "class": [0],
    }  # fmt: skip


# --- defaults and selected columns --------------------------------------------------------------------------------

FIVE: list[dict[str, Any]] = [{"name": f"d{n}", "type": "String"} for n in range(1, 6)]
CSVTEST = 'a,b,c,d,e\na,,c,d,\n"x,y",b,c,d,e\n1,2,3,4,5\n'


def texts(columns: list[dict[str, Any]]) -> dict[str, Any]:
    return {"features": [{"name": column["name"]} for column in columns]}


def test_five_columns_with_defaults(tmp_path: Path) -> None:
    source = put(tmp_path / "in", {"csvtest.csv": CSVTEST})
    found = parsed(made(tmp_path, source, csv={"columns": FIVE}, **texts(FIVE)))
    assert [[record[f"d{n}"][0].decode() for n in range(1, 6)] for record in found] == [
        ["a", "b", "c", "d", "e"],
        ["a", "", "c", "d", ""],
        ["x,y", "b", "c", "d", "e"],
        ["1", "2", "3", "4", "5"],
    ]
    given = [column | {"default": "none"} for column in FIVE]
    assert [record["d2"] for record in parsed(made(tmp_path, source, csv={"columns": given}, **texts(given)))] == [
        [b"b"],
        [b"none"],
        [b"b"],
        [b"2"],
    ]


def test_one_selected_column_is_all_there_is(tmp_path: Path) -> None:
    source = put(tmp_path / "in", {"csvtest.csv": CSVTEST})
    found = parsed(made(tmp_path, source, csv={"columns": FIVE, "select": ["d2"]}, transforms=[]))
    assert found == [{"d2": [b"b"]}, {"d2": [b""]}, {"d2": [b"b"]}, {"d2": [b"2"]}]


@pytest.mark.parametrize(("row", "cells"), [("a,b,c,d", 4), ("a,b,c,d,e,f", 6)])
@pytest.mark.parametrize("select", [None, ["d2"]])
def test_a_row_of_another_number_of_cells_is_named_by_its_line(tmp_path: Path, row: str, cells: int, select: list[str] | None) -> None:
    source = put(tmp_path / "in", {"csvtest.csv": f"{CSVTEST}{row}\n"})
    with pytest.raises(BadData, match=rf"csvtest\.csv, record 4: line 5: expect 5 fields but have {cells}"):
        made(tmp_path, source, csv={"columns": FIVE} | ({"select": select} if select else {}), transforms=[])


def test_selected_columns_come_by_name_place_or_range_in_their_order(tmp_path: Path) -> None:
    source = put(tmp_path / "in", {"a.csv": "a,b,c,d\n1,x,2.5,3\n4,\xff,y,6\n"})
    spec: dict[str, Any] = {"features": [{"name": "all", "columns": ["0..2"]}]}
    columns = [{"name": name, "type": kind} for name, kind in (("a", "Int64"), ("b", "Int64"), ("c", "Int64"), ("d", "Int64"))]
    options = {"header": True, "columns": columns, "select": ["-1", "a", "3"]}
    with pytest.raises(BadSpec, match=r"source\.csv\.select: the column 'd' occurs twice"):
        made(tmp_path, source, csv=options, **spec)
    # The cells of columns that aren't selected are never read.
    found = parsed(made(tmp_path, source, csv=options | {"select": ["-1", "a"]}, features=[{"name": "both", "columns": ["0..1"]}]))
    assert [record["both"] for record in found] == [[3, 1], [6, 4]]


def test_a_selected_column_that_is_not_there_is_refused(tmp_path: Path) -> None:
    source = put(tmp_path / "in", {"a.csv": "height,width\n1,2\n"})
    with pytest.raises(
        BadSpec, match=r"source\.csv\.select: there is no column 'hieght'\. Did you mean 'height'\? The columns are height, width"
    ):
        made(tmp_path, source, csv={"header": True, "select": ["hieght"]}, transforms=[])


NULLS: list[dict[str, Any]] = [
    {"name": "i", "type": "Int64"}, {"name": "f", "type": "Float32", "default": "0.5"}, {"name": "s", "type": "String", "default": "none"},
    {"name": "t", "type": "String"}, {"name": "r", "type": "String", "required": True},
]  # fmt: skip


def test_null_words_are_empty_cells(tmp_path: Path) -> None:
    source = put(tmp_path / "in", {"a.csv": '1,NA,NA,NA,x\n2,-,"NA",-,NAN\n3,1.5,NaN,a NA,-1\n'})
    found = parsed(made(tmp_path, source, csv={"columns": NULLS, "nullWords": ["NA", "-"]}, **texts(NULLS)))
    assert [[record[name][0] for name in ("i", "f", "s", "t", "r")] for record in found] == [
        [1, 0.5, b"none", b"", b"x"],
        [2, 0.5, b"none", b"", b"NAN"],
        [3, 1.5, b"NaN", b"a NA", b"-1"],
    ]


@pytest.mark.parametrize(
    ("row", "column", "words"),
    [("NA,1,a,b,c", "i", ["NA"]), (",1,a,b,c", "i", ["NA"]), ("1,1,a,b,", "r", []), ("1,1,a,b,NA", "r", ["NA"])],
)
def test_a_null_where_none_may_be_makes_the_record_bad(tmp_path: Path, row: str, column: str, words: list[str]) -> None:
    source = put(tmp_path / "in", {"a.csv": f"1,2,a,b,c\n{row}\n"})
    reason = f"record 1: line 2: column '{column}' is empty{' or one of NA' if words else ''} and has no default"
    with pytest.raises(BadData) as caught:
        made(tmp_path, source, csv={"columns": NULLS, "nullWords": words}, **texts(NULLS), nulls="Bad")
    assert reason in str(caught.value)


def test_null_words_don_t_hide_the_type_of_a_column(tmp_path: Path) -> None:
    source = put(tmp_path / "in", {"a.csv": "NA,1\n2,NA\n"})
    options = {"nullWords": ["NA"], "select": ["1"]}
    with pytest.raises(BadData, match="record 1: line 2: column '1' is empty or one of NA and has no default"):
        made(tmp_path, source, csv=options, transforms=[], nulls="Bad")
    assert parsed(made(tmp_path, source, csv=options, transforms=[], nulls="Bad", onBadRecord={"policy": "Skip"})) == [{"1": [1]}]
    assert parsed(made(tmp_path, source, csv=options, transforms=[])) == [{"1": [1]}, {"1": []}]
