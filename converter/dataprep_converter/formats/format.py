"""Static facts about each format: its encoder, its decoder, and the requirements of the programs that read its files.

The rules for specs and file names, which the operator also needs, are in `dataprep_api/formats.py`.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import Enum, auto
from typing import Literal


class ReadUnit(Enum):
    """The smallest part of a file that can be read without the rest of the file."""

    FILE = auto()
    """The complete file, which must be read from its beginning."""
    INDEXED_RECORDS = auto()
    """A run of consecutive records if an index gives their offsets; otherwise the complete file."""
    ROW_GROUPS = auto()
    RECORD_BATCHES = auto()
    ARRAYS = auto()
    """The complete file, as arrays that can be sliced."""


@dataclass(frozen=True)
class IndexLine:
    """A line of a record index: two columns and their separator."""

    first: Literal["number", "offset", "size"]
    between: str
    second: Literal["number", "offset", "size"]


@dataclass(frozen=True)
class Format:
    """Describes one format. Functions and classes are given as `module:name` and are imported when they are first used."""

    encoder: str
    decoder: str
    holds_examples: bool = False
    """Whether a record is a serialised tf.train.Example or SequenceExample. Many plain Examples can be parsed in one call."""
    index_line: IndexLine | None = None
    """The layout of the record index. None for a format whose records need no index, or have no separate offsets."""
    read_unit: ReadUnit = ReadUnit.FILE
    script_extensions: tuple[str, ...] = ()
    """A script's output file with one of these extensions is read record by record. Only the extension shows which format such a file
    has."""
    media_type: str = "application/octet-stream"
    is_sagemaker_input: bool = False
    """Whether a SageMaker training job accepts the media type as its ContentType."""
    croissant_columns: str | None = None
    """A function that takes a `FinishedDataSet` and returns the names of the files' columns for Croissant, or None if there are none."""
    sidecars: tuple[str, ...] = ()
    """The kinds of side files, from `dataset/sidecars`, that only data sets of this format have."""
    loaders: Mapping[str, str] = field(default_factory=dict)
    """Maps each framework to a function that takes a `FinishedDataSet` and returns the text of `load_<framework>.py`."""
    programs: Mapping[str, str] = field(default_factory=dict)
    """Maps a file name to a function that takes a `FinishedDataSet` and returns the text of a loader in a language other than Python."""
