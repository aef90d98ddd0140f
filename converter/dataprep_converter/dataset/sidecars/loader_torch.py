"""`load_torch.py`: PyTorch datasets.

The datasets read TFRecord files in order or, if the files have indexes, in any order. They read tables with pyarrow.
"""

from collections.abc import Sequence
from string import Template
from typing import Any, Final

import pyarrow as pa

from dataprep_converter.dataset.sidecars import FinishedDataSet, loader_source
from dataprep_converter.records.feature import FeatureSpec

_HEAD: Final = '''\
"""Loads this data set with PyTorch: `Records("train")` is a dataset, `python load_torch.py [FOLDER]` counts its records.

$needs
"""
'''
_FROM_EXAMPLE: Final = '''\
def tensor(feature, dtype, shape):
    """The values of one feature as a tensor; bytes and text stay bytes.$null"""
    kind = feature.WhichOneof("kind")
$checked    found = getattr(feature, kind).value if kind else []
    if dtype == "bytes":
        return list(found) if shape else b"".join(found)
    values = np.frombuffer(found[0], dtype).copy() if kind == "bytes_list" else np.array(found, dtype)
    return torch.from_numpy(values.reshape(shape))


def parse(serialized):
    """One record as a dictionary of tensors."""
$parse
'''
_JSON_TYPES: Final = {"int64": "int64", "float": "float64", "bytes": "string"}
_NULL: Final = " A null is NaN among floats, and None otherwise."
_CHECKED: Final = """\
    if kind is None and -1 not in shape:
        return torch.from_numpy(np.full(shape, np.nan, dtype)) if dtype.startswith("float") else None
"""
_MAIN: Final = '''\
def main():
    """Counts the records of every split."""
    for split, expected in SPLITS.items():
        found = sum(1 for _ in torch.utils.data.DataLoader(Records(split, *sys.argv[1:2]), batch_size=None))
        print(f"{split}: {found} of {expected} records")


if __name__ == "__main__":
    main()
'''
_INDEXED: Final = Template(
    _HEAD
    + """
import sys
from pathlib import Path

import numpy as np
import torch
from tfrecord import example_pb2

FOLDER = Path(__file__).resolve().parents[2]
$splits$classes$features

$files

"""
    + _FROM_EXAMPLE
    + '''

class Records(torch.utils.data.Dataset):
    """The split's records by number, so that a DataLoader can shuffle them and share them between its workers."""

    def __init__(self, split, folder=FOLDER):
        self.files = files(split, folder)
        indexes = [Path(folder, "_dataprep/index", f"{Path(file).relative_to(folder).as_posix()}.idx") for file in self.files]
        self.places = [np.fromstring(index.read_text(), np.int64, sep=" ").reshape(-1, 2) for index in indexes]
        self.ends = np.cumsum([len(places) for places in self.places])

    def __len__(self):
        return int(self.ends[-1]) if len(self.ends) else 0

    def __getitem__(self, number):
        if not 0 <= number < len(self):
            raise IndexError(number)
        file = int(np.searchsorted(self.ends, number, side="right"))
        offset, size = self.places[file][number - self.ends[file]]
        with open(self.files[file], "rb") as shard:
            shard.seek(offset + 12)  # a record: 8 bytes length, 4 bytes CRC, data, 4 bytes CRC
            return parse(shard.read(size - 16))


'''
    + _MAIN
)
_IN_ORDER: Final = Template(
    _HEAD
    + """
import gzip
import struct
import sys
from pathlib import Path

import numpy as np
import torch
from tfrecord import example_pb2

FOLDER = Path(__file__).resolve().parents[2]
$splits$classes$features

$files

"""
    + _FROM_EXAMPLE
    + '''

class Records(torch.utils.data.IterableDataset):
    """The split's records in their order; the workers of a DataLoader share the shards."""

    def __init__(self, split, folder=FOLDER):
        self.files = files(split, folder)

    def __iter__(self):
        worker = torch.utils.data.get_worker_info()
        for file in self.files[worker.id :: worker.num_workers] if worker else self.files:
            with $open(file, "rb") as shard:
                while header := shard.read(12):  # a record: 8 bytes length, 4 bytes CRC, data, 4 bytes CRC
                    yield parse(shard.read(struct.unpack("<Q", header[:8])[0]))
                    shard.read(4)


'''
    + _MAIN
)
_AS_NUMBERS: Final = '''
def as_numbers(batch):
    """The batch with numbers in place of times and decimals."""
    for name, kind in NUMBERS.items():
        batch = batch.set_column(batch.schema.get_field_index(name), name, batch.column(name).cast(kind))
    return batch

'''
_TABLE: Final = Template(
    _HEAD
    + '''
import sys
from pathlib import Path

import pyarrow.dataset
import torch

FOLDER = Path(__file__).resolve().parents[2]
$splits$classes$columns

$files

$numbers
class Records(torch.utils.data.IterableDataset):
    """The split's records in their order, as dictionaries; the workers of a DataLoader share the shards."""

    def __init__(self, split, folder=FOLDER):
        self.files = files(split, folder)

    def __iter__(self):
        worker = torch.utils.data.get_worker_info()
        for file in self.files[worker.id :: worker.num_workers] if worker else self.files:
            for batch in pyarrow.dataset.dataset(file, format=$format$schema).to_batches():
                yield from $batch.to_pylist()


'''
    + _MAIN
)


