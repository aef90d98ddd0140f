"""`output.provenance`: adds two text columns with the origin of each record. These columns become ordinary features.

    _uid       <file>:<number>                    the file's path below its URI, and the number of the line (from 1) or record (from 0)
    _source    {"source": URI, "index": n}        the record's number (from 0); if the source has lines, also "line" (from 1)

In the format recordioProtobuf, these columns are the records' uid and metadata.
"""

import json
from collections.abc import Sequence
from typing import Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from dataprep_api.redaction import unsigned
from dataprep_api.spec import Feature
from dataprep_converter.core.errors import BadSpec
from dataprep_converter.core.tensors import Array, pc, to_arrow, to_numpy
from dataprep_converter.readers import HasLines, SampleReader
from dataprep_converter.records.batch import SAMPLE, Batch
from dataprep_converter.records.provenance import SOURCE, UID
from dataprep_converter.sampling.units import Unit, Units

_FIELDS: Final = [pa.field(UID, pa.string()), pa.field(SOURCE, pa.string())]


def schema_with(schema: pa.Schema) -> pa.Schema:
    """Returns the schema with the two columns that `add_columns` adds. Raises BadSpec when a column already has one of these names."""
    for field in _FIELDS:
        if field.name in schema.names:
            raise BadSpec(f"output.provenance adds a column {field.name}, but the source has a column with this name; rename that column.")
        schema = schema.append(field)
    return schema


def features_with(features: Sequence[Feature] | None) -> list[Feature] | None:
    """Returns the spec's features and the two features that `add_columns` adds.

    If the spec lists no features, returns None, because all columns then become features anyway.
    """
    return None if features is None else [*features, *(Feature(name=field.name) for field in _FIELDS)]


def add_columns(batch: Batch, units: Units, reader: SampleReader) -> pa.RecordBatch:
    """Returns the batch's records with the two columns added."""
    samples = to_numpy(batch.records.column(SAMPLE))
    lines = reader.lines(units, samples) if isinstance(reader, HasLines) else None
    index, within = units.locate(samples)
    numbers, place = np.unique(index, return_inverse=True)
    batch_units = [units.unit(number) for number in numbers.tolist()]
    records = _as_texts(within + np.array([unit.row for unit in batch_units], np.int64)[place])
    names = _spread([_name(unit) + ":" for unit in batch_units], place)
    sources = _spread([f'{{"source": {json.dumps(unsigned(unit.uri), ensure_ascii=False)}, "index": ' for unit in batch_units], place)
    if lines is None:
        new_columns = (_join(names, records), _join(sources, records, "}"))
    else:
        new_columns = (_join(names, _as_texts(lines)), _join(sources, records, ', "line": ', _as_texts(lines), "}"))
    records_with_columns = batch.records
    for field, texts in zip(_FIELDS, new_columns, strict=True):
        records_with_columns = records_with_columns.append_column(field, texts)
    return records_with_columns


def _name(unit: Unit) -> str:
    """Returns the file's path below its URI. For a signed address, returns the last part of the address, without the signature."""
    without = unsigned(unit.uri)
    return without.rpartition("/")[2] if without != unit.uri else unit.path or unit.uri.rpartition("/")[2]


def _spread(texts: Sequence[str], place: npt.NDArray[np.int64]) -> Array:
    return pa.array(texts, pa.string()).take(to_arrow(place))


def _as_texts(numbers: npt.NDArray[np.int64]) -> Array:
    return to_arrow(numbers).cast(pa.string())


def _join(*parts: "Array | str") -> Array:
    joined: Array = pc.binary_join_element_wise(*parts, "")
    return joined
