"""For TensorFlow: turns a reader into a tf.data.Dataset of batches, even from stores that TensorFlow itself can't open.

This is the only module here that imports TensorFlow.

reader = dataprep_reader.open("hdfs://namenode:9000/mnist-tfrecord", split="train", batch_size=100, shuffle=7)
for batch in batches(reader):
    batch["image_raw"], batch["label"]   # tf.uint8 (100, 28, 28), tf.int64 (100,)
"""

from collections.abc import Iterator
from typing import Any

from dataprep_reader.arrays import Ragged, check_for_tensors
from dataprep_reader.reader import Feature, Reader

try:
    import tensorflow as tf
except ModuleNotFoundError as exc:
    raise ModuleNotFoundError("dataprep_reader.tensorflow needs TensorFlow: pip install tensorflow") from exc


def batches(reader: Reader) -> Any:
    """Returns one pass of the reader as a tf.data.Dataset.

    The dataset's elements are dictionaries of tensors. Lists of any length become RaggedTensors, and text and bytes become tf.string. The
    reader itself reads ahead and shuffles, so the dataset doesn't have to. With `drop_remainder`, the shapes include the batch size. Nulls
    need a mask (`masks=` of `open`); a null text then becomes an empty tf.string. Each iteration of the dataset is a new pass.
    """
    if not reader.yields_numpy:
        raise ValueError("A reader for TensorFlow must yield numpy arrays: open it without as_='arrow'.")

    def generate() -> Iterator[dict[str, Any]]:
        for batch in reader:
            check_for_tensors(batch, masks=reader.masks, holds_none=False)
            yield {name: _tensor(column) for name, column in batch.items()}

    signature = {name: _signature(feature, reader.fixed_batch_size) for name, feature in reader.features.items()}
    return tf.data.Dataset.from_generator(generate, output_signature=signature)


def _signature(feature: Feature, batch_size: int | None) -> Any:
    dtype = tf.string if feature.dtype in ("bytes", "text") else tf.as_dtype(feature.dtype)
    shape = [batch_size, *(None if size == -1 else size for size in feature.shape)]
    ragged = feature.shape.count(-1)
    return tf.RaggedTensorSpec(shape, dtype, ragged) if ragged else tf.TensorSpec(shape, dtype)


def _tensor(column: Any) -> Any:
    if isinstance(column, Ragged):
        return tf.RaggedTensor.from_row_splits(_tensor(column.values), column.offsets)
    if column.dtype != object:
        return column
    texts = ["" if text is None else text for text in column.reshape(-1).tolist()]
    return tf.constant(texts, tf.string, column.shape)
