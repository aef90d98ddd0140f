"""Generates the CustomResourceDefinitions from the models.

`python -m dataprep_api.generate.crd` writes the files. With `--check`, the command only compares the files with the models. A CRD's schema
must be *structural*, which allows less than the JSON Schema that pydantic writes. Therefore this module lists every keyword that is kept,
dropped, rewritten or refused. Unlisted keywords are refused too. So no rule of the models gets lost unnoticed.
"""

import json
import re
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Final

import yaml

from dataprep_api import (
    CRON_KIND,
    CRON_PLURAL,
    CRON_SHORT_NAME,
    GROUP,
    KIND,
    PLURAL,
    PROFILE_KIND,
    PROFILE_PLURAL,
    PROFILE_SHORT_NAME,
    SHORT_NAME,
    VERSION,
)
from dataprep_api.errors import CrdError
from dataprep_api.generate import generated
from dataprep_api.generate.list_keys import with_lenient_keys
from dataprep_api.resources.cron import DataPrepCronJob
from dataprep_api.resources.job import DataPrepJob
from dataprep_api.resources.profile import DataPrepProfile
from dataprep_api.spec import Model, rule

Schema = dict[str, Any]
"""A JSON Schema or a part of one. Any, because the values can be any JSON values."""

FILE: Final = Path("crds/dataprepjobs.dataprep.io.yaml")
CHART_FILE: Final = Path("charts/dataprep-operator/templates/crd.yaml")
CRON_FILE: Final = Path("crds/dataprepcronjobs.dataprep.io.yaml")
CRON_CHART_FILE: Final = Path("charts/dataprep-operator/templates/crd-cron.yaml")
PROFILE_FILE: Final = Path("crds/dataprepprofiles.dataprep.io.yaml")
PROFILE_CHART_FILE: Final = Path("charts/dataprep-operator/templates/crd-profile.yaml")
SIZE_LIMIT: Final = 124_500
"""The maximum size of a definition as compact JSON, in bytes.

kubectl's client-side apply stores the complete object in an annotation of at most 256 KiB. With this limit, a definition with two API
versions fits into the annotation.
"""

CATEGORIES: Final = ["all", "dataprep"]
"""The categories of the objects. With these categories, `kubectl get all` and `kubectl get dataprep` list the objects."""

MUTABLE: Final = frozenset(
    {
        "suspend",
        "ttlSecondsAfterFinished",
        "cleanup",
        "deletionPolicy",
        "activeDeadlineSeconds",
        "stepDeadlines",
        "blockedDeadlineSeconds",
        "maxEvictions",
        "retry",
        "workers.parallelism",
    }
)
"""The fields that may change after a job has started. All other fields are immutable, including fields that are added later."""
ALWAYS_FROZEN: Final = frozenset({"managedBy"})
"""The fields that can't change even before the job has started. If they could change, two controllers could run the same job."""
FROZEN: Final = "can't change after the start; make a new DataPrepJob"
"""The end of the API server's message about a change to an immutable field. The message begins with the names of the changed fields."""
DIVIDED: Final = frozenset({"workers"})
"""Fields whose members are listed separately in MUTABLE."""

_KEPT_KEYWORDS = (
    "type", "format", "description", "enum", "default", "minimum", "maximum", "minLength", "maxLength", "pattern",
    "minItems", "maxItems", "minProperties", "maxProperties", "required", "properties", "items", "additionalProperties",
    "x-kubernetes-int-or-string", "x-kubernetes-preserve-unknown-fields", "x-kubernetes-list-type", "x-kubernetes-list-map-keys",
    "x-kubernetes-map-type", "x-kubernetes-validations",
)  # fmt: skip
"""Keywords that are kept, in the order in which they are written."""
_DROPPED_KEYWORDS = ("title", "examples", "deprecated", "readOnly", "writeOnly", "$defs")
"""Keywords that are dropped, because they don't affect which objects are valid."""
_REFUSED_KEYWORDS = {
    "exclusiveMinimum": "its structural form is a boolean; use ge",
    "exclusiveMaximum": "its structural form is a boolean; use le",
    "multipleOf": "write a CEL rule, which has a clearer message",
    "prefixItems": "tuples have no structural form; use a list or an object",
    "uniqueItems": "the API server forbids it; use x-kubernetes-list-type map or set, or a CEL rule",
    "oneOf": "typed alternatives have no structural form; use one optional member per kind and the base class OneOf",
    "discriminator": "typed alternatives have no structural form; use one optional member per kind and the base class OneOf",
    "allOf": "typed alternatives have no structural form; use one optional member per kind and the base class OneOf",
    "not": "write a CEL rule",
    "if": "write a CEL rule",
    "contains": "write a CEL rule",
    "dependentRequired": "write a CEL rule",
}
_RULES = "x-kubernetes-validations"
_FORBIDDEN = "FieldValueForbidden"


