"""The CRD generator: JSON Schema keywords, generated files, and the rules about which fields are allowed to change."""

import copy
import functools
import json
import re
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Annotated, Any, Literal

import pytest
import yaml
from pydantic import BaseModel, ConfigDict, Field, create_model
from tests.builders.definitions import SHARED_LISTS, every_schema, with_second_version

from dataprep_api.errors import CrdError
from dataprep_api.generate import crd, generated
from dataprep_api.spec import Model, Quantity, rule, rules
from dataprep_api.spec.model import Open, SharedList

ROOT = Path(__file__).parents[2]
Text = Annotated[str, Field(max_length=8)]


class Inner(Model):
    """What the class says."""

    size: Annotated[int, Field(ge=1)] = 3
    name: Text | None = None


MOST_ANNOTATIONS = 256 * 1024
"""The maximum size of an object's annotations in bytes, including their keys."""
LAST_APPLIED = "kubectl.kubernetes.io/last-applied-configuration"


def last_applied(definition: dict[str, Any]) -> bytes:
    """Return the annotation's value: compact JSON as written by Go, with `<`, `>` and `&` escaped, and with a newline at the end."""
    text = json.dumps(definition | {"metadata": {"annotations": {}, **definition["metadata"]}}, separators=(",", ":"), ensure_ascii=False)
    for character in "<>&":
        text = text.replace(character, f"\\u{ord(character):04x}")
    return f"{text}\n".encode()


@functools.cache
def definition() -> dict[str, Any]:
    """Return the definition of DataPrepJobs, which is cached because generating it takes a quarter of a second."""
    return crd.crd()


@functools.cache
def job_schema() -> dict[str, Any]:
    return crd.job_schema()


def schema_of(annotation: Any, default: Any = ...) -> dict[str, Any]:
    """Return the structural schema of a model's only field, named `field`.

    Any, because `annotation` can be any type that pydantic accepts, and `default` any value of this type.
    """
    model = create_model("Probe", __base__=Model, field=(annotation, default))
    made: dict[str, Any] = structural(model)["properties"]["field"]
    return made


def structural(model: type[BaseModel]) -> dict[str, Any]:
    whole = model.model_json_schema(by_alias=True)
    return crd.structural(whole, whole.get("$defs", {}), path="spec")


# --- rewritten ------------------------------------------------------------------------------------------------------------


def test_an_optional_field_has_no_any_of_and_no_null() -> None:
    assert schema_of(Text | None, None) == {"type": "string", "maxLength": 8}


def test_a_constant_becomes_an_enum() -> None:
    assert schema_of(Literal["a"]) == {"type": "string", "enum": ["a"]}


def test_a_reference_is_inlined_with_the_class_s_words() -> None:
    assert schema_of(Inner | None, None) == {
        "type": "object",
        "description": "What the class says.",
        "properties": {"size": {"type": "integer", "default": 3, "minimum": 1}, "name": {"type": "string", "maxLength": 8}},
    }


def test_a_field_s_own_words_win() -> None:
    assert schema_of(Annotated[Inner, Field(description="What the field says.")])["description"] == "What the field says."


def test_rules_of_a_field_and_of_its_class_both_hold() -> None:
    class Ruled(Model):
        model_config = ConfigDict(json_schema_extra=rules(rule("self.a == 1", "of the class")))
        a: int = 1

    made = schema_of(Annotated[Ruled, Field(json_schema_extra=rules(rule("self.a < 2", "of the field")))])

    assert [written["message"] for written in made["x-kubernetes-validations"]] == ["of the class", "of the field"]


def test_an_object_s_default_leaves_out_what_its_members_default_to() -> None:
    assert schema_of(Inner, Inner())["default"] == {}
    assert schema_of(Inner, Inner(size=5, name="a"))["default"] == {"size": 5, "name": "a"}


def test_a_quantity_is_an_int_or_string() -> None:
    made = schema_of(Quantity | None, None)

    assert made["x-kubernetes-int-or-string"] is True
    assert "anyOf" not in made
    assert "type" not in made
    assert made["maxLength"] == 32


