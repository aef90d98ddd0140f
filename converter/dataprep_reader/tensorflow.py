"""For TensorFlow: a reader as a tf.data.Dataset of batches, from stores that TensorFlow opens nothing of. The only module here that imports TensorFlow.

import dataprep_reader
from dataprep_reader.tensorflow import batches

reader = dataprep_reader.open("hdfs://namenode:9000/mnist-tfrecord", split="train", batch_size=100, shuffle=7)
for batch in batches(reader):
    batch["image_raw"], batch["label"]   # tf.uint8 (100, 28, 28), tf.int64 (100,)
"""

from collections.abc import Iterator
from typing import Any

from dataprep_reader.arrays import Ragged
from dataprep_reader.reader import Feature, Reader

try:
    import tensorflow as tf
except ModuleNotFoundError as exc:
    raise ModuleNotFoundError("dataprep_reader.tensorflow needs TensorFlow: pip install tensorflow") from exc


def batches(reader: Reader) -> Any:
    """One pass of the reader as a tf.data.Dataset: dictionaries of tensors, RaggedTensors for lists of any length, tf.string for text and bytes.

    It is read ahead already, and shuffled as the reader says. Each iteration of the dataset is a pass of its own.
    """
    if not reader.yields_numpy:
        raise ValueError("A reader for TensorFlow yields numpy: open it without as_='arrow'.")

    def made() -> Iterator[dict[str, Any]]:
        for batch in reader:
            yield {name: _tensor(column) for name, column in batch.items()}

    return tf.data.Dataset.from_generator(made, output_signature={name: _signature(each) for name, each in reader.features.items()})


def _signature(feature: Feature) -> Any:
    dtype = tf.string if feature.dtype in ("bytes", "text") else tf.as_dtype(feature.dtype)
    shape = [None, *(None if size == -1 else size for size in feature.shape)]
    ragged = feature.shape.count(-1)
    return tf.RaggedTensorSpec(shape, dtype, ragged) if ragged else tf.TensorSpec(shape, dtype)


def _tensor(column: Any) -> Any:
    if isinstance(column, Ragged):
        return tf.RaggedTensor.from_row_splits(_tensor(column.values), column.offsets)
    return tf.constant(column.tolist() if column.size else [], tf.string, column.shape) if column.dtype == object else column