def crd() -> Schema:
    """Return the CustomResourceDefinition of DataPrepJobs."""
    return _definition(KIND, PLURAL, SHORT_NAME, _version())


def cron_crd() -> Schema:
    """Return the CustomResourceDefinition of DataPrepCronJobs."""
    return _definition(CRON_KIND, CRON_PLURAL, CRON_SHORT_NAME, _cron_version())


def profile_crd() -> Schema:
    """Return the CustomResourceDefinition of DataPrepProfiles."""
    return _definition(PROFILE_KIND, PROFILE_PLURAL, PROFILE_SHORT_NAME, _profile_version())


def _definition(kind: str, plural: str, short_name: str, version: Schema) -> Schema:
    names = {
        "kind": kind,
        "listKind": f"{kind}List",
        "plural": plural,
        "singular": kind.lower(),
        "shortNames": [short_name],
        "categories": CATEGORIES,
    }
    return {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": f"{plural}.{GROUP}"},
        "spec": {"group": GROUP, "scope": "Namespaced", "names": names, "versions": [version]},
    }


def _version() -> Schema:
    return {
        "name": VERSION,
        "served": True,
        "storage": True,
        "additionalPrinterColumns": [
            _column("Phase", "string", ".status.phase", "Phase of the job."),
            _column("Reason", "string", '.status.conditions[?(@.type=="Ready")].reason', "Reason of the phase."),
            _column("Progress", "integer", ".status.progress.percent", "Percent done."),
            _column("Shards", "string", ".status.progress.summary", "Finished and total shards, scan parts or slices."),
            _column("Records", "integer", ".status.progress.records.out", "Records written."),
            _column("Rate", "integer", ".status.progress.recordsPerSecond", "Records per second."),
            _column("ETA", "string", ".status.progress.eta", "Estimated time left."),
            _column("Output", "string", ".status.output.uri", "Folder of the data set.", priority=1),
            _column("Age", "date", ".metadata.creationTimestamp", "Time since the job was created."),
        ],
        "selectableFields": [{"jsonPath": ".status.phase"}],
        "subresources": {
            "status": {},
            "scale": {
                "specReplicasPath": ".spec.workers.parallelism",
                "statusReplicasPath": ".status.effective.parallelism",
                "labelSelectorPath": ".status.selector",
            },
        },
        "schema": {"openAPIV3Schema": job_schema()},
    }


def _cron_version() -> Schema:
    return {
        "name": VERSION,
        "served": True,
        "storage": True,
        "additionalPrinterColumns": [
            _column("Schedule", "string", ".spec.schedule", "When jobs are created."),
            _column("Time zone", "string", ".spec.timeZone", "Time zone of the schedule."),
            _column("Suspend", "boolean", ".spec.suspend", "Whether creating jobs is suspended."),
            _column("Active", "string", ".status.active[*].name", "Unfinished jobs."),
            _column("Last schedule", "date", ".status.lastScheduleTime", "When the last job was due."),
            # A string, because kubectl can't show dates in the future.
            _column("Next", "string", ".status.nextScheduleTime", "When the next job is due."),
            _column("Last success", "date", ".status.lastSuccessfulTime", "When a job last succeeded.", priority=1),
            _column(
                "Scheduled",
                "string",
                '.status.conditions[?(@.type=="Scheduled")].reason',
                "Reason of the last scheduling result.",
                priority=1,
            ),
            _column("Age", "date", ".metadata.creationTimestamp", "Time since it was created."),
        ],
        "subresources": {"status": {}},
        "schema": {"openAPIV3Schema": cron_schema()},
    }


def _profile_version() -> Schema:
    columns = [
        _column("Image", "string", ".spec.workers.image", "Image of the converter pods."),
        _column("Age", "date", ".metadata.creationTimestamp", "Time since it was created."),
    ]
    schema = {"openAPIV3Schema": _object_schema(DataPrepProfile)}
    return {"name": VERSION, "served": True, "storage": True, "additionalPrinterColumns": columns, "schema": schema}


def _column(name: str, kind: str, path: str, description: str, *, priority: int = 0) -> Schema:
    column = {"name": name, "type": kind, "jsonPath": path, "description": description}
    return column | {"priority": priority} if priority else column


