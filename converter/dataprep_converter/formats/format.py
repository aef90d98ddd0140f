"""What the converter and the reader know of a format, beside what it does: its encoder, its decoder and its readers' needs.

Rules for the spec and for names of files, which the operator needs too, are in `dataprep_api/formats.py`.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import Enum, auto
from typing import Literal


class ReadUnit(Enum):
    """The smallest part of a file that the reader can read without the rest."""

    FILE = auto()
    """All of it, from the beginning."""
    INDEXED_RECORDS = auto()
    """A run of records, where an index says where each lies; else the file."""
    ROW_GROUPS = auto()
    RECORD_BATCHES = auto()
    ARRAYS = auto()
    """All of it, as arrays that can be sliced."""


@dataclass(frozen=True)
class IndexLine:
    """A line of a record index: two columns and their separator."""

    first: Literal["number", "offset", "size"]
    between: str
    second: Literal["number", "offset", "size"]


@dataclass(frozen=True)
class Format:
    """One format. Functions and classes are named as `module:name`, and imported when they are used."""

    encoder: str
    decoder: str
    holds_examples: bool = False
    """Whether a record is a serialised tf.train.Example or SequenceExample: many plain ones are parsed at once."""
    index_line: IndexLine | None = None
    """None for a format whose records need no index, or have no place of their own."""
    read_unit: ReadUnit = ReadUnit.FILE
    script_extensions: tuple[str, ...] = ()
    """Extensions of files whose records can be read without knowing what is in them: of those that a script has made, nothing else is known."""
    media_type: str = "application/octet-stream"
    is_sagemaker_input: bool = False
    """Whether a SageMaker training job knows the media type as its ContentType."""
    croissant_columns: str | None = None
    """Function of `Finished` that names the files' columns for Croissant, or returns None where it can't."""
    sidecars: tuple[str, ...] = ()
    """Kinds of `dataset/sidecars` that only data sets of this format have."""
    loaders: Mapping[str, str] = field(default_factory=dict)
    """Framework → function of `Finished` that makes the text of its `load_<framework>.py`."""
    programs: Mapping[str, str] = field(default_factory=dict)
    """File → function of `Finished` that makes the text of a loader in another language."""