def test_keys_are_limited_by_a_rule() -> None:
    keys = Annotated[str, Field(max_length=5, pattern=r"^\w+$")]
    made = schema_of(Annotated[dict[keys, Text], Field(max_length=4)])

    assert made["additionalProperties"] == {"type": "string", "maxLength": 8}
    assert made["maxProperties"] == 4
    assert made["x-kubernetes-validations"] == [
        {
            "rule": 'self.all(k, k.size() <= 5 && k.matches("^\\\\w+$"))',
            "message": "keys: at most 5 characters, must match ^\\w+$",
        }
    ]


def test_a_stored_item_may_lack_the_keys_of_its_list_but_a_new_one_may_not() -> None:
    class Item(Open):
        name: Annotated[str, Field(min_length=1, max_length=8)]
        other: Text

    made = schema_of(Annotated[list[Item], Field(max_length=2), SharedList(keys=("name",))])["items"]

    assert made == {
        "type": "object",
        "required": ["other"],
        "properties": {"name": {"type": "string", "default": "", "maxLength": 8}, "other": {"type": "string", "maxLength": 8}},
        "x-kubernetes-preserve-unknown-fields": True,
        "x-kubernetes-validations": [
            {
                "rule": "self.name != '' || oldSelf.hasValue()",
                "message": "name must be set",
                "fieldPath": ".name",
                "reason": "FieldValueRequired",
                "optionalOldSelf": True,
            }
        ],
    }


# --- dropped --------------------------------------------------------------------------------------------------------------


def test_of_a_description_the_first_sentence_stays() -> None:
    assert schema_of(Annotated[Text, Field(description="One of `a.b`. And more.")])["description"] == "One of `a.b`."


def test_the_entries_of_a_list_have_no_description_of_their_own() -> None:
    made = schema_of(Annotated[list[Inner], Field(max_length=2, description="All of them.")])

    assert made["description"] == "All of them."
    assert "description" not in made["items"]


def test_titles_go_but_a_field_called_title_stays() -> None:
    class Titled(Model):
        title: Text

    assert structural(Titled) == {"type": "object", "required": ["title"], "properties": {"title": {"type": "string", "maxLength": 8}}}


def test_a_refusal_of_unknown_fields_goes_because_the_api_server_prunes_them() -> None:
    assert "additionalProperties" not in schema_of(Inner)


@pytest.mark.parametrize("keyword", ["examples", "deprecated"])
def test_what_no_object_depends_on_goes(keyword: str) -> None:
    assert schema_of(Annotated[Text, Field(json_schema_extra={keyword: ["a"]})]) == {"type": "string", "maxLength": 8}


# --- refused --------------------------------------------------------------------------------------------------------------


class Cat(Model):
    kind: Literal["cat"]


class Dog(Model):
    kind: Literal["dog"]


class Tree(Model):
    left: "Tree | None" = None


Keys = dict[Annotated[str, Field(min_length=2)], Text]


