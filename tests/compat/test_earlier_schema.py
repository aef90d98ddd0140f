"""The CRDs accept every field and value that an earlier release's CRDs accept, so no file has to be converted."""

import re
import shutil
import subprocess
import tarfile
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest
import yaml
from tests.builders.definitions import every_schema

from dataprep_api.generate import crd

ROOT = Path(__file__).resolve().parents[2]
EARLIER = ROOT / "tests/compat/sources-136670a.tar.xz"
DEFINITIONS = {"dataprepjobs": crd.crd, "dataprepcronjobs": crd.cron_crd, "dataprepprofiles": crd.profile_crd}
LOWER_BOUNDS = ("minimum", "minLength", "minItems", "minProperties")
UPPER_BOUNDS = ("maximum", "maxLength", "maxItems", "maxProperties")

Schema = Mapping[str, Any]  # JSON


@pytest.fixture(scope="module")
def earlier() -> dict[str, Schema]:
    """The earlier release's CRDs by plural."""
    with tarfile.open(EARLIER) as archive:
        files = {plural: archive.extractfile(f"crds/{plural}.dataprep.io.yaml") for plural in DEFINITIONS}
        return {plural: yaml.load(file, Loader=yaml.CSafeLoader) for plural, file in files.items() if file is not None}


def spec_of(definition: Schema) -> Schema:
    (version,) = definition["spec"]["versions"]
    schema: Schema = version["schema"]["openAPIV3Schema"]["properties"]["spec"]
    return schema


def refusals(old: Schema, new: Schema | None, path: str = "spec") -> Iterator[str]:
    """Return a message for each field and value that the old schema accepts but the new one doesn't. CEL rules are not compared."""
    if new is None:
        yield f"{path} is gone"
        return
    if old.get("type") != new.get("type"):
        yield f"{path} was of type {old.get('type')} and is of type {new.get('type')}"
    if new.get("enum") and (gone := sorted(set(old.get("enum", ["other values"])) - set(new["enum"]))):
        yield f"{path} no longer accepts {', '.join(gone)}"
    if new.get("pattern") not in (None, old.get("pattern")):
        yield f"{path} has the pattern {new['pattern']}"
    yield from (f"{path}.{name} is required" for name in sorted(set(new.get("required", ())) - set(old.get("required", ()))))
    yield from (f"{path} has a higher {bound}" for bound in LOWER_BOUNDS if new.get(bound, 0) > old.get(bound, 0))
    yield from (f"{path} has a lower {bound}" for bound in UPPER_BOUNDS if bound in new and new[bound] < old.get(bound, new[bound] + 1))
    for name, inner in old.get("properties", {}).items():
        yield from refusals(inner, new.get("properties", {}).get(name), f"{path}.{name}")
    for key in ("items", "additionalProperties"):
        if isinstance(old.get(key), Mapping):
            yield from refusals(old[key], new.get(key), f"{path}[]")


@pytest.mark.parametrize("plural", DEFINITIONS)
def test_every_field_and_value_of_an_earlier_release_is_accepted(plural: str, earlier: dict[str, Schema]) -> None:
    assert [*refusals(spec_of(earlier[plural]), spec_of(DEFINITIONS[plural]()))] == []


@pytest.mark.parametrize(
    ("later", "refusal"),
    [
        ({"properties": {"format": {"type": "string", "enum": ["a", "b"]}}}, "spec.kind is gone"),
        (
            {"properties": {"kind": {"type": "integer"}, "format": {"type": "string"}}},
            "spec.kind was of type string and is of type integer",
        ),
        ({"properties": {"kind": {"type": "string", "maxLength": 3}, "format": {"type": "string"}}}, "spec.kind has a lower maxLength"),
        ({"properties": {"kind": {"type": "string"}, "format": {"type": "string", "enum": ["a"]}}}, "spec.format no longer accepts b"),
        (
            {"properties": {"kind": {"type": "string", "enum": ["c"]}, "format": {"type": "string"}}},
            "spec.kind no longer accepts other values",
        ),
        ({"properties": {"kind": {"type": "string"}, "format": {"type": "string"}}, "required": ["kind"]}, "spec.kind is required"),
    ],
)
def test_the_comparison_finds_what_is_refused(later: Schema, refusal: str) -> None:
    sooner = {"properties": {"kind": {"type": "string", "maxLength": 9}, "format": {"type": "string", "enum": ["a", "b"]}}}
    assert [*refusals(sooner, later)] == [refusal]


