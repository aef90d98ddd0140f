"""Parses tf.train.SequenceExample records into columns, one record at a time with protobuf.

Feature lists become sequences, and context features become ordinary columns. A step without values still counts as a step. If the steps of
a feature list must be vectors or single values, a step without values makes the record bad.
"""

from collections.abc import Mapping, Sequence
from typing import Any, Final

import numpy as np
import pyarrow as pa

from dataprep_api.spec.sources.tfrecord import TfrecordFeature
from dataprep_converter.core.errors import BadSpec, NotWhole
from dataprep_converter.formats import values
from dataprep_converter.formats.tfrecord.lockstep import Places
from dataprep_converter.formats.tfrecord.records import parse_sequence
from dataprep_converter.readers.base.blocks import Block
from dataprep_converter.records.batch import Raw

_KINDS: Final[Mapping[str, tuple[str, str]]] = {"Int64": ("int64", "int64"), "Float32": ("float", "float32"), "Bytes": ("bytes", "bytes")}


def schema(features: Sequence[TfrecordFeature]) -> pa.Schema:
    """The columns. Each feature list becomes a list of steps, marked as a sequence; each context feature becomes an ordinary column."""
    return values.schema([_describe(feature) for feature in features])


def block(data: bytes, starts: Places, ends: Places, features: Sequence[TfrecordFeature], *, is_strict: bool) -> Block:
    """Parses the records of a stretch. The payload of record n is `data[starts[n]:ends[n]]`."""
    descriptions = [_describe(feature) for feature in features]
    rows: list[Mapping[str, Any]] = []
    reasons: dict[int, str] = {}
    for number, (start, end) in enumerate(zip(starts.tolist(), ends.tolist(), strict=True)):
        row, fault = _row(data[start:end], features, is_strict=is_strict)
        fault = fault or values.fault(descriptions, row)
        if fault:
            reasons[number] = fault
        else:
            rows.append(row)
    is_good = np.ones(len(starts), np.bool_)
    is_good[list(reasons)] = False
    return Block(
        records=values.columns(descriptions, rows),
        places=np.where(is_good, np.cumsum(is_good) - 1, -1),
        reasons=reasons,
        raws={row: Raw.of(data[starts[row] : ends[row]]) for row in reasons},
    )


def inferred(payloads: Sequence[tuple[str, bytes]]) -> list[TfrecordFeature] | None:
    """Infers the sequence features from the first records, given as pairs (URI, payload). Returns them sorted by name.

    Returns None if the records have no sequences, because they are then plain Examples. Raises BadSpec if a type can't be determined.
    """
    steps_by_name: dict[str, list[tuple[str, list[Any]]]] = {}
    for uri, payload in payloads:
        for name, steps in parse_sequence(payload)[1].items():
            steps_by_name.setdefault(name, []).extend((uri, step) for step in steps)
    return [_infer_sequence(name, steps_by_name[name]) for name in sorted(steps_by_name, key=str.encode)] if steps_by_name else None


def _infer_sequence(name: str, steps: Sequence[tuple[str, Sequence[Any]]]) -> TfrecordFeature:
    kinds = {_kind(step[0]): uri for uri, step in steps if step}
    if len(kinds) != 1:
        what = " and ".join(f"{kind} in {uri}" for kind, uri in kinds.items()) or "without a value in the first records"
        raise BadSpec(f"The sequence {name!r} is {what}; list the features in source.tfrecord.features.")
    (kind,) = kinds
    lengths = {len(step) for _, step in steps}
    is_ragged = len(lengths) > 1 or (kind == "Bytes" and lengths != {1})
    shape = [] if is_ragged or lengths == {1} else sorted(lengths)
    return TfrecordFeature.model_validate({"name": name, "type": kind, "shape": shape, "ragged": is_ragged, "sequence": True})


def _kind(value: Any) -> str:
    return "Bytes" if isinstance(value, bytes) else "Float32" if isinstance(value, float) else "Int64"


def _describe(feature: TfrecordFeature) -> dict[str, Any]:
    kind, dtype = _KINDS[feature.type]
    own = [-1] if feature.ragged else list(feature.shape)
    return {
        "name": feature.name,
        "kind": kind,
        "dtype": feature.raw or dtype,
        "shape": [-1, *own] if feature.sequence else own,
        "raw": feature.raw is not None,
        "sequence": feature.sequence,
    }


def _row(payload: bytes, features: Sequence[TfrecordFeature], *, is_strict: bool) -> tuple[dict[str, Any], str | None]:
    """A record's values, keyed by feature, and the reason if the record is bad."""
    try:
        context, lists = parse_sequence(payload)
    except NotWhole:
        return {}, "the record is not a tf.train.SequenceExample"
    is_sequence = {feature.name: feature.sequence for feature in features}
    for name in [*context, *lists] if is_strict else ():
        if name not in is_sequence:
            return {}, f"the feature {name!r} wasn't found when the job was planned; list the features in source.tfrecord.features"
    for name, part, other in [(n, "context", "a sequence") for n in context] + [(n, "feature lists", "no sequence") for n in lists]:
        if name in is_sequence and is_sequence[name] == (part == "context"):
            return {}, f"the feature {name!r} is in the record's {part}, but it is {other} in source.tfrecord.features"
    row = {
        name: lists.get(name, []) if sequence else context[name] for name, sequence in is_sequence.items() if sequence or name in context
    }
    return row, None
