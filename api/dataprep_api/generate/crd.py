"""The CustomResourceDefinitions, made from the models: `python -m dataprep_api.generate.crd` writes it, `--check` compares.

A CRD's schema is *structural*: narrower than the JSON Schema that pydantic writes. Every keyword is therefore handled by name, as
kept, dropped, rewritten or refused; one that nobody thought of is refused too, so that no rule of the models is lost in silence.
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
from dataprep_api.resources.cron import DataPrepCronJob
from dataprep_api.resources.job import DataPrepJob
from dataprep_api.resources.profile import DataPrepProfile
from dataprep_api.spec import Model, rule

Schema = dict[str, Any]
"""A JSON Schema or a part of one. Any: its values are JSON values of every kind."""

FILE: Final = Path("crds/dataprepjobs.dataprep.io.yaml")
CHART_FILE: Final = Path("charts/dataprep-operator/templates/crd.yaml")
CRON_FILE: Final = Path("crds/dataprepcronjobs.dataprep.io.yaml")
CRON_CHART_FILE: Final = Path("charts/dataprep-operator/templates/crd-cron.yaml")
PROFILE_FILE: Final = Path("crds/dataprepprofiles.dataprep.io.yaml")
PROFILE_CHART_FILE: Final = Path("charts/dataprep-operator/templates/crd-profile.yaml")
SIZE_LIMIT: Final = 110_000
"""Bytes of a definition as compact JSON. kubectl's client-side apply keeps the whole object in an annotation of at most 256 KiB: two versions of
the API fit."""

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
"""What may change after a job has started. Every other field may not, a new one included."""
DIVIDED: Final = frozenset({"workers"})
"""Fields whose members are mutable or not one by one."""

_KEPT = (
    "type", "format", "description", "enum", "default", "minimum", "maximum", "minLength", "maxLength", "pattern",
    "minItems", "maxItems", "minProperties", "maxProperties", "required", "properties", "items", "additionalProperties",
    "x-kubernetes-int-or-string", "x-kubernetes-preserve-unknown-fields", "x-kubernetes-list-type", "x-kubernetes-list-map-keys",
    "x-kubernetes-map-type", "x-kubernetes-validations",
)  # fmt: skip
"""In the order in which they are written."""
_DROPPED = ("title", "examples", "deprecated", "readOnly", "writeOnly", "$defs")
"""Nothing that a valid object depends on."""
_REFUSED = {
    "exclusiveMinimum": "its structural form is a boolean; use ge",
    "exclusiveMaximum": "its structural form is a boolean; use le",
    "multipleOf": "write a CEL rule, whose message says more",
    "prefixItems": "tuples have no structural form; use a list or an object",
    "uniqueItems": "the API server forbids it; use x-kubernetes-list-type map or set, or a CEL rule",
    "oneOf": "typed alternatives have no structural form; use one optional member per kind and one_of()",
    "discriminator": "typed alternatives have no structural form; use one optional member per kind and one_of()",
    "allOf": "typed alternatives have no structural form; use one optional member per kind and one_of()",
    "not": "write a CEL rule",
    "if": "write a CEL rule",
    "contains": "write a CEL rule",
    "dependentRequired": "write a CEL rule",
}
_RULES = "x-kubernetes-validations"


def crd() -> Schema:
    """The whole CustomResourceDefinition of DataPrepJobs."""
    return _definition(KIND, PLURAL, SHORT_NAME, _version())


def cron_crd() -> Schema:
    """The whole CustomResourceDefinition of DataPrepCronJobs."""
    return _definition(CRON_KIND, CRON_PLURAL, CRON_SHORT_NAME, _cron_version())


def profile_crd() -> Schema:
    """The whole CustomResourceDefinition of DataPrepProfiles."""
    return _definition(PROFILE_KIND, PROFILE_PLURAL, PROFILE_SHORT_NAME, _profile_version())


def _definition(kind: str, plural: str, short_name: str, version: Schema) -> Schema:
    names = {"kind": kind, "listKind": f"{kind}List", "plural": plural, "singular": kind.lower(), "shortNames": [short_name]}
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
            _column("Phase", "string", ".status.phase", "Where the job stands."),
            _column("Progress", "integer", ".status.progress.percent", "Percent done."),
            _column("Shards", "string", ".status.progress.summary", "Shards done and all shards."),
            _column("Records", "integer", ".status.progress.records.out", "Records written."),
            _column("Rate", "integer", ".status.progress.recordsPerSecond", "Records a second."),
            _column("ETA", "string", ".status.progress.eta", "Time left, once it can be told."),
            _column("Output", "string", ".status.output.uri", "Folder of the data set.", priority=1),
            _column("Age", "date", ".metadata.creationTimestamp", "Time since the job was made."),
        ],
        "selectableFields": [{"jsonPath": ".status.phase"}],
        "subresources": {
            "status": {},
            "scale": {"specReplicasPath": ".spec.workers.parallelism", "statusReplicasPath": ".status.effective.parallelism"},
        },
        "schema": {"openAPIV3Schema": job_schema()},
    }


def _cron_version() -> Schema:
    return {
        "name": VERSION,
        "served": True,
        "storage": True,
        "additionalPrinterColumns": [
            _column("Schedule", "string", ".spec.schedule", "When jobs are made."),
            _column("Time zone", "string", ".spec.timeZone", "Time zone of the schedule."),
            _column("Suspend", "boolean", ".spec.suspend", "Whether no jobs are made now."),
            _column("Active", "string", ".status.active[*].name", "Unfinished jobs."),
            _column("Last schedule", "date", ".status.lastScheduleTime", "When the last job was due."),
            # As text: kubectl shows a date in the future as nothing.
            _column("Next", "string", ".status.nextScheduleTime", "When the next job is due."),
            _column("Last success", "date", ".status.lastSuccessfulTime", "When a job last succeeded.", priority=1),
            _column("Scheduled", "string", '.status.conditions[?(@.type=="Scheduled")].reason', "What became of the last job.", priority=1),
            _column("Age", "date", ".metadata.creationTimestamp", "Time since it was made."),
        ],
        "subresources": {"status": {}},
        "schema": {"openAPIV3Schema": cron_schema()},
    }


def _profile_version() -> Schema:
    columns = [
        _column("Image", "string", ".spec.workers.image", "Image of the converter pods."),
        _column("Age", "date", ".metadata.creationTimestamp", "Time since it was made."),
    ]
    schema = {"openAPIV3Schema": _object(DataPrepProfile)}
    return {"name": VERSION, "served": True, "storage": True, "additionalPrinterColumns": columns, "schema": schema}


def _column(name: str, kind: str, path: str, description: str, *, priority: int = 0) -> Schema:
    column = {"name": name, "type": kind, "jsonPath": path, "description": description}
    return column | {"priority": priority} if priority else column


def job_schema() -> Schema:
    """The structural schema of a whole job, with the rules on what may change."""
    schema = _object(DataPrepJob)
    return schema | {_RULES: [_frozen(path) for path in _immutable(schema["properties"]["spec"])]}


def cron_schema() -> Schema:
    """The structural schema of a whole DataPrepCronJob."""
    return _object(DataPrepCronJob)


def _object(model: type[Model]) -> Schema:
    whole = model.model_json_schema(by_alias=True, mode="validation")
    definitions = whole["$defs"]
    spec = structural(whole["properties"]["spec"], definitions, path="spec")
    # The operator alone writes the status; a default there would come back after it was removed.
    written = {"status": whole["properties"]["status"]} if "status" in whole["properties"] else {}
    status = {key: _without_defaults(structural(value, definitions, path=key)) for key, value in written.items()}
    return {
        "type": "object",
        "description": whole["description"],
        "required": ["spec"],
        "properties": {
            "apiVersion": {"type": "string"},
            "kind": {"type": "string"},
            "metadata": {"type": "object"},
            "spec": spec,
            **status,
        },
    } | ({_RULES: whole[_RULES]} if _RULES in whole else {})


def _immutable(spec: Schema) -> list[str]:
    paths = []
    for name, schema in spec["properties"].items():
        members = [f"{name}.{member}" for member in schema["properties"]] if name in DIVIDED else [name]
        paths += [path for path in members if path not in MUTABLE]
    return paths


def _frozen(path: str) -> dict[str, str]:
    """The rule that one field of the spec keeps its value once the job has started.

    It is at the root, because only there a rule sees the status; one rule a field, because a rule names one fieldPath.
    """
    parent, _, name = f"spec.{path}".rpartition(".")
    # Lists of one or no entry: the API server can't bound the cost of comparing optional values themselves.
    same = f"[?self.{parent}.?{name}] == [?oldSelf.{parent}.?{name}]"
    # The comparison comes first because it decides almost every time: the rules run at every write of a status, too.
    return rule(
        f"{same} || oldSelf.?status.?phase.optMap(p, p == 'Pending' && !has(oldSelf.status.startTime)).orValue(true)",
        f"{path} can't change once the job has started; make a new DataPrepJob",
        path=f".spec.{path}",
        reason="FieldValueForbidden",
    )


# --- JSON Schema → structural schema ------------------------------------------------------------------------------------


def structural(schema: Schema, definitions: Mapping[str, Schema], *, path: str, within: Sequence[str] = ()) -> Schema:
    """`schema` as a structural schema. Raises CrdError naming the field that has none.

    `path` is the field's own, for messages; `within` holds the definitions that enclose it, to find recursion.
    """
    schema = _one_type(schema, path)
    if "$ref" in schema:
        name = schema["$ref"].removeprefix("#/$defs/")
        if name in within:
            raise CrdError(f"{path}: {name} contains itself; a structural schema has no recursion")
        return structural(_inlined(schema, definitions[name]), definitions, path=path, within=(*within, name))
    schema = _named_keys(schema, path)
    _check_keywords(schema, path)
    _check_limits(schema, path)
    made = {keyword: schema[keyword] for keyword in _KEPT if keyword in schema}
    if "description" in made:
        made["description"] = summary(made["description"])
    values = made.pop("additionalProperties", None)
    if isinstance(values, dict):
        made["additionalProperties"] = _bare(structural(values, definitions, path=f"{path}.*", within=within))
    if made.pop("properties", None):
        members = schema["properties"].items()
        made["properties"] = {key: structural(member, definitions, path=f"{path}.{key}", within=within) for key, member in members}
    if "items" in made:
        made["items"] = _bare(structural(made["items"], definitions, path=f"{path}[]", within=within))
    default = _shortest(made.pop("default", None), made)
    if default is not None:
        made["default"] = default
    return {keyword: made[keyword] for keyword in _KEPT if keyword in made}


def summary(description: str) -> str:
    """The first sentence: the CRD holds no more. docs/fields.md has the whole text."""
    return re.split(r"(?<=\.)\s", description, maxsplit=1)[0]


def _bare(schema: Schema) -> Schema:
    """`schema` of a list's or map's values without its description: the field itself has one."""
    return {keyword: value for keyword, value in schema.items() if keyword != "description"}


def _inlined(schema: Schema, definition: Schema) -> Schema:
    """The definition merged with the keywords beside its $ref: a field's own description wins, the rules of both hold."""
    rules = [*definition.get(_RULES, []), *schema.get(_RULES, [])]
    whole = definition | {key: value for key, value in schema.items() if key != "$ref"}
    return whole | {_RULES: rules} if rules else whole


