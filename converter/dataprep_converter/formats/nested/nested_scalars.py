"""Values that replace nulls in nested columns: source defaults, and the values of `fillNulls`."""

import json
from typing import Any

import pyarrow as pa

from dataprep_converter.formats.nested.json_texts import json_column
from dataprep_converter.formats.nested.nested_arrays import array_of


def nested_scalar(text: str, kind: pa.DataType) -> Any:
    """Parses a value that replaces nulls. Returns the value's JSON, in the form that `json_texts.py` produces, as an Arrow scalar.

    Raises ValueError if the text isn't JSON, or if its value is null or not of type `kind`.
    """
    try:
        value = json.loads(text)
    except RecursionError as exc:
        raise ValueError("it is nested too deeply") from exc
    if value is None:
        raise ValueError("it is null")
    return json_column(array_of([value], kind))[0]
