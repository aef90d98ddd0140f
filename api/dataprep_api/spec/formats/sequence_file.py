"""Options for the format `sequenceFile`."""

from typing import Annotated, Literal

from pydantic import Field

from dataprep_api.spec.model import Column, Model


class SequenceFileOptions(Model):
    """Options for `sequenceFile`: Hadoop's files of key-value pairs."""

    key: Column | None = None
    """Key feature: text, bytes or integer. The key isn't part of the value. Default: the record's number in its split, as a LongWritable."""
    value: Literal["Example", "Feature", "Record"] = "Example"
    """Form of the values. `Example`: a BytesWritable with a tf.train.Example. `Feature`: the only feature besides the key, as a Writable of its type. `Record`: DL4J's RecordWritable, or SequenceRecordWritable if a feature is a sequence."""
    compression: Literal["None", "Record", "Block"] = "None"
    """Unit of compression. The codec is Hadoop's DefaultCodec (zlib). Blocks store keys and values separately."""
    compression_level: Annotated[int, Field(ge=1, le=9)] = 6
    """Zlib level."""