def parquet(finished: FinishedDataSet) -> str:
    """Returns the file for `parquet`."""
    return _typed_table(finished, "parquet")


def arrow(finished: FinishedDataSet) -> str:
    """Returns the file for `arrow`."""
    return _typed_table(finished, "ipc")


def jsonl(finished: FinishedDataSet) -> str:
    """Returns the file for `jsonl`."""
    if not finished.nullable:
        return _table(finished, "json")
    columns = {feature.name: _pyarrow_type(feature) for feature in finished.features}
    described = loader_source.dictionary("COLUMNS", columns, "Types of the columns, which pyarrow can't infer from nulls.")
    return _table(finished, "json", columns=described, schema=", schema=pyarrow.schema(COLUMNS)")


def _typed_table(finished: FinishedDataSet, format_: str) -> str:
    """Returns `load_torch.py` for a format whose columns have types.

    PyTorch has no types for times and decimals, so these become numbers.
    """
    numbers = {feature.name: _number_type(feature.kept) for feature in finished.features if feature.kept is not None}
    if not numbers:
        return _table(finished, format_)
    described = loader_source.dictionary("NUMBERS", numbers, "Types of the numbers that stand for times, in their units, and for decimals.")
    return _table(finished, format_, columns=described, numbers=_AS_NUMBERS, batch="as_numbers(batch)")


def _number_type(kind: Any) -> str:
    """Returns Python source for the numeric type to which pyarrow casts times or decimals of type `kind`."""
    return "pyarrow.float64()" if pa.types.is_decimal(kind) else f"pyarrow.int{kind.bit_width}()"


def _table(finished: FinishedDataSet, format_: str, *, schema: str = "", batch: str = "batch", **parts: str) -> str:
    """Returns `load_torch.py` for a format that pyarrow reads. `format_` is pyarrow's name for the format."""
    parts = {"columns": "", "numbers": "", "needs": "Needs torch and pyarrow."} | parts | _common(finished)
    return loader_source.filled(_TABLE, format=f'"{format_}"', schema=schema, batch=batch, **parts)


def _pyarrow_type(feature: FeatureSpec) -> str:
    """Returns Python source for the type of a feature's column in JSON Lines."""
    leaf = "bool_" if feature.dtype == "bool" else _JSON_TYPES[feature.kind]
    return "pyarrow.list_(" * len(feature.shape) + f"pyarrow.{leaf}()" + ")" * len(feature.shape)


def examples(finished: FinishedDataSet) -> str:
    """Returns the file for `tfrecord`."""
    is_indexed = bool(finished.manifest.files) and not finished.unindexed
    has_nulls = bool(finished.nullable)
    parts = _common(finished) | _parsing(finished.features) | {"null": _NULL * has_nulls, "checked": _CHECKED * has_nulls}
    needs = "Needs torch, numpy and tfrecord (its messages of protobuf alone)."
    if is_indexed:
        return loader_source.filled(_INDEXED, needs=needs, **parts)
    return loader_source.filled(_IN_ORDER, needs=needs, open="gzip.open" if finished.manifest.compression == "gzip" else "open", **parts)


def _common(finished: FinishedDataSet) -> dict[str, str]:
    """Returns the parts that are the same in `load_torch.py` for all formats."""
    return {
        "splits": loader_source.splits(finished),
        "classes": loader_source.classes(finished),
        "files": loader_source.files_function("Python"),
    }


def _parsing(features: Sequence[FeatureSpec]) -> dict[str, str]:
    """Returns Python source for the tables of features and for the body of the function `parse`."""
    if any(feature.record for feature in features):
        return {"features": "", "parse": "    return serialized  # whole records, as the source had them\n"}
    alone = {feature.name: repr((feature.dtype, feature.shape)) for feature in features if not feature.sequence}
    steps = {feature.name: repr((feature.dtype, feature.shape[1:])) for feature in features if feature.sequence}
    tables = loader_source.dictionary("FEATURES", alone, "Type and shape of each feature.")
    if not steps:
        body = (
            "    found = example_pb2.Example.FromString(serialized).features.feature\n"
            "    return {name: tensor(found[name], *kind) for name, kind in FEATURES.items()}\n"
        )
        return {"features": tables, "parse": body}
    tables += loader_source.dictionary("SEQUENCES", steps, "Type and shape of each sequence's steps.")
    body = (
        "    example = example_pb2.SequenceExample.FromString(serialized)\n"
        "    record = {name: tensor(example.context.feature[name], *kind) for name, kind in FEATURES.items()}\n"
        "    lists = example.feature_lists.feature_list\n"
        "    return record | {name: [tensor(step, *kind) for step in lists[name].feature] for name, kind in SEQUENCES.items()}\n"
    )
    return {"features": tables, "parse": body}
