"""Croissant: `_dataprep/croissant.json` describes the data set in MLCommons' vocabulary (JSON-LD, version 1.0).

The file describes the features, the classes, and the shards with their digests. Shards are named relative to this file, so the file stays
correct in a copy of the folder. Publishers must add the data set's name, license and author.
"""

import glob
import json
import re
from collections.abc import Callable, Mapping, Sequence
from pkgutil import resolve_name
from typing import Any, Final, TypeAlias

import pyarrow as pa

from dataprep_api import names
from dataprep_api.dataset.report import Manifest
from dataprep_converter.dataset.manifest_table import is_large
from dataprep_converter.dataset.sidecars import FinishedDataSet, Made, sagemaker
from dataprep_converter.dataset.sidecars.tfds import IMAGE
from dataprep_converter.formats.registry import format_of
from dataprep_converter.formats.text import csv_encoder
from dataprep_converter.records.feature import FeatureSpec

Column: TypeAlias = tuple[str, str, bool]
"""The column's name, its type, and whether its values are lists."""

FILE: Final = f"{names.SIDE}/croissant.json"
_MOST_COLUMNS: Final = 1000
"""The columns of CSV files with more columns than this (such as one for each pixel) aren't described, because croissant.json would become
larger than the shards."""
_TYPES: Final = {"int64": "sc:Integer", "float": "sc:Float", "bytes": "sc:Text"}
_CONTEXT: Final[Mapping[str, Any]] = {
    "@language": "en",
    "@vocab": "https://schema.org/",
    "citeAs": "cr:citeAs",
    "column": "cr:column",
    "conformsTo": "dct:conformsTo",
    "cr": "http://mlcommons.org/croissant/",
    "data": {"@id": "cr:data", "@type": "@json"},
    "dataType": {"@id": "cr:dataType", "@type": "@vocab"},
    "dct": "http://purl.org/dc/terms/",
    "equivalentProperty": "cr:equivalentProperty",
    "examples": {"@id": "cr:examples", "@type": "@json"},
    "extract": "cr:extract",
    "field": "cr:field",
    "fileObject": "cr:fileObject",
    "fileProperty": "cr:fileProperty",
    "fileSet": "cr:fileSet",
    "format": "cr:format",
    "includes": "cr:includes",
    "isLiveDataset": "cr:isLiveDataset",
    "jsonPath": "cr:jsonPath",
    "key": "cr:key",
    "md5": "cr:md5",
    "parentField": "cr:parentField",
    "path": "cr:path",
    "rai": "http://mlcommons.org/croissant/RAI/",
    "recordSet": "cr:recordSet",
    "references": "cr:references",
    "regex": "cr:regex",
    "repeated": "cr:repeated",
    "replace": "cr:replace",
    "samplingRate": "cr:samplingRate",
    "sc": "https://schema.org/",
    "separator": "cr:separator",
    "source": "cr:source",
    "subField": "cr:subField",
    "transform": "cr:transform",
}


def make(finished: FinishedDataSet) -> Made:
    """Yields the file."""
    manifest = finished.manifest
    described = {
        "@context": _CONTEXT,
        "@type": "sc:Dataset",
        "name": "dataset",
        "description": f"{manifest.records_out} records in the format {manifest.format}, made by dataprep.",
        "conformsTo": "http://mlcommons.org/croissant/1.0",
        "version": "1.0.0",
        "distribution": _file_sets(manifest) if is_large(manifest.files) else _files(manifest),
        "recordSet": [
            _splits(finished),
            *(_classes(number, *label_classes) for number, label_classes in enumerate(manifest.labels.items())),
            *_records(finished),
        ],
    }
    yield FILE, json.dumps(described, indent=2, ensure_ascii=False).encode() + b"\n"


def _files(manifest: Manifest) -> list[Mapping[str, Any]]:
    return [
        {
            "@type": "cr:FileObject",
            "@id": _id(file.file, number),
            "name": file.file,
            "description": f"{file.records} records of {file.split}",
            "contentUrl": f"../{file.file}",
            "contentSize": f"{file.size} B",
            "encodingFormat": _encoding(manifest),
            "sha256": file.sha256,
        }
        for number, file in enumerate(manifest.files)
    ]


def _file_sets(manifest: Manifest) -> list[Mapping[str, Any]]:
    """Returns a set of files for each split, because a list of very many files would be larger than the shards' table.

    A set is described by the common prefix of its files. A split gets no set if its files have no common prefix, or if a file of another
    split has the same prefix.
    """
    beginnings = sagemaker.beginnings(manifest)
    return [
        {
            "@type": "cr:FileSet",
            "@id": f"files/{_id(split.name, number)}",
            "name": split.name,
            "description": f"{split.records} records of {split.name} in {split.shards} files",
            "encodingFormat": _encoding(manifest),
            "includes": f"../{glob.escape(beginning)}*",
        }
        for number, split in enumerate(manifest.splits)
        if (beginning := beginnings[split.name]) and sagemaker.file_of_other_split(manifest, split.name, beginning) is None
    ]