def job_schema() -> Schema:
    """Return the structural schema of a complete job, with the rules about which fields may change."""
    schema = _object_schema(DataPrepJob)
    return schema | {_RULES: _immutability_rules(_immutable_paths(schema["properties"]["spec"]))}


def cron_schema() -> Schema:
    """Return the structural schema of a complete DataPrepCronJob."""
    return _object_schema(DataPrepCronJob)


def _object_schema(model: type[Model]) -> Schema:
    schema = model.model_json_schema(by_alias=True, mode="validation")
    definitions = schema["$defs"]
    spec = structural(schema["properties"]["spec"], definitions, path="spec")
    # Only the operator writes the status. If a field had a default, the API server would add the field again after the operator had removed
    # it. The default of the complete status says that the operator hasn't seen the object yet. Without this default, kstatus would mistake
    # a new object for a finished object.
    unconverted = {"status": schema["properties"]["status"]} if "status" in schema["properties"] else {}
    status = {
        key: _without_defaults(structural(value, definitions, path=key)) | {"default": {"observedGeneration": -1}}
        for key, value in unconverted.items()
    }
    return {
        "type": "object",
        "description": schema["description"],
        "required": ["spec"],
        "properties": {
            "apiVersion": {"type": "string"},
            "kind": {"type": "string"},
            "metadata": {"type": "object"},
            "spec": spec,
            **status,
        },
    } | ({_RULES: schema[_RULES]} if _RULES in schema else {})


def _immutable_paths(spec: Schema) -> list[str]:
    paths = []
    for name, schema in spec["properties"].items():
        members = [f"{name}.{member}" for member in schema["properties"]] if name in DIVIDED else [name]
        paths += [path for path in members if path not in MUTABLE]
    return paths


def _immutability_rules(paths: Sequence[str]) -> list[dict[str, str]]:
    """Return the rules that reject changes to spec fields. The fields in ALWAYS_FROZEN can never change. The other fields in `paths` can't
    change after the job has started.

    The rules are at the root of the schema, because only rules at the root can read the status. The other fields share one rule, whose
    message names the changed fields. One rule per field would take up a tenth of the definition.
    """
    always = [
        rule(_same(path), "can't change; make a new DataPrepJob", path=f".spec.{path}", reason=_FORBIDDEN) for path in sorted(ALWAYS_FROZEN)
    ]
    later = [path for path in paths if path not in ALWAYS_FROZEN]
    # The comparison comes first. It is almost always true, so the API server rarely evaluates the rest. This saves time, because the rules
    # also run when a status is written.
    unchanged = " && ".join(_same(path) for path in later)
    frozen = rule(f"{unchanged} || !oldSelf.?status.startTime.hasValue()", FROZEN, path=".spec", reason=_FORBIDDEN)
    names = " + ".join(f"({_same(path)} ? '' : '{path} ')" for path in later)
    return [*always, frozen | {"messageExpression": f'{names} + "{FROZEN}"'}]


def _same(path: str) -> str:
    """Return the CEL expression for an unchanged spec field.

    The values are wrapped in lists with at most one entry, because the API server can't bound the cost of comparing optional values.
    """
    parent, _, name = f"spec.{path}".rpartition(".")
    return f"[?self.{parent}.?{name}] == [?oldSelf.{parent}.?{name}]"


# --- JSON Schema → structural schema ------------------------------------------------------------------------------------


def structural(schema: Schema, definitions: Mapping[str, Schema], *, path: str, within: Sequence[str] = ()) -> Schema:
    """Convert `schema` to a structural schema. Raises CrdError, which names the field that can't be converted.

    `path` is the field's path, for messages. `within` contains the enclosing definitions, so that recursion is detected.
    """
    schema = _resolve_alternatives(schema, path)
    if "$ref" in schema:
        name = schema["$ref"].removeprefix("#/$defs/")
        if name in within:
            raise CrdError(f"{path}: {name} contains itself; a structural schema can't be recursive")
        return structural(_merge_definition(schema, definitions[name]), definitions, path=path, within=(*within, name))
    schema = _rewrite_key_constraints(schema, path)
    _check_keywords(schema, path)
    _check_limits(schema, path)
    converted = {keyword: schema[keyword] for keyword in _KEPT_KEYWORDS if keyword in schema}
    if "description" in converted:
        converted["description"] = summary(converted["description"])
    values = converted.pop("additionalProperties", None)
    if isinstance(values, dict):
        converted["additionalProperties"] = _without_description(structural(values, definitions, path=f"{path}.*", within=within))
    if converted.pop("properties", None):
        members = schema["properties"].items()
        converted["properties"] = {key: structural(member, definitions, path=f"{path}.{key}", within=within) for key, member in members}
    if "items" in converted:
        # A list without `x-kubernetes-list-type` is atomic. Writing this keyword into each list would take up a twentieth of the
        # definition.
        items = _without_description(structural(converted["items"], definitions, path=f"{path}[]", within=within))
        converted["items"] = with_lenient_keys(items, converted.get("x-kubernetes-list-map-keys", []))
    default = _shorten_default(converted.pop("default", None), converted)
    if default is not None:
        converted["default"] = default
    return {keyword: converted[keyword] for keyword in _KEPT_KEYWORDS if keyword in converted}


