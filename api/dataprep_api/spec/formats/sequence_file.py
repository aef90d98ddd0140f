"""Options of the format `sequenceFile`."""

from typing import Annotated, Literal

from pydantic import Field

from dataprep_api.spec.model import Column, Model


class SequenceFileOptions(Model):
    """Options of the format `sequenceFile`: Hadoop's files of keys and values."""

    key: Column | None = None
    """Feature that is the key, and no part of the value: text, bytes or a whole number. Default: the record's number in its split, a LongWritable."""
    value: Literal["Example", "Feature", "Record"] = "Example"
    """What the values are: `Example` a BytesWritable with a tf.train.Example; `Feature` the only feature beside the key as a Writable of its own type; `Record` DL4J's RecordWritable, or SequenceRecordWritable when a feature is a sequence."""
    compression: Literal["None", "Record", "Block"] = "None"
    """What is compressed with zlib (Hadoop's DefaultCodec): nothing, each value, or blocks of keys and of values."""
    compression_level: Annotated[int, Field(ge=1, le=9)] = 6
    """Level of zlib."""