def _one_type(schema: Schema, path: str) -> Schema:
    """`schema` without `anyOf` and `const`: Optional is simply not required, int-or-string has a keyword of its own."""
    if "const" in schema:
        schema = {key: value for key, value in schema.items() if key != "const"} | {"enum": [schema["const"]]}
    if "anyOf" not in schema:
        return schema
    rest = {key: value for key, value in schema.items() if key != "anyOf"}
    if rest.get("x-kubernetes-int-or-string"):
        return rest
    alternatives = [alternative for alternative in schema["anyOf"] if alternative.get("type") != "null"]
    if len(alternatives) != 1:
        raise CrdError(f"{path}: anyOf can't be written in a structural schema: use one optional member per kind and one_of()")
    return _one_type(alternatives[0] | rest, path)


def _named_keys(schema: Schema, path: str) -> Schema:
    """`schema` with what it says on a map's keys as a CEL rule; a structural schema speaks of a map's values only."""
    rest = {key: value for key, value in schema.items() if key not in ("patternProperties", "propertyNames")}
    names = dict(schema.get("propertyNames", {}))
    patterns = schema.get("patternProperties", {})
    if len(patterns) > 1:
        raise CrdError(f"{path}: patternProperties can't be written in a structural schema: only one pattern, as a rule on every key")
    for pattern, values in patterns.items():
        names["pattern"] = pattern
        rest["additionalProperties"] = values
    conditions, words = [], []
    for keyword, limit in names.items():
        if keyword == "pattern":
            conditions.append(f"key.matches({json.dumps(limit)})")
            words.append(f"match {limit}")
        elif keyword == "maxLength":
            conditions.append(f"key.size() <= {limit}")
            words.append(f"have at most {limit} characters")
        elif keyword != "type":
            raise CrdError(f"{path}: propertyNames can't be written in a structural schema with {keyword}: use a pattern or maxLength")
    if not conditions:
        return rest
    of_keys = rule(f"self.all(key, {' && '.join(conditions)})", f"keys must {' and '.join(words)}")
    return rest | {_RULES: [of_keys, *rest.get(_RULES, [])]}


