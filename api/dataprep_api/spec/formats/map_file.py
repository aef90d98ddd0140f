"""Options for the format `mapFile`."""

from typing import Annotated, Literal

from pydantic import Field

from dataprep_api.spec.model import Column, Model


class MapFileOptions(Model):
    """Options for `mapFile`: folders, each with a sorted sequence file and its index."""

    key: Column | None = None
    """Key feature: text, bytes or integer. The key isn't part of the value, and the records must be sorted by the key. Default: the record's number in its split, as a LongWritable."""
    value: Literal["Example", "Feature", "Record"] = "Record"
    """Form of the values. `Example`: a BytesWritable with a tf.train.Example. `Feature`: the only feature besides the key, as a Writable of its type. `Record`: DL4J's RecordWritable, or SequenceRecordWritable if a feature is a sequence."""
    compression: Literal["None", "Record", "Block"] = "None"
    """Unit of compression. The codec is Hadoop's DefaultCodec (zlib). Blocks store keys and values separately."""
    compression_level: Annotated[int, Field(ge=1, le=9)] = 6
    """Zlib level."""
    index_interval: Annotated[int, Field(ge=1, le=1_000_000)] | None = None
    """Records per index entry. Default: 1 for `value: Record`, as in DL4J, otherwise 128, as in Hadoop."""
