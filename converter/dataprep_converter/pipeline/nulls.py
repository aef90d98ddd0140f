"""Decides how a feature's nulls are handled. This module is pure. `features.py` applies these decisions to the values."""

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

import pyarrow as pa

from dataprep_api.dataset.run_id import NullRule
from dataprep_api.spec import Output, Source
from dataprep_converter.core.lists import is_list
from dataprep_converter.core.tensors import is_tensor
from dataprep_converter.dataset.frame_rows import Engine, engine_of
from dataprep_converter.formats.nested.descriptions import empty_json, nested_type
from dataprep_converter.formats.registry import encoder_class
from dataprep_converter.records.feature import FeatureSpec

_DEFAULTS: Final[Mapping[str, str]] = {
    "csv": "defaults",
    "jsonl": "defaults",
    "parquet": "defaults",
    "arrow": "defaults",
    "avro": "defaults",
    "orc": "defaults",
    "sql": "defaults",
    "table": "recordDefaults",
}
"""For each table source, the name of the field that maps columns to their defaults."""
_PLAIN: Final = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")


@dataclass(frozen=True)
class Defaults:
    """The defaults that a source's columns can have."""

    source: str = ""
    """The source's field in the spec, such as `parquet`."""
    examples: Mapping[str, str] = field(default_factory=dict)
    """For each column that can have a default, an example default as written in the spec."""
    engine: Engine | None = None
    """If the source is a data frame, the engine with which nulls are replaced."""

    def line(self, columns: Sequence[str]) -> str | None:
        """Returns the advice on how to give these columns defaults, or None if one of them can't have a default."""
        if not all(name in self.examples for name in columns):
            return None
        if self.engine is not None:
            return f"replace the nulls of {', '.join(columns)} in the {self.engine.frame}, {self.engine.filling}"
        entries = ", ".join(f"{_key(name)}: {self.examples[name]}" for name in columns)
        return f"add {_DEFAULTS[self.source]}: {{{entries}}} to source.{self.source}"


@dataclass(frozen=True)
class Nulls:
    """How a feature's nulls are handled."""

    held: bool
    """Whether a null stays a null. If not, the record is bad."""
    why: str = ""
    """Why a null can't be stored."""
    defaults: Defaults = field(default_factory=Defaults)
    remedy: str = ""
    """What to do about a column that can't have a default. If empty, the advice is to add the transform `fillNulls`."""

    def reason(self, column: str) -> str:
        """Returns the reason why a record with a null in this column is bad."""
        if not self.why:
            return f"{column} has no value"
        remedy = self.remedy or f"add fillNulls: {{columns: [{_key(column)}]}} to transforms"
        return f"{column} has no value{self.why}; {self.defaults.line([column]) or remedy}"


def nulls_of(feature: FeatureSpec, *, is_vector: bool, output: Output, rule: NullRule, defaults: Defaults) -> Nulls | None:
    """Returns how a feature's nulls are handled, or None if the plan uses version 1 of the rule for nulls.

    In version 1, a null stays a null if the feature needs no conversion; otherwise, the null makes its record bad.
    """
    if rule != "Keep":
        return Nulls(held=False) if rule == "Bad" else None
    if not is_vector and encoder_class(output.format).holds_null(output, feature):
        return Nulls(held=True)
    if is_vector:
        why = ", and a vector can't have a null among its values"
    elif feature.raw and encoder_class(output.format).numbers(output).raw:
        why = f", and {output.format} has no null for a tensor that is stored Raw"
        return Nulls(held=False, why=why, defaults=defaults, remedy="set encoding: Values")
    else:
        why = f", and {output.format} has no null for this feature"
    return Nulls(held=False, why=why, defaults=defaults)


def fault_of_empty_record(output: Output, rule: NullRule) -> str | None:
    """Returns the fault of a record in which all nullable features are null, or None if such a record is good."""
    if rule != "Keep" or not encoder_class(output.format).needs_a_value:
        return None
    return f"it has no value in any feature, and {output.format} needs at least one"


def defaults_of(source: Source, schema: pa.Schema) -> Defaults:
    """Returns the defaults that the source's columns can have. `schema` is the schema of the source's reader."""
    if source.kind not in _DEFAULTS:
        return Defaults()
    examples = {
        column.name: _example(column.type) if (nested := nested_type(column)) is None else json.dumps(empty_json(nested))
        for column in schema
    }
    return Defaults(source.kind, {name: example for name, example in examples.items() if example is not None}, engine_of(source))


def _key(name: str) -> str:
    """Returns a column's name as written in the spec."""
    return name if _PLAIN.fullmatch(name) else json.dumps(name)


def _example(kind: Any) -> str | None:
    """Returns an example default for columns of this type, as written in the spec, or None if such columns can't have defaults."""
    if is_tensor(kind):
        return None
    if is_list(kind):
        return '"[]"'
    if pa.types.is_floating(kind):
        return '"NaN"'
    if pa.types.is_boolean(kind):
        return '"false"'
    return '"0"' if pa.types.is_integer(kind) else '""'
