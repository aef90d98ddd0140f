"""Options of the format `mapFile`."""

from typing import Annotated, Literal

from pydantic import Field

from dataprep_api.spec.model import Column, Model


class MapFileOptions(Model):
    """Options of the format `mapFile`: sorted sequence files with an index, each in a folder of its own."""

    key: Column | None = None
    """Key feature: text, bytes or integer. It is no part of the value, and the records must be sorted by it. Default: the number of the record in its split, a LongWritable."""
    value: Literal["Example", "Feature", "Record"] = "Record"
    """What the values are. `Example`: a BytesWritable with a tf.train.Example. `Feature`: the only feature beside the key, as a Writable of its own type. `Record`: DL4J's RecordWritable, or SequenceRecordWritable when a feature is a sequence."""
    compression: Literal["None", "Record", "Block"] = "None"
    """What zlib compresses: none, records, blocks. Hadoop's DefaultCodec; blocks hold keys and values separately."""
    compression_level: Annotated[int, Field(ge=1, le=9)] = 6
    """Zlib level."""
    index_interval: Annotated[int, Field(ge=1, le=1_000_000)] | None = None
    """Records per index entry. Default: 1 for `value: Record`, as DL4J does, otherwise 128, as Hadoop does."""
