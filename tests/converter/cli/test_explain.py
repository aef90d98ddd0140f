"""Ways to explain fields without a cluster: `dataprep explain`, `dataprep schema`, and the schema line of an inferred job."""

import json
from pathlib import Path

import pytest
import yaml
from tests.converter.cli.commandline import code_of
from tests.converter.cli.mistakes.table import NUMBERS

from dataprep_converter.cli.help import field_explanation


def explained(*arguments: str, capsys: pytest.CaptureFixture[str]) -> str:
    assert code_of("explain", *arguments) == 0
    return capsys.readouterr().out


def test_a_field_is_explained_with_its_type_limits_and_meaning(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    assert explained("labels.numClasses", capsys=capsys) == (
        "spec.labels.numClasses: whole number, at least 1, at most 10000000\n"
        "  Number of classes. A record with a label outside 0 … numClasses-1 is bad.\n"
    )


def test_an_object_is_explained_with_its_fields(capsys: pytest.CaptureFixture[str]) -> None:
    said = explained("output.shards", capsys=capsys).splitlines()
    assert said[0] == "spec.output.shards: mapping"
    assert [line.strip() for line in said if line.startswith("  ") and line[2] != " " and ": " in line] == [
        "count: whole number, at least 1, at most 100000",
        "targetSize: whole number or text",
        "records: whole number, at least 1",
    ]


@pytest.mark.parametrize(
    ("field", "title"),
    [
        ("output.format", "spec.output.format: tfrecord, "),
        ("spec.output.format", "spec.output.format: tfrecord, "),
        ("splits.into[0].fraction", "spec.splits.into.fraction: number, at least 0, at most 1"),
        ("activeDeadlineSeconds", "spec.activeDeadlineSeconds: whole number"),
        ("DataPrepCronJob.spec.schedule", "spec.schedule: text, required"),
        ("dataprepprofile.spec.stores", "spec.stores: list of mapping"),
        ("", "A document has these fields."),
    ],
)
def test_a_field_may_be_written_in_several_ways(field: str, title: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert explained(field, capsys=capsys).startswith(title)


@pytest.mark.parametrize("width", ["60", "80", "120"])
def test_no_line_is_wider_than_the_terminal(width: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", width)
    lines = explained("source.csv", capsys=capsys).splitlines()
    assert max(map(len, lines)) <= int(width)


def test_every_listed_field_is_explained(capsys: pytest.CaptureFixture[str]) -> None:
    paths = explained("--list", capsys=capsys).splitlines()
    assert "spec.output.shards.count" in paths
    assert len(paths) == len(set(paths)) > 300
    explanation, _ = field_explanation.explanation_of("")
    for path in paths:
        assert explanation.text(path, width=80).startswith(f"{path}: ")


@pytest.mark.parametrize(
    ("field", "said"),
    [
        ("numClases", "there is no field 'numClases'; did you mean numClasses?"),
        ("spec.output.shard", "there is no field 'spec.output.shard'; did you mean spec.output.shards?"),
        ("delimiter", "several fields are called delimiter: spec.source."),
    ],
)
def test_an_unknown_field_is_refused_with_the_similar_one(field: str, said: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert code_of("explain", field) == 2
    assert capsys.readouterr().err.startswith(f"dataprep: error: {said}")


def test_the_schema_is_printed_as_it_was_generated(capsys: pytest.CaptureFixture[str]) -> None:
    assert code_of("schema") == 0
    assert json.loads(capsys.readouterr().out) == json.loads(field_explanation.SCHEMA_FILE.read_text())


def test_an_inferred_job_names_its_schema_and_is_valid_by_it(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "a.csv").write_text(NUMBERS)
    # Imported here, because otherwise each process that collects tests would spend two seconds on this import.
    import jsonschema  # type: ignore[import-untyped]  # it ships no types

    assert code_of("infer", tmp_path / "a.csv") == 0
    job = capsys.readouterr().out
    name, _, uri = job.splitlines()[0].partition("$schema=")
    assert name == "# yaml-language-server: "
    schema = json.loads(Path(uri.removeprefix("file://")).read_text())
    jsonschema.validate(yaml.safe_load(job), schema)
