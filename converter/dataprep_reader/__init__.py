"""Reads finished data sets: for training loops in any framework, for tests and for people. It is a thin layer on top of the converter's
stores and decoders.

    reader = dataprep_reader.open("hdfs://namenode:9000/mnist-tfrecord", split="train", batch_size=100, epochs=2, shuffle=7)
    for batch in reader:                     # 1,100 batches of 100
        batch["image_raw"], batch["label"]   # numpy: uint8 (100, 28, 28), int64 (100,)

For PyTorch, TensorFlow and JAX, see `dataprep_reader.torch`, `dataprep_reader.tensorflow` and `dataprep_reader.grain`. docs/reading.md
describes which sources `open` accepts, the arrays' shapes, and how records are shuffled.
"""

import os
from collections.abc import Sequence
from typing import Literal

from dataprep_converter.inputs import job_file
from dataprep_converter.inputs.access import Access
from dataprep_converter.inputs.store_settings import access_of
from dataprep_reader.arrays import Ragged
from dataprep_reader.dataset import AnyPath, Source, find
from dataprep_reader.options import Options
from dataprep_reader.reader import Feature, Reader

__all__ = ["Feature", "Ragged", "Reader", "open"]


def open(  # noqa: A001 - named like gzip.open and tarfile.open
    source: Source,
    *,
    split: str | Sequence[str] | None = None,
    batch_size: int = 32,
    epochs: int | None = 1,
    shuffle: int | None = None,
    shuffle_window: int | None = None,
    drop_remainder: bool = False,
    rank: int = 0,
    world_size: int = 1,
    columns: Sequence[str] | None = None,
    masks: Sequence[str] = (),
    as_: Literal["numpy", "arrow"] = "numpy",
    threads: int = 2,
    prefetch: int = 2,
    job: AnyPath | None = None,
) -> Reader:
    """Returns a reader of a finished data set, on any store. This call reads only the manifest, and no data.

    `source` is the data set's folder, a list of its shards, a list of paths (`<folder>/_dataprep/paths/train.txt`) or its manifest. `split`
    is required if a folder or manifest has several splits. If `split` has several names, these splits are read one after another.

    batch_size      records per batch; batches never span two epochs, so the last batch of an epoch can be smaller
    epochs          number of epochs in one `for` loop; None means that the loop never ends
    shuffle         a seed: the order of each epoch depends on the seed and the epoch's number; None keeps the stored order
    shuffle_window  number of records that are shuffled together; by default the records in about 64 MiB
    drop_remainder  leaves out an incomplete batch; with several ranks, all ranks get the same number of records
    rank, world_size  the number of this process, and the number of processes that share each epoch
    columns         the features to read, in this order; None means all
    masks           features that get an array NAME_missing, which is true where a value is null; there, the feature has 0 or False
    as_             "numpy": a dictionary of arrays by feature; "arrow": a pyarrow.RecordBatch
    threads         number of shard parts that are read at the same time
    prefetch        number of batches that are made in advance, while the caller computes; 0 means none
    job             a job's YAML file whose spec.stores describes the stores; without it, the environment describes them

    An array has its feature's type. Its shape is the batch's size followed by the feature's shape: int64 (100,), uint8 (100, 28, 28).
    Bytes and text are arrays of objects (bytes or str; None for a null). Sequences, and lists of any length, are `Ragged`. A missing float
    is NaN. If a feature of whole numbers or booleans has nulls in a batch, its array is a `numpy.ma.MaskedArray`, unless `masks` contains
    the feature.

    Raises NotFound if there is no finished data set (no `_SUCCESS`), BadData if the data set doesn't match its manifest, and ValueError for
    invalid arguments. While reading, the reader raises BadData if a file is damaged; the message names the file. The reader also raises the
    stores' errors (`dataprep_converter.core.errors`).
    """
    options = Options(
        batch_size=batch_size,
        epochs=epochs,
        shuffle=shuffle,
        shuffle_window=shuffle_window,
        drop_remainder=drop_remainder,
        rank=rank,
        world_size=world_size,
        threads=threads,
        prefetch=prefetch,
        as_=as_,
    )
    access = Access() if job is None else access_of(job_file.load(os.fspath(job)))
    data_set = find(source, split=split, access=access)
    return Reader(data_set, columns=columns, masks=masks, settings=access.settings, options=options)
