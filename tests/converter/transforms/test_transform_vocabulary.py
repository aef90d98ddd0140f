"""The vocabulary: maps terms to numbers. It is built from one split and used for all splits."""

import json
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from tests.converter.cli.commandline import code_of

from dataprep_api.spec import Transform
from dataprep_converter.core.errors import BadData, BadSpec
from dataprep_converter.formats.tfrecord import records
from dataprep_converter.records.batch import SAMPLE, Batch, RejectedSample
from dataprep_converter.transforms import vocabulary
from dataprep_converter.transforms.vocabulary import VocabularyStep

TEXT = pa.array(["dog", "cat", None, "emu", "cat"], pa.string())
LISTS = pa.array([["dog", "cat"], [], None, ["emu", "cat"], ["cat"]], pa.list_(pa.string()))


def a_batch(column: Any) -> Batch:
    numbers = pa.array(list(range(100, 100 + len(column))), pa.int64())
    return Batch(records=pa.record_batch({"x": column, SAMPLE: numbers}), bad=[], bytes_in=0)


def a_step(column: Any, **options: Any) -> VocabularyStep:
    transform = Transform.model_validate({"vocabulary": {"columns": ["x"], **options}})
    return VocabularyStep(transform.member, pa.schema([("x", column.type)]))


def applied(column: Any, **options: Any) -> tuple[list[Any], list[RejectedSample]]:
    step = a_step(column, **options)
    done = step.apply(a_batch(column))
    assert done.records.schema.field("x").type == step.schema().field("x").type
    return done.records.column("x").to_pylist(), done.bad


def learned(*columns: Any, **options: Any) -> list[str]:
    return a_step(columns[0], **options).fit(iter([a_batch(column) for column in columns]))


def test_terms_become_their_numbers_and_a_missing_one_stays_missing() -> None:
    assert applied(TEXT, terms=["emu", "dog", "cat"]) == ([1, 2, None, 0, 2], [])


def test_an_unknown_term_is_bad_and_named_or_the_last_number() -> None:
    assert applied(TEXT, terms=["dog", "cat"]) == ([0, 1, None, 1], [RejectedSample(103, "x: 'emu' is not in the vocabulary", column="x")])
    assert applied(TEXT, terms=["dog", "cat"], unknown="Last") == ([0, 1, None, 2, 1], [])


def test_lists_keep_their_order_and_may_lose_unknown_words() -> None:
    assert applied(LISTS, terms=["dog", "cat"], unknown="Drop") == ([[0, 1], [], None, [1], [1]], [])
    assert applied(LISTS, terms=["dog", "cat"], unknown="Last") == ([[0, 1], [], None, [2, 1], [1]], [])
    assert applied(LISTS, terms=["dog", "cat"]) == (
        [[0, 1], [], None, [1]],
        [RejectedSample(103, "x: 'emu' is not in the vocabulary", column="x", step=0)],
    )


def test_a_slice_of_a_batch_is_read_from_where_it_begins() -> None:
    assert applied(LISTS.slice(3), terms=["emu", "cat"]) == ([[0, 1], [1]], [])


@pytest.mark.parametrize(
    ("options", "terms"),
    [
        ({}, ["cat", "dog", "emu"]),
        ({"order": "Count"}, ["cat", "dog", "emu"]),
        ({"minCount": 3}, ["cat"]),
        ({"maxTerms": 2}, ["cat", "dog"]),
    ],
)
def test_terms_are_counted_over_all_batches(options: dict[str, Any], terms: list[str]) -> None:
    assert learned(TEXT, TEXT, **options) == terms
    assert learned(LISTS, LISTS, **options) == terms


def test_terms_are_in_the_order_of_their_utf_8_bytes() -> None:
    assert learned(pa.array(["ä", "z", "Z", "\U0001f600", "\uffff"])) == ["Z", "z", "ä", "\uffff", "\U0001f600"]


def test_too_many_terms_are_an_error_that_says_what_to_set(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(vocabulary, "MOST_TERMS", 2)
    with pytest.raises(BadData, match="'x' has 3 different terms; set maxTerms [(]at most 2[)] or minCount."):
        learned(TEXT)


@pytest.mark.parametrize(
    ("column", "options", "message"),
    [
        (pa.array([1]), {}, "The transform vocabulary takes text or lists of text, but the column 'x' is int64."),
        (
            TEXT,
            {"unknown": "Drop"},
            "The transform vocabulary: unknown: Drop works only on columns of lists, but the column 'x' is string.",
        ),
    ],
)
def test_what_it_can_not_take_is_refused(column: Any, options: dict[str, Any], message: str) -> None:
    with pytest.raises(BadSpec) as caught:
        a_step(column, **options)
    assert str(caught.value) == message


def test_given_terms_leave_nothing_to_build() -> None:
    with pytest.raises(ValueError, match="split, minCount, maxTerms and order can't be combined with terms"):
        a_step(TEXT, terms=["a"], minCount=1)
    with pytest.raises(ValueError, match="the term 'a' is listed twice"):
        a_step(TEXT, terms=["a", "b", "a"])


# --- from end to end ----------------------------------------------------------------------------------------------

JOB = """
apiVersion: dataprep.io/v1alpha1
kind: DataPrepJob
metadata: {name: words}
spec:
  source: {csv: {uris: [INPUT], header: true}}
  transforms:
    - tokenizeSplit: {columns: [text]}
    - vocabulary: {columns: [text], unknown: Drop}
    - vocabulary: {columns: [label], split: train}
    - rename: {columns: {label: kind}}
  labels: [{name: kind}]
  splits: {into: [{name: train, first: 3}, {name: test}]}
  onBadRecord: {policy: Skip}
  output: {uri: OUTPUT}
"""


def test_it_is_built_from_the_training_split_and_reused_for_the_others(tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_text("text,label\na b,y\nb,x\nc b,y\nb new a,x\na,z\n")
    (tmp_path / "job.yaml").write_text(JOB.replace("INPUT", str(tmp_path / "a.csv")).replace("OUTPUT", str(tmp_path / "out")))
    assert code_of("run", tmp_path / "job.yaml", "--workers", "1") == 0

    def found(split: str) -> list[dict[str, list[Any]]]:
        return [records.parse_example(payload) for _, payload in records.read([(tmp_path / "out" / f"{split}.tfrecords").read_bytes()])]

    assert found("train") == [{"kind": [1], "text": [0, 1]}, {"kind": [0], "text": [1]}, {"kind": [1], "text": [2, 1]}]
    assert found("test") == [{"kind": [0], "text": [1, 0]}]
    success = json.loads((tmp_path / "out" / "_SUCCESS").read_text())
    manifest = json.loads((tmp_path / "out" / success["manifest"]).read_text())
    assert manifest["labels"] == {"kind": ["x", "y"]}
    assert [each["reason"] for each in manifest["badExamples"]] == ["line 6: label: 'z' is not in the vocabulary"]


def test_a_split_that_is_not_there_is_named(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "a.csv").write_text("text,label\na b,y\n")
    job = JOB.replace("INPUT", str(tmp_path / "a.csv")).replace("OUTPUT", str(tmp_path / "out")).replace("split: train", "split: tain")
    (tmp_path / "job.yaml").write_text(job)
    assert code_of("run", tmp_path / "job.yaml") == 2
    assert "there is no split 'tain' with records; the splits are train, test." in capsys.readouterr().err