def _encoding(manifest: Manifest) -> str:
    return "application/gzip" if manifest.compression == "gzip" else format_of(manifest.format).media_type


def _splits(finished: FinishedDataSet) -> Mapping[str, Any]:
    return {
        "@type": "cr:RecordSet",
        "@id": "splits",
        "name": "splits",
        "dataType": "cr:Split",
        "key": {"@id": "splits/name"},
        "field": [_field("splits/name", "name", "sc:Text"), _field("splits/records", "records", "sc:Integer")],
        "data": [{"splits/name": split.name, "splits/records": split.records} for split in finished.manifest.splits],
    }


def _classes(number: int, label: str, classes: list[str]) -> Mapping[str, Any]:
    place = f"classes/{_id(label, number)}"
    return {
        "@type": "cr:RecordSet",
        "@id": place,
        "name": f"classes of {label}",
        "field": [_field(f"{place}/number", "number", "sc:Integer"), _field(f"{place}/name", "name", "sc:Text")],
        "data": [{f"{place}/number": value, f"{place}/name": name} for value, name in enumerate(classes)],
    }


def _records(finished: FinishedDataSet) -> list[Mapping[str, Any]]:
    """Returns a record set for each shard. Returns an empty list if Croissant can't describe the shards' columns.

    Very many shards get no record sets either. They are listed only as sets of files, and mlcroissant can't find a set's files outside the
    description's folder. So mlcroissant would read no records.
    """
    columns, manifest = _columns(finished), finished.manifest
    if not columns or is_large(manifest.files):
        return []
    return [_record_set(_id(file.file, number), file.file, columns) for number, file in enumerate(manifest.files)]


def _record_set(file: str, name: str, columns: Sequence[Column]) -> Mapping[str, Any]:
    """Describes the records of the file with this identifier."""
    return {
        "@type": "cr:RecordSet",
        "@id": f"records/{file}",
        "name": f"records of {name}",
        "field": [_column(file, place, *column) for place, column in enumerate(columns)],
    }


def _columns(finished: FinishedDataSet) -> list[Column] | None:
    """Returns the columns of the files, or None if Croissant can't describe them."""
    place = format_of(finished.manifest.format).croissant_columns
    if place is None or finished.manifest.compression != "none":
        return None
    columns: Callable[[FinishedDataSet], list[Column] | None] = resolve_name(place)
    return columns(finished)


def feature_columns(finished: FinishedDataSet) -> list[Column]:
    """Returns one column for each feature, as in `parquet` and `jsonl`. Nested values, durations and times of day are left out, because
    Croissant has no types for them."""
    nested = finished.manifest.nested
    return [
        (feature.name, kind, bool(feature.shape))
        for feature in finished.features
        if feature.name not in nested and (kind := _type_in_tables(feature)) is not None
    ]


def csv_columns(finished: FinishedDataSet) -> list[Column] | None:
    """Returns the columns of `csv`, or None if the files have too many columns, a delimiter other than a comma, or no header."""
    options = finished.spec.output.csv
    if not options.header or options.delimiter != ",":
        return None
    columns = [(name, _type(feature), False) for feature in finished.features for name in csv_encoder.names(feature)]
    return columns if len(columns) <= _MOST_COLUMNS else None


def _type_in_tables(feature: FeatureSpec) -> str | None:
    """Returns Croissant's type for a column of Parquet or JSON Lines, or None if Croissant has no type for the values."""
    if feature.kept is None or pa.types.is_decimal(feature.kept):
        return _type(feature)
    return "sc:Date" if pa.types.is_date(feature.kept) or pa.types.is_timestamp(feature.kept) else None


def _type(feature: FeatureSpec) -> str:
    return "sc:ImageObject" if feature.name == IMAGE else _TYPES[feature.kind]


def _column(file: str, number: int, name: str, kind: str, repeated: bool) -> Mapping[str, Any]:
    source = {"fileObject": {"@id": file}, "extract": {"column": name}}
    field = _field(f"records/{file}/{_id(name, number)}", name, kind)
    return field | {"source": source} | ({"repeated": True} if repeated else {})


def _field(place: str, name: str, kind: str) -> dict[str, Any]:
    return {"@type": "cr:Field", "@id": place, "name": name, "dataType": kind}


def _id(name: str, number: int) -> str:
    """Returns an identifier: the name, or the item's number if the name contains white space, which mlcroissant refuses."""
    return str(number) if re.search(r"\s", name) else name