def _check_keywords(schema: Schema, path: str) -> None:
    for keyword in schema:
        if keyword in _REFUSED:
            raise CrdError(f"{path}: {keyword} can't be written in a structural schema: {_REFUSED[keyword]}")
        if keyword not in _KEPT and keyword not in _DROPPED:
            raise CrdError(f"{path}: nothing is known about the keyword {keyword}; say in crd.py whether it is kept, dropped or refused")


def _check_limits(schema: Schema, path: str) -> None:
    """Without limits the API server takes the worst case for the cost of CEL rules, and objects have no greatest size."""
    kind = schema.get("type")
    if kind == "array" and "maxItems" not in schema:
        raise CrdError(f"{path}: a list needs max_length (maxItems)")
    bounded_text = "maxLength" in schema or "enum" in schema or schema.get("format") == "date-time"
    if (kind == "string" or schema.get("x-kubernetes-int-or-string")) and not bounded_text:
        raise CrdError(f"{path}: a string needs max_length (maxLength), an enum or a format with a length of its own")
    if isinstance(schema.get("additionalProperties"), dict) and "maxProperties" not in schema:
        raise CrdError(f"{path}: a map needs max_length (maxProperties)")


def _shortest(default: Any, schema: Schema) -> Any:
    """`default` (any JSON value, hence Any) without nulls and without what the members' own defaults give again."""
    if not isinstance(default, dict):
        return default
    members = schema.get("properties", {})
    short = {key: _shortest(value, members.get(key, {})) for key, value in default.items() if value is not None}
    return {key: value for key, value in short.items() if "default" not in members.get(key, {}) or value != members[key]["default"]}