# --- rules -----------------------------------------------------------------------------------------------------------------------


def is_open(schema: Schema) -> bool:
    return any("x-kubernetes-preserve-unknown-fields" in inner for _, inner in every_schema(dict(schema)))


def strict_rules(schema: Schema) -> set[tuple[str, str]]:
    """Return the path and text of each rule that is checked again even if its object is unchanged.

    The API server doesn't check the rules of an unchanged object (ratcheting), but an object that has fields outside the schema never
    counts as unchanged. Rules that read `oldSelf` aren't returned, because such a rule can itself accept unchanged objects.
    """
    return {
        (path, rule["rule"])
        for path, inner in every_schema(dict(schema))
        if is_open(inner)
        for rule in inner.get("x-kubernetes-validations", [])
        if "oldSelf" not in rule["rule"]
    }


def new_rules(earlier: Schema, now: Schema) -> set[tuple[str, str]]:
    """Return the strict rules that the earlier schema doesn't have.

    If a union has gained members, its changed rule doesn't count as new: for an object that has none of the new members, the old rule and
    the new rule give the same result.
    """
    rules = strict_rules(earlier)
    unions = [(path, members_of(rule)) for path, rule in rules if members_of(rule)]
    return {
        (path, rule)
        for path, rule in strict_rules(now) - rules
        if not any(path == union and members <= members_of(rule) for union, members in unions)
    }


def members_of(rule: str) -> frozenset[str]:
    """Return the members of a union from its rule, or nothing for any other rule."""
    union = re.fullmatch(r"\[(has\(self\.\w+\)(, has\(self\.\w+\))*)\]\.filter\(x, x\)\.size\(\) == 1", rule)
    return frozenset(re.findall(r"has\(self\.(\w+)\)", union[1])) if union is not None else frozenset()


@pytest.mark.parametrize("plural", DEFINITIONS)
def test_no_new_rule_locks_stored_objects_that_break_it(plural: str, earlier: dict[str, Schema]) -> None:
    assert new_rules(spec_of(earlier[plural]), spec_of(DEFINITIONS[plural]())) == set()


def test_a_union_may_gain_members_but_not_lose_them() -> None:
    def union(*members: str) -> Schema:
        has = ", ".join(f"has(self.{member})" for member in members)
        rule = {"rule": f"[{has}].filter(x, x).size() == 1"}
        return {"properties": {"source": {"x-kubernetes-preserve-unknown-fields": True, "x-kubernetes-validations": [rule]}}}

    assert new_rules(union("csv", "idx"), union("csv", "idx", "mds")) == set()
    assert [path for path, _ in new_rules(union("csv", "idx"), union("csv", "mds"))] == [".source"]


def test_a_rule_that_would_lock_stored_objects_is_found() -> None:
    text = {"type": "string", "x-kubernetes-validations": [{"rule": "self != 'a'"}]}
    open_part = {"type": "object", "x-kubernetes-preserve-unknown-fields": True}
    rules = [{"rule": "has(self.a)"}, {"rule": "has(self.b) || oldSelf.hasValue()", "optionalOldSelf": True}]
    schema = {"properties": {"text": text, "pod": {"properties": {"part": open_part}, "x-kubernetes-validations": rules}}}

    assert strict_rules(schema) == {(".pod", "has(self.a)")}


def test_the_documented_command_changes_only_the_version_of_files(tmp_path: Path) -> None:
    examples = sorted((ROOT / "examples").glob("*.yaml"))
    page = (ROOT / "docs/api-versions.md").read_text(encoding="utf-8")
    found = re.search(r"^\$ (sed .*) jobs/\*\.yaml$", page, re.MULTILINE)
    assert found is not None
    for file in examples:
        shutil.copy(file, tmp_path)

    subprocess.run(f"{found[1]} *.yaml", shell=True, cwd=tmp_path, check=True)  # noqa: S602 - the page's own command

    for file in examples:
        after = [*yaml.safe_load_all((tmp_path / file.name).read_text(encoding="utf-8"))]
        assert after == [renamed(document) for document in yaml.safe_load_all(file.read_text(encoding="utf-8"))]


def renamed(document: Schema) -> Schema:
    if document["apiVersion"] != "dataprep.io/v1alpha1":
        return document
    return {**document, "apiVersion": "dataprep.io/v1beta1"}
