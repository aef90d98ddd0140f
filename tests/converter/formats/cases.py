"""The cases for tests that cover all formats. To include a new format in all of these tests, add an entry here."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final

ROWS: Final[Mapping[str, Any]] = {
    "features": [{"name": "v", "columns": ["a", "b", "c"]}, {"name": "n"}, {"name": "word"}],
    "labels": [{"name": "y"}],
}
"""A spec with a vector, a number, a text and a class."""
NUMBERS: Final[Mapping[str, Any]] = {"features": [{"name": "v", "columns": ["a", "b", "c"]}, {"name": "n"}], "labels": [{"name": "y"}]}
VECTORS: Final[Mapping[str, Any]] = {"features": [{"name": "v", "columns": ["a", "b", "c"]}], "labels": [{"name": "y"}]}
FILES: Final[Mapping[str, Any]] = {"source": "files", "features": [{"name": "content"}, {"name": "path"}]}

LISTS: Final = ("numbers", "integers")
ARRAYS: Final = ("small", "whole", "single", "double")
EVERYTHING: Final = (*ARRAYS, "content", "text", *LISTS)
_EXAMPLE: Final = ("small", "whole", "single", "content", "text", *LISTS)


@dataclass(frozen=True)
class Case:
    """The facts about a format that a test needs to make a data set."""

    spec: Mapping[str, Any]
    """Features and labels that the format can store: ROWS, unless the format refuses them."""
    columns: tuple[str, ...]
    """The columns of `test_extremes.COLUMNS` that the format can store. Other tests cover the columns that it refuses."""
    options: Mapping[str, Any] = field(default_factory=dict)
    """The options that the format needs to accept all of these columns."""
    example: str | None = None
    """The name of an example in this format, `examples/<name>-local.yaml`. If the format can store ROWS, no example is needed."""


CASES: Final[Mapping[str, Case]] = {
    "tfrecord": Case(ROWS, _EXAMPLE, example="csv-sequences"),
    "recordioProtobuf": Case(NUMBERS, ("small", "single", "double", "content", "text", "numbers")),
    "sequenceFile": Case(ROWS, _EXAMPLE, example="sequence-file"),
    "mapFile": Case(ROWS, (*ARRAYS, "text"), example="map-file"),
    "parquet": Case(ROWS, EVERYTHING, example="images-parquet"),
    "arrow": Case(ROWS, EVERYTHING, example="csv-sequences-arrow"),
    "jsonl": Case(ROWS, EVERYTHING, options={"nonFinite": "Literal"}, example="jsonl-jsonl"),
    "csv": Case(ROWS, (*ARRAYS, "text"), example="csv-xgboost"),
    "npz": Case(NUMBERS, ARRAYS, example="npz"),
    "fileBatch": Case(FILES, ("content", "path"), example="file-batch"),
    "dl4jDataset": Case(VECTORS, ARRAYS, options={"holds": "MultiDataSet"}, example="dl4j-dataset"),
    "webdataset": Case(ROWS, EVERYTHING, example="images-webdataset"),
    "mds": Case(ROWS, EVERYTHING, example="images-mds"),
    "arrayRecord": Case(ROWS, _EXAMPLE, example="parquet-array-record"),
}
OF_ROWS: Final = [name for name, case in CASES.items() if case.spec is ROWS]
"""The formats that can store the rows of a table without loss."""