@pytest.mark.parametrize(
    ("annotation", "message"),
    [
        pytest.param(Annotated[int, Field(gt=0)], "spec.field: exclusiveMinimum can't be written", id="exclusiveMinimum"),
        pytest.param(Annotated[int, Field(lt=0)], "spec.field: exclusiveMaximum can't be written", id="exclusiveMaximum"),
        pytest.param(Annotated[int, Field(multiple_of=2)], "spec.field: multipleOf can't be written", id="multipleOf"),
        pytest.param(Annotated[tuple[int, int], Field(max_length=2)], "spec.field: prefixItems can't be written", id="prefixItems"),
        pytest.param(Annotated[set[Text], Field(max_length=2)], "spec.field: uniqueItems can't be written", id="uniqueItems"),
        pytest.param(int | Inner, "spec.field: anyOf can't be written", id="anyOf"),
        pytest.param(
            Annotated[Cat | Dog, Field(discriminator="kind")],
            r"spec.field: (oneOf|discriminator) can't be written in a structural schema: .* use one optional member per kind",
            id="oneOf",
        ),
        pytest.param(
            Annotated[Text, Field(json_schema_extra={"allOf": [{"minLength": 1}]})], "spec.field: allOf can't be written", id="allOf"
        ),
        pytest.param(Annotated[Text, Field(json_schema_extra={"x-new": 1})], "unknown keyword x-new", id="unknown"),
        pytest.param(
            Annotated[Keys, Field(max_length=2)],
            "spec.field: a structural schema can't express `minLength` under propertyNames",
            id="propertyNames",
        ),
        pytest.param(str, "spec.field: a string needs max_length", id="no maxLength"),
        pytest.param(list[int], "spec.field: a list needs max_length", id="no maxItems"),
        pytest.param(Annotated[list[str], Field(max_length=2)], r"spec.field\[\]: a string needs max_length", id="no maxLength in a list"),
        pytest.param(dict[str, int], "spec.field: a map needs max_length", id="no maxProperties"),
        pytest.param(
            Annotated[dict[str, str], Field(max_length=2)], r"spec.field.\*: a string needs max_length", id="no maxLength in a map"
        ),
        pytest.param(Tree, "spec.field.left: Tree contains itself", id="recursion"),
    ],
)
def test_what_has_no_structural_form_is_refused_by_field_and_name(annotation: Any, message: str) -> None:
    with pytest.raises(CrdError, match=message):
        schema_of(annotation)


def test_several_patterns_for_keys_are_refused() -> None:
    schema = {"type": "object", "patternProperties": {"^a": {"type": "integer"}, "^b": {"type": "integer"}}, "maxProperties": 3}

    with pytest.raises(CrdError, match="only one pattern"):
        crd.structural(schema, {}, path="spec")


# --- the complete definition ----------------------------------------------------------------------------------------------


def test_a_list_is_atomic_unless_several_managers_share_it() -> None:
    """A list without a type is atomic."""
    lists = {path.removeprefix("."): schema for path, schema in every_schema(job_schema()) if schema.get("type") == "array"}
    shared = {
        path: (schema["x-kubernetes-list-type"], schema.get("x-kubernetes-list-map-keys", []))
        for path, schema in lists.items()
        if "x-kubernetes-list-type" in schema
    }

    assert len(lists) >= 119
    assert shared == SHARED_LISTS


def test_the_definition_keeps_its_budget() -> None:
    assert len(json.dumps(definition(), separators=(",", ":"))) <= crd.SIZE_LIMIT == 124_500


def test_a_definition_above_the_budget_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(crd, "SIZE_LIMIT", 100)

    with pytest.raises(CrdError, match="the CRD may have at most 100 bytes as compact JSON, but it has "):
        crd.crd_text()


def test_two_versions_fit_into_the_annotation_of_a_client_side_apply() -> None:
    assert len(LAST_APPLIED) + len(last_applied(with_second_version(definition()))) <= MOST_ANNOTATIONS


@pytest.mark.parametrize("made", [definition, crd.cron_crd, crd.profile_crd], ids=["jobs", "cron jobs", "profiles"])
def test_explain_has_an_answer_for_every_field(made: Callable[[], dict[str, Any]]) -> None:
    (version,) = made()["spec"]["versions"]
    # kubectl takes the descriptions of these three fields from the API server's built-in types.
    standard = {".apiVersion", ".kind", ".metadata"}
    fields = {
        path: schema
        for path, schema in every_schema(version["schema"]["openAPIV3Schema"])
        if path not in standard and not path.endswith((".items", ".additionalProperties"))
    }

    assert [path for path, schema in fields.items() if not schema.get("description", "").endswith(".")] == []


def test_the_schema_holds_structural_keywords_only() -> None:
    forbidden = {"$ref", "anyOf", "oneOf", "allOf", "const", "title", "exclusiveMinimum", "patternProperties", "propertyNames"}

    for path, schema in every_schema(job_schema()):
        assert not forbidden & schema.keys(), path


def test_every_rule_has_a_message_and_a_known_reason() -> None:
    for path, schema in every_schema(job_schema()):
        for written in schema.get("x-kubernetes-validations", []):
            assert written["message"], path
            assert written.get("reason", "FieldValueInvalid") in ("FieldValueInvalid", "FieldValueForbidden", "FieldValueRequired"), path


