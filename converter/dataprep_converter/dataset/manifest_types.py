"""Checks the types in a manifest. If someone has edited a manifest and its `_SUCCESS`, the manifest may contain types that dataprep doesn't
know."""

from collections.abc import Callable, Mapping
from typing import Any, Final

import pyarrow as pa

from dataprep_api.dataset.report import Manifest
from dataprep_converter.core.errors import NotWhole
from dataprep_converter.formats.nested.descriptions import parse_description, plain_type
from dataprep_converter.records.columns import format_names
from dataprep_converter.records.kept_types import number_type

_SHOWN: Final = 80

_FIELDS: Final[Mapping[str, tuple[Callable[[pa.DataType], bool], str]]] = {
    "nested": (
        lambda kind: plain_type(kind) == kind,
        'the description of a type, such as {"list": "string"} or {"struct": [["x", "int64"]]}',
    ),
    "types": (
        lambda kind: number_type(kind) is not None,
        "a type of times or decimals, such as decimal128(20, 2), date32[day], timestamp[us, tz=UTC], time64[us] or duration[ms]",
    ),
}
"""For each manifest field that contains types: a function that checks whether a type is allowed there, and a text that says what is
expected."""


def check_types(manifest: Manifest, uri: str) -> None:
    """Raises NotWhole for a type that can't be in a manifest. `uri` is the manifest's URI."""
    features = [feature["name"] for feature in manifest.features]
    for field, (may_have, expected) in _FIELDS.items():
        for name, described in getattr(manifest, field).items():
            if name not in features:
                raise NotWhole(f"{uri}: {field} has {name!r}, expected one of the features {format_names(features)}.", uri=uri)
            kind = _parsed(described)
            if kind is None or not may_have(kind):
                raise NotWhole(f"{uri}: {field} has {str(described)[:_SHOWN]!r} for the feature {name!r}, expected {expected}.", uri=uri)


def _parsed(described: Any) -> pa.DataType | None:
    """Returns the type with this description, or None if the value doesn't describe a type."""
    try:
        return parse_description(described)
    except (ValueError, TypeError, KeyError, AttributeError, OverflowError, RecursionError, pa.ArrowException):
        return None