def _without_defaults(schema: Schema) -> Schema:
    made = {key: value for key, value in schema.items() if key != "default"}
    if "properties" in made:
        made["properties"] = {name: _without_defaults(member) for name, member in made["properties"].items()}
    for inner in ("items", "additionalProperties"):
        if inner in made:
            made[inner] = _without_defaults(made[inner])
    return made


# --- files --------------------------------------------------------------------------------------------------------------


class _Dumper(yaml.SafeDumper):
    """Block style for texts of several lines, short leaves on one line, no anchors."""

    def ignore_aliases(self, data: Any) -> bool:  # Any: whatever is dumped
        """Equal parts are written twice: the API server refuses nothing, and people read on without a jump."""
        del data
        return True


def _text(dumper: yaml.SafeDumper, text: str) -> yaml.ScalarNode:
    return dumper.represent_scalar("tag:yaml.org,2002:str", text, style="|" if "\n" in text else None)


_Dumper.add_representer(str, _text)


def _yaml(value: Schema) -> str:
    return yaml.dump(value, Dumper=_Dumper, sort_keys=False, allow_unicode=True, width=140, default_flow_style=None)


def crd_text(definition: Schema | None = None) -> str:
    """The file in crds/ of a definition, by default that of DataPrepJobs."""
    definition = definition or crd()
    size = len(json.dumps(definition, separators=(",", ":")))
    if size > SIZE_LIMIT:
        raise CrdError(f"the CRD may have {SIZE_LIMIT} bytes as compact JSON, it has {size}: shorten the first sentences of descriptions")
    return f"# Made by `make generate` from api/dataprep_api. Don't edit.\n{_yaml(definition)}"


def chart_text(definition: Schema | None = None) -> str:
    """The chart's template of a definition, by default that of DataPrepJobs: the same object, installed and kept as the values say. Helm's own `{{` is escaped in the schema."""
    definition = definition or crd()
    name = definition["metadata"]["name"]
    spec = _yaml({"spec": definition["spec"]}).replace("{{", '{{ "{{" }}')
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
    """Every file made here, relative to the repository's root."""
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
    """`python -m dataprep_api.generate.crd [--check]`, in the repository's root."""
    try:
        made = files()
    except CrdError as exc:
        sys.stderr.write(f"{exc}\n")
        return 1
    return generated.main("Writes the CustomResourceDefinitions and the chart's copies.", made, arguments)


if __name__ == "__main__":
    sys.exit(main())