def summary(description: str) -> str:
    """Return the first sentence of a description, for the CRD.

    The page docs/fields.md contains the complete text.
    """
    return re.split(r"(?<=\.)\s", description, maxsplit=1)[0]


def _without_description(schema: Schema) -> Schema:
    """Remove the description from the schema of a list's or map's values, because the field itself has a description."""
    return {keyword: value for keyword, value in schema.items() if keyword != "description"}


def _merge_definition(schema: Schema, definition: Schema) -> Schema:
    """Merge a definition with the keywords beside its $ref. The field's description replaces the definition's description.

    The rules of the definition and of the field are both kept.
    """
    rules = [*definition.get(_RULES, []), *schema.get(_RULES, [])]
    merged = definition | {key: value for key, value in schema.items() if key != "$ref"}
    return merged | {_RULES: rules} if rules else merged


def _resolve_alternatives(schema: Schema, path: str) -> Schema:
    """Rewrite `anyOf` and `const`.

    A structural schema marks a field as optional by omitting it from `required`, and expresses int-or-string with a special keyword.
    """
    if "const" in schema:
        schema = {key: value for key, value in schema.items() if key != "const"} | {"enum": [schema["const"]]}
    if "anyOf" not in schema:
        return schema
    rest = {key: value for key, value in schema.items() if key != "anyOf"}
    if rest.get("x-kubernetes-int-or-string"):
        return rest
    alternatives = [alternative for alternative in schema["anyOf"] if alternative.get("type") != "null"]
    if len(alternatives) != 1:
        raise CrdError(f"{path}: anyOf can't be written in a structural schema: use one optional member per kind and the base class OneOf")
    return _resolve_alternatives(alternatives[0] | rest, path)


def _rewrite_key_constraints(schema: Schema, path: str) -> Schema:
    """Rewrite the constraints on a map's keys as a CEL rule, because a structural schema can constrain only a map's values."""
    rest = {key: value for key, value in schema.items() if key not in ("patternProperties", "propertyNames")}
    names = dict(schema.get("propertyNames", {}))
    patterns = schema.get("patternProperties", {})
    if len(patterns) > 1:
        raise CrdError(f"{path}: patternProperties can have only one pattern, because it is written as a rule on every key")
    for pattern, values in patterns.items():
        names["pattern"] = pattern
        rest["additionalProperties"] = values
    conditions, words = [], []
    for keyword, limit in names.items():
        if keyword == "pattern":
            conditions.append(f"k.matches({json.dumps(limit)})")
            words.append(f"must match {limit}")
        elif keyword == "maxLength":
            conditions.append(f"k.size() <= {limit}")
            words.append(f"at most {limit} characters")
        elif keyword != "type":
            raise CrdError(f"{path}: a structural schema can't express `{keyword}` under propertyNames: use a pattern or maxLength")
    if not conditions:
        return rest
    key_rule = rule(f"self.all(k, {' && '.join(conditions)})", f"keys: {', '.join(words)}")
    return rest | {_RULES: [key_rule, *rest.get(_RULES, [])]}


def _check_keywords(schema: Schema, path: str) -> None:
    for keyword in schema:
        if keyword in _REFUSED_KEYWORDS:
            raise CrdError(f"{path}: {keyword} can't be written in a structural schema: {_REFUSED_KEYWORDS[keyword]}")
        if keyword not in _KEPT_KEYWORDS and keyword not in _DROPPED_KEYWORDS:
            raise CrdError(f"{path}: unknown keyword {keyword}; list it in crd.py as kept, dropped or refused")


