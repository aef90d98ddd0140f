"""Compares the records of LIBSVM files with scikit-learn's reader, and tests the errors for faulty lines."""

import gzip
import io
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from pydantic import ValidationError
from tests.builders.examples import examples
from tests.converter.readers.reader_contract import ReaderContract, batches, faults, plan, rows

from dataprep_api.spec import Source
from dataprep_converter.readers import Reader
from dataprep_converter.readers.text import stretches
from dataprep_converter.readers.text.libsvm import LibsvmReader


def a_source(*uris: Path | str, **options: Any) -> Source:
    return Source.model_validate({"libsvm": {"uris": [str(uri) for uri in uris], **options}})


def of_text(folder: Path, text: str | bytes, **options: Any) -> Source:
    (folder / "a.svm").write_bytes(text.encode() if isinstance(text, str) else text)
    return a_source(folder / "a.svm", **options)


def values(source: Source) -> list[dict[str, Any]]:
    """The good records, without the column `_sample`."""
    return [{name: value for name, value in row.items() if name != "_sample"} for row in rows(batches(LibsvmReader, source))]


class LibsvmContract(ReaderContract):
    reader: ClassVar[type[Reader]] = LibsvmReader
    suffix: ClassVar[str] = ""
    options: ClassVar[dict[str, Any]] = {}

    @pytest.fixture(autouse=True)
    def small_units(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(stretches, "UNIT_BYTES", 400)

    def a_source(self, folder: Path) -> Source:
        for name, first in (("a", 0), ("b", 1000)):
            text = "".join(f"{first + n} 1:{n} {n % 7 + 2}:{n / 7:.3f} 9:1 # line\n" for n in range(30))
            data = gzip.compress(text.encode(), mtime=0) if self.suffix else text.encode()
            (folder / f"{name}.svm{self.suffix}").write_bytes(data)
        return a_source(folder, **self.options)

    def an_empty_source(self, folder: Path) -> Source:
        return of_text(folder, "\n# nothing\n   \n", **self.options)

    def a_missing_source(self, folder: Path) -> tuple[Source, str]:
        (folder / "a").write_text("1 1:1\n")
        return a_source(folder / "a", folder / "absent", **self.options), str(folder / "absent")

    def change(self, folder: Path) -> Path:
        (folder / f"b.svm{self.suffix}").write_text("1 1:1\n")
        return folder / f"b.svm{self.suffix}"


class TestPlain(LibsvmContract):
    pass


class TestGzip(LibsvmContract):
    suffix: ClassVar[str] = ".gz"


class TestDense(LibsvmContract):
    options: ClassVar[dict[str, Any]] = {"dense": True, "numFeatures": 9}


def test_a_line_becomes_label_keys_values_and_shape(tmp_path: Path) -> None:
    # The record in SageMaker's sparse example: {3: 1.5, 199: 2.5} with the shape [200] and the label 1.
    zero_based = of_text(tmp_path, "1 3:1.5 199:2.5\n", oneBased=False, numFeatures=200)
    assert values(zero_based) == [{"label": 1.0, "keys": [3, 199], "values": [1.5, 2.5], "shape": [200]}]
    one_based = of_text(tmp_path, "+1 4:1.5 200:2.5", numFeatures=200)
    assert values(one_based) == [{"label": 1.0, "keys": [3, 199], "values": [1.5, 2.5], "shape": [200]}]


def test_without_numfeatures_there_is_no_shape(tmp_path: Path) -> None:
    assert values(of_text(tmp_path, "0\n1 7:2\n")) == [
        {"label": 0.0, "keys": [], "values": []},
        {"label": 1.0, "keys": [6], "values": [2.0]},
    ]


def test_dense_vectors_have_zeros_where_the_line_has_none(tmp_path: Path) -> None:
    assert values(of_text(tmp_path, "0\n1 2:0.5 3:-1\n", dense=True, numFeatures=3)) == [
        {"label": 0.0, "values": [0.0, 0.0, 0.0]},
        {"label": 1.0, "values": [0.0, 0.5, -1.0]},
    ]


def test_query_ids_are_a_column_on_request(tmp_path: Path) -> None:
    source = of_text(tmp_path, "3 qid:1 1:0.5\n2 qid:10\n", qid=True)
    assert values(source) == [
        {"label": 3.0, "qid": 1, "keys": [0], "values": [0.5]},
        {"label": 2.0, "qid": 10, "keys": [], "values": []},
    ]


def test_comments_blank_lines_and_spaces_are_no_data(tmp_path: Path) -> None:
    text = "\ufeff# head\n\n  # more 1:2\n 1\t1:2   3:4 #5:6 # 7:8\r\n \t \n2#x\n\v\n#\n3 1:1"
    assert values(of_text(tmp_path, text)) == [
        {"label": 1.0, "keys": [0, 2], "values": [2.0, 4.0]},
        {"label": 2.0, "keys": [], "values": []},
        {"label": 3.0, "keys": [0], "values": [1.0]},
    ]


NUMBERS = ["1", "-1", "+2.5", "1e-3", "2E5", ".5", "3.", "1e-46", "0.1", "16777217", "inf", "-inf"]


def test_numbers_are_those_of_python_as_float32(tmp_path: Path) -> None:
    source = of_text(tmp_path, "".join(f"{number} 1:{number}\n" for number in NUMBERS))
    expected = [float(np.float32(number)) for number in NUMBERS]
    assert [(row["label"], row["values"]) for row in values(source)] == [(number, [number]) for number in expected]


ROW = st.tuples(
    st.floats(-1e6, 1e6, width=32), st.dictionaries(st.integers(0, 30), st.floats(-1e6, 1e6, width=32).filter(bool), max_size=6)
)


@pytest.mark.slow
@settings(max_examples=examples(40), suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None)
@given(table=st.lists(ROW, min_size=1, max_size=20), zero_based=st.booleans())
def test_what_scikit_learn_writes_is_read_as_it_reads_it(tmp_path: Path, table: list[Any], zero_based: bool) -> None:
    # Imported here, because the import takes a second and a half, which each process that collects tests would need.
    from sklearn.datasets import dump_svmlight_file, load_svmlight_file  # type: ignore[import-untyped] # it has no stubs

    dense = np.zeros((len(table), 31))
    for row, (_, cells) in enumerate(table):
        for column, value in cells.items():
            dense[row, column] = value
    written = io.BytesIO()
    dump_svmlight_file(dense, np.array([label for label, _ in table]), written, zero_based=zero_based, comment="made\nhere")
    matrix, labels = load_svmlight_file(io.BytesIO(written.getvalue()), n_features=31, dtype=np.float32, zero_based=zero_based)
    source = of_text(tmp_path, written.getvalue(), oneBased=not zero_based, numFeatures=31)
    found = values(source)
    assert [row["label"] for row in found] == [float(np.float32(label)) for label in labels]
    assert [row["keys"] for row in found] == [matrix[row].indices.tolist() for row in range(len(table))]
    assert [row["values"] for row in found] == [matrix[row].data.tolist() for row in range(len(table))]
    vectors = values(of_text(tmp_path, written.getvalue(), oneBased=not zero_based, numFeatures=31, dense=True))
    assert [row["values"] for row in vectors] == matrix.toarray().tolist()


WRONG: dict[str, tuple[str, str]] = {
    "label": ("x 1:1", "the label 'x' is not a number"),
    "label too large": ("-1e39 1:1", "the label '-1e39' is too large for a float32"),
    "value too large": ("1 1:1 2:1e400", "the value of '2:1e400' is too large for a float32"),
    "two labels": ("1,2 1:1", "the label '1,2' is not a number"),
    "label with underscore": ("1_0 1:1", "the label '1_0' is not a number"),
    "no label": ("1:1 2:2", "the label '1:1' is not a number"),
    "no pair": ("1 1:1 2", "'2' is not index:value"),
    "two colons": ("1 1:1:1", "'1:1:1' is not index:value"),
    "no index": ("1 :1", "the index of ':1' is not a whole number"),
    "index": ("1 1.0:1", "the index of '1.0:1' is not a whole number"),
    "no value": ("1 1:", "the value of '1:' is not a number"),
    "value": ("1 1:1 2:0x1", "the value of '2:0x1' is not a number"),
    "index 0": ("1 0:1", "the index 0 is below the first, 1; set source.libsvm.oneBased: false if the first index is 0"),
    "index below 0": ("1 -1:1", "the index -1 is below the first, 1"),
    "index too large": ("1 8:1", "the index 8 is more than the 7 features (numFeatures)"),
    "falling": ("1 3:1 2:1", "the index 2 follows 3; indexes must ascend"),
    "doubled": ("1 3:1 3:1", "the index 3 follows 3; indexes must ascend"),
    "query": ("1 qid:3 3:1", "it has a query id; set source.libsvm.qid"),
    "no text": ("\u00e9 1:1", "the label '\u00e9' is not a number"),
    "long": ("1 " + "9" * 100, "'" + "9" * 40 + "…' is not index:value"),
}


@pytest.mark.parametrize(("text", "reason"), WRONG.values(), ids=WRONG.keys())
@pytest.mark.parametrize("place", [0, 20, 40])
def test_a_line_that_does_not_fit_is_bad_with_its_number(tmp_path: Path, text: str, reason: str, place: int) -> None:
    good = [f"{n} 2:1 7:3" for n in range(40)]
    source = of_text(tmp_path, "\n".join(["# head", *good[:place], text, *good[place:]]), numFeatures=7)
    found = batches(LibsvmReader, source)
    assert list(faults(found)) == [place]
    assert faults(found)[place].startswith(f"line {place + 2}: {reason}")
    assert [row["label"] for row in rows(found)] == list(range(40))
    assert all(row["keys"] == [1, 6] for row in rows(found))
    (bad,) = [bad for batch in found for bad in batch.bad]
    assert bad.raw is not None
    assert bad.raw.content == text.encode()


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("1 1:1", "it has no query id after its label"),
        ("1 qid:x 1:1", "the query id 'qid:x' is not a whole number"),
        ("1 qid: 1:1", "the query id 'qid:' is not a whole number"),
        ("1 1:1 qid:2", "it has no query id after its label"),
    ],
)
def test_a_line_without_a_good_query_id_is_bad(tmp_path: Path, text: str, reason: str) -> None:
    source = of_text(tmp_path, f"1 qid:1 1:1\n{text}\n2 qid:2 1:1\n", qid=True)
    found = batches(LibsvmReader, source)
    assert faults(found) == {1: f"line 2: {reason}"}
    assert [row["qid"] for row in rows(found)] == [1, 2]


def test_every_line_of_another_format_is_bad(tmp_path: Path) -> None:
    source = of_text(tmp_path, "a,b,c\n" * 1000)
    assert len(faults(batches(LibsvmReader, source))) == 1000


def test_bytes_that_are_no_text_are_bad_lines(tmp_path: Path) -> None:
    found = batches(LibsvmReader, of_text(tmp_path, b"1 1:1\n\xff\xfe 1:\xff\n2 1:2\n"))
    assert list(faults(found)) == [1]
    assert [row["label"] for row in rows(found)] == [1, 2]


def test_dense_needs_a_number_of_features() -> None:
    with pytest.raises(ValidationError, match="dense needs numFeatures"):
        a_source("a", dense=True)
    with pytest.raises(ValidationError, match="dense vectors have at most 4,096 features, got 5,000"):
        a_source("a", dense=True, numFeatures=5000)


def test_the_plan_counts_lines_only(tmp_path: Path) -> None:
    units, state = plan(LibsvmReader, of_text(tmp_path, "no libsvm\n" * 3))
    assert (units.samples, state) == (3, {})