def test_every_field_that_is_not_mutable_is_frozen_after_the_start() -> None:
    spec = job_schema()["properties"]["spec"]["properties"]
    fields = {*spec} - {"workers"} | {f"workers.{name}" for name in spec["workers"]["properties"]}
    always, later = job_schema()["x-kubernetes-validations"]
    compared = [path.replace("?", "") for path in re.findall(r"\[\?self\.spec\.([\w.?]+)\]", later["rule"])]

    assert always["fieldPath"] == ".spec.managedBy"
    assert fields - {*compared, "managedBy"} == crd.MUTABLE
    assert {*compared} <= fields
    assert re.findall(r": '([^ ]+) '", later["messageExpression"]) == compared


def test_workers_parallelism_has_a_default_so_that_scale_can_be_read() -> None:
    workers = job_schema()["properties"]["spec"]["properties"]["workers"]

    assert workers["default"] == {}
    assert workers["properties"]["parallelism"]["default"] == 1


def test_the_status_has_no_defaults_but_that_no_operator_has_seen_the_object() -> None:
    status = job_schema()["properties"]["status"]

    assert {path: schema["default"] for path, schema in every_schema(status) if "default" in schema} == {"": {"observedGeneration": -1}}


def test_columns_and_selectors_name_fields_that_exist() -> None:
    version = definition()["spec"]["versions"][0]
    paths = [column["jsonPath"] for column in [*version["additionalPrinterColumns"], *version["selectableFields"]]]
    paths += version["subresources"]["scale"].values()
    paths = [path.replace('[?(@.type=="Ready")]', ".items") for path in paths]
    known = {path for path, _ in every_schema(job_schema())} | {".metadata.creationTimestamp"}

    assert set(paths) <= known


@pytest.mark.slow
def test_a_shared_part_is_written_out_twice_without_anchors() -> None:
    text = crd.crd_text()
    assert "&id" not in text
    assert yaml.safe_load(text) == definition()


def test_braces_of_the_schema_are_safe_from_helm(monkeypatch: pytest.MonkeyPatch) -> None:
    changed = copy.deepcopy(definition())
    changed["spec"]["names"]["kind"] = "{{ .Values.secret }}"
    monkeypatch.setattr(crd, "crd", lambda: changed)

    assert """kind: '{{ "{{" }} .Values.secret }}'""" in crd.chart_text()


# --- files ----------------------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def made_files() -> Mapping[Path, str]:
    """All files that the generator makes. Making them takes a second."""
    return crd.files()


@pytest.mark.slow
@pytest.mark.parametrize(
    "file", [crd.FILE, crd.CHART_FILE, crd.CRON_FILE, crd.CRON_CHART_FILE, crd.PROFILE_FILE, crd.PROFILE_CHART_FILE], ids=str
)
def test_the_committed_file_is_current(made_files: Mapping[Path, str], file: Path) -> None:
    assert (ROOT / file).read_text() == made_files[file], "run `make generate`"


def test_a_stale_file_is_shown_and_not_touched(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "page.md").write_text("old\n")
    files = {Path("page.md"): "new\n"}

    assert generated.main("", files, ["--check"]) == 1
    assert "-old\n+new\n" in capsys.readouterr().out
    assert (tmp_path / "page.md").read_text() == "old\n"

    assert generated.main("", files, []) == 0
    assert generated.main("", files, ["--check"]) == 0
    assert (tmp_path / "page.md").read_text() == "new\n"


@pytest.mark.slow
def test_a_missing_file_is_stale(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, made_files: Mapping[Path, str]) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(crd, "files", lambda: made_files)

    assert crd.main(["--check"]) == 1
    assert crd.main([]) == 0
    assert crd.main(["--check"]) == 0


def test_what_can_t_be_written_is_said_in_one_line(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    def fails() -> dict[Path, str]:
        raise CrdError("spec.a: a string needs max_length")

    monkeypatch.setattr(crd, "files", fails)

    assert crd.main([]) == 1
    assert capsys.readouterr().err == "spec.a: a string needs max_length\n"