def _check_limits(schema: Schema, path: str) -> None:
    """Raise CrdError for a field without a maximum size.

    The API server needs maximum sizes to bound the cost of CEL rules and the size of objects.
    """
    kind = schema.get("type")
    if kind == "array" and "maxItems" not in schema:
        raise CrdError(f"{path}: a list needs max_length (maxItems)")
    bounded_text = "maxLength" in schema or "enum" in schema or schema.get("format") == "date-time"
    if (kind == "string" or schema.get("x-kubernetes-int-or-string")) and not bounded_text:
        raise CrdError(f"{path}: a string needs max_length (maxLength), an enum or a format with a fixed length")
    if isinstance(schema.get("additionalProperties"), dict) and "maxProperties" not in schema:
        raise CrdError(f"{path}: a map needs max_length (maxProperties)")


def _shorten_default(default: Any, schema: Schema) -> Any:
    """Return `default` without nulls and without values that are already the defaults of their fields. Any, because `default` can be any
    JSON value."""
    if not isinstance(default, dict):
        return default
    members = schema.get("properties", {})
    short = {key: _shorten_default(value, members.get(key, {})) for key, value in default.items() if value is not None}
    return {key: value for key, value in short.items() if "default" not in members.get(key, {}) or value != members[key]["default"]}


def _without_defaults(schema: Schema) -> Schema:
    stripped = {key: value for key, value in schema.items() if key != "default"}
    if "properties" in stripped:
        stripped["properties"] = {name: _without_defaults(member) for name, member in stripped["properties"].items()}
    for inner in ("items", "additionalProperties"):
        if inner in stripped:
            stripped[inner] = _without_defaults(stripped[inner])
    return stripped


# --- files --------------------------------------------------------------------------------------------------------------


class _Dumper(yaml.SafeDumper):
    """Dumps multi-line texts in block style and short collections on one line, and writes no anchors."""

    def ignore_aliases(self, data: Any) -> bool:  # Any, because values of every type are dumped
        """Return True, so that repeated values are written in full, which is easier to read than anchors."""
        del data
        return True


def _represent_text(dumper: yaml.SafeDumper, text: str) -> yaml.ScalarNode:
    return dumper.represent_scalar("tag:yaml.org,2002:str", text, style="|" if "\n" in text else None)


_Dumper.add_representer(str, _represent_text)


def _dump_yaml(value: Schema) -> str:
    return yaml.dump(value, Dumper=_Dumper, sort_keys=False, allow_unicode=True, width=140, default_flow_style=None)


def crd_text(definition: Schema | None = None) -> str:
    """Return the text of a definition's file in crds/. The default is the definition of DataPrepJobs."""
    definition = definition or crd()
    size = len(json.dumps(definition, separators=(",", ":")))
    if size > SIZE_LIMIT:
        raise CrdError(
            f"the CRD may have at most {SIZE_LIMIT} bytes as compact JSON, but it has {size}. Shorten the first sentences of descriptions"
        )
    return f"# Made by `make generate` from api/dataprep_api. Don't edit.\n{_dump_yaml(definition)}"


def chart_text(definition: Schema | None = None) -> str:
    """Return the text of the chart's template for a definition. The default is the definition of DataPrepJobs.

    The chart's values decide whether the definition is installed and whether Helm keeps it. Every `{{` in the schema is escaped for Helm.
    """
    definition = definition or crd()
    name = definition["metadata"]["name"]
    spec = _dump_yaml({"spec": definition["spec"]}).replace("{{", '{{ "{{" }}')
    return f"""\
{{{{- /* Made by `make generate` from api/dataprep_api. Don't edit. */ -}}}}
{{{{- if .Values.crds.install }}}}
apiVersion: {definition["apiVersion"]}
kind: {definition["kind"]}
metadata:
  name: {name}
  labels:
    {{{{- include "dataprep-operator.labels" . | nindent 4 }}}}
  {{{{- if .Values.crds.keep }}}}
  annotations:
    helm.sh/resource-policy: keep
  {{{{- end }}}}
{spec}{{{{- end }}}}
"""


def files() -> dict[Path, str]:
    """Return the text of every generated file. Paths are relative to the repository's root."""
    cron, profile = cron_crd(), profile_crd()
    return {
        FILE: crd_text(),
        CHART_FILE: chart_text(),
        CRON_FILE: crd_text(cron),
        CRON_CHART_FILE: chart_text(cron),
        PROFILE_FILE: crd_text(profile),
        PROFILE_CHART_FILE: chart_text(profile),
    }


def main(arguments: Sequence[str] | None = None) -> int:
    """Run `python -m dataprep_api.generate.crd [--check]` in the repository's root."""
    try:
        texts = files()
    except CrdError as exc:
        sys.stderr.write(f"{exc}\n")
        return 1
    return generated.main("Write the CustomResourceDefinitions and the chart's copies.", texts, arguments)


if __name__ == "__main__":
    sys.exit(main())
