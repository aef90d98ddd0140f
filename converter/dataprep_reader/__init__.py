"""Reading finished data sets: for training loops in any framework, for tests, for people. A thin layer on the converter's stores and decoders.

    import dataprep_reader

    reader = dataprep_reader.open("hdfs://namenode:9000/mnist-tfrecord", split="train", batch_size=100, epochs=2, shuffle=7)
    for batch in reader:                     # 1,100 batches of 100
        batch["image_raw"], batch["label"]   # numpy: uint8 (100, 28, 28), int64 (100,)

For PyTorch: `dataprep_reader.torch`. Where `open` finds what, shapes, and what kind of shuffle it is: docs/reading.md.
"""

import os
from collections.abc import Sequence
from typing import Literal

from dataprep_converter.cli.arguments import access_of
from dataprep_converter.inputs import job_file
from dataprep_converter.inputs.access import Access
from dataprep_reader.arrays import Ragged
from dataprep_reader.dataset import AnyPath, Source, find
from dataprep_reader.reader import Feature, Options, Reader

__all__ = ["Feature", "Ragged", "Reader", "open"]


def open(  # noqa: A001 - as gzip.open and tarfile.open
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
    as_: Literal["numpy", "arrow"] = "numpy",
    threads: int = 2,
    prefetch: int = 2,
    job: AnyPath | None = None,
) -> Reader:
    """A reader of a finished data set, on any store. Reads the manifest, and no data yet.

    `source` is its folder, a list of its shards, a list of paths (`<folder>/_dataprep/paths/train.txt`) or its manifest. `split` must be said where a folder
    or manifest has several; several names are read one after another.

    batch_size      records of a batch; batches don't reach into the next epoch, so its last one may be smaller
    epochs          how many one `for` goes through; None has no end
    shuffle         a seed: every epoch has an order of its own, which seed and epoch tell; None reads in the stored order
    shuffle_window  records that are shuffled together; by default those of about 64 MiB
    drop_remainder  leaves out an incomplete batch; with several ranks, all have equally many
    rank, world_size  of several processes that share each epoch: which one this is, of how many
    columns         features that are wanted, in this order; None for all
    as_             "numpy": a dictionary of arrays by feature; "arrow": a pyarrow.RecordBatch
    threads         parts of shards that are read at the same time
    prefetch        batches that are made ahead, while the caller computes; 0 for none
    job             a job's YAML file whose spec.stores says how stores are reached; else the environment does

    An array has the type and, behind the batch's dimension, the shape of its feature: int64 (100,), uint8 (100, 28, 28). Bytes and text are arrays of objects
    (bytes, str; None without a value), lists of any length and sequences are `Ragged`. A missing float is NaN.

    Raises NotFound where there is no finished data set (no `_SUCCESS`), BadData for one that is not as its manifest says, ValueError for
    arguments that don't fit; while reading, BadData naming the file for damage, and the stores' errors (`dataprep_converter.core.errors`).
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
    found = find(source, split=split, access=access)
    return Reader(found, columns=columns, settings=access.settings, options=options)
