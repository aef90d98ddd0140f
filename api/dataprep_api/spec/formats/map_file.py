"""Options of the format `mapFile`."""

from typing import Annotated, Literal

from pydantic import Field

from dataprep_api.spec.model import Column, Model


class MapFileOptions(Model):
    """Options of the format `mapFile`: sorted sequence files with an index, each in a folder of its own."""

    key: Column | None = None
    """Feature that is the key, and no part of the value: text, bytes or a whole number, by which the records must be sorted. Default: the record's number in its split, a LongWritable."""
    value: Literal["Example", "Feature", "Record"] = "Record"
    """What the values are: `Example` a BytesWritable with a tf.train.Example; `Feature` the only feature beside the key as a Writable of its own type; `Record` DL4J's RecordWritable, or SequenceRecordWritable when a feature is a sequence."""
    compression: Literal["None", "Record", "Block"] = "None"
    """What is compressed with zlib (Hadoop's DefaultCodec): nothing, each value, or blocks of keys and of values."""
    compression_level: Annotated[int, Field(ge=1, le=9)] = 6
    """Level of zlib."""
    index_interval: Annotated[int, Field(ge=1, le=1_000_000)] | None = None
    """Records for each entry of the index. Default: 1 for `value: Record`, as DL4J writes them, else 128, as Hadoop does."""
