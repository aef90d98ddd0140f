"""Job files: YAML, or JSON as in pods."""

import json
import math
from pathlib import Path

import pytest

from dataprep_api.errors import SpecError
from dataprep_converter.core import yaml_file
from dataprep_converter.inputs import job_file
from dataprep_converter.inputs.documents import Document, read_documents


def the_document(text: str, folder: Path) -> Document:
    file = folder / "job"
    file.write_text(text, encoding="utf-8")
    [document] = read_documents(str(file))
    return document


@pytest.fixture
def without_yaml(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: object) -> None:
        raise AssertionError("PyYAML parses the text")

    monkeypatch.setattr(yaml_file, "parse", refuse)


@pytest.mark.usefixtures("without_yaml")
@pytest.mark.parametrize("value", [{}, {"a": [1, 2.5, True, None, "x"], "b": {"c": "yes", "d": "2026-01-01"}}])
def test_json_has_the_values_that_it_has_as_yaml(value: object, tmp_path: Path) -> None:
    assert the_document(json.dumps(value), tmp_path).value == value


def test_json_may_escape_a_character_outside_the_basic_plane(tmp_path: Path) -> None:
    text = json.dumps({"a": "\N{SNOWMAN} \N{GRINNING FACE}"})
    assert "\\ud83d\\ude00" in text
    assert the_document(text, tmp_path).value == {"a": "\N{SNOWMAN} \N{GRINNING FACE}"}


def test_a_field_of_json_has_a_place(tmp_path: Path) -> None:
    document = the_document('{"a": {\n  "b": [1, 2]}}', tmp_path)
    assert document.place("a.b[1]") == f"{document.file}:2:12"
    assert document.has("a.b[1]")
    assert not document.has("a.c")


def test_json_that_is_not_yaml_has_no_places(tmp_path: Path) -> None:
    document = the_document('{\n\t"a": 1}', tmp_path)
    assert document.value == {"a": 1}
    assert document.place("a") == document.file
    assert not document.has("a")


def test_the_places_of_several_faults_take_one_parse(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    parses: list[str] = []
    root_of = yaml_file.root_of

    def counted(text: str) -> object:
        parses.append(text)
        return root_of(text)

    monkeypatch.setattr(yaml_file, "root_of", counted)
    file = tmp_path / "job.json"
    file.write_text(json.dumps({"apiVersion": "x", "kind": "x", "metadata": {"nam": "x"}, "spec": {"inputs": [], "a": 1, "b": 2}}))
    with pytest.raises(SpecError) as caught:
        job_file.load(str(file))
    assert len(caught.value.faults) > 2
    assert all(fault.place.startswith(f"{file}:1:") for fault in caught.value.faults)
    assert len(parses) == 1


def test_a_number_may_be_as_large_as_a_float(tmp_path: Path) -> None:
    assert the_document('{"a": [1.7e308, -1e308, 1e-400]}', tmp_path).value == {"a": [1.7e308, -1e308, 0.0]}


@pytest.mark.parametrize("number", ["1e400", "-1e400", "1E+400", f"{'9' * 400}e0"])
def test_a_number_that_is_too_large_for_a_float_does_not_become_infinite(number: str, tmp_path: Path) -> None:
    value = the_document(f'{{"a": {number}}}', tmp_path).value["a"]
    assert value == number, "as in YAML, and as for Infinity"
    assert not (isinstance(value, float) and math.isinf(value))


@pytest.mark.parametrize(("text", "value"), [("{a: 1}", {"a": 1}), ('{"a": NaN}', {"a": "NaN"}), ('{"a": 1} # note', {"a": 1})])
def test_yaml_may_begin_like_json(text: str, value: object, tmp_path: Path) -> None:
    assert the_document(text, tmp_path).value == value


def test_a_name_that_json_has_twice_is_refused(tmp_path: Path) -> None:
    with pytest.raises(SpecError, match="is given twice, first in line 1 and again in line 1"):
        the_document('{"a": {"b": 1, "b": 2}}', tmp_path)
