"""`load_tensorflow.py`: reads TFRecord files with tf.data."""

import math
from string import Template
from typing import Final

from dataprep_converter.dataset.sidecars import FinishedDataSet, loader_source
from dataprep_converter.dataset.sidecars.tfds import IMAGE
from dataprep_converter.records.feature import FeatureSpec

_LOADER: Final = Template('''\
"""Loads this data set with tf.data: `load("train")`, or `python load_tensorflow.py [FOLDER]` to count its records."""

import sys
from pathlib import Path

import tensorflow as tf

FOLDER = Path(__file__).resolve().parents[2]
$splits$classes$features

$files

def parse(serialized):
    """One record as a dictionary of tensors."""
$parse    return record


def load(split, folder=FOLDER):
    """The split's records in their order; add shuffle, batch and prefetch as you like."""
    records = tf.data.TFRecordDataset(files(split, folder), compression_type="$compression")
    return records.map(parse, num_parallel_calls=tf.data.AUTOTUNE)


def main():
    """Counts the records of every split."""
    for split, expected in SPLITS.items():
        found = sum(1 for _ in load(split, *sys.argv[1:2]))
        print(f"{split}: {found} of {expected} records")


if __name__ == "__main__":
    main()
''')
_STORED: Final = "How each feature is stored."
_NULL: Final = " A null is NaN in a feature of floats; any other feature with nulls is a vector, which a null leaves empty."
_TYPES: Final = {"int64": "tf.int64", "float": "tf.float32", "bytes": "tf.string"}
_UNSIGNED: Final = {"uint32": "int32"}
"""Maps each type that `tf.io.decode_raw` doesn't support to a supported type of the same width."""


def text(finished: FinishedDataSet) -> str:
    """Returns the file."""
    nullable = finished.nullable
    alone = [feature for feature in finished.features if not feature.sequence]
    steps = [feature for feature in finished.features if feature.sequence]
    described = loader_source.dictionary(
        "FEATURES", {f.name: _describe(f, f.name in nullable) for f in alone}, _STORED + _NULL * bool(nullable)
    )
    if steps:
        described += loader_source.dictionary(
            "SEQUENCES", {f.name: _describe_steps(f) for f in steps}, "How the steps of each sequence are stored."
        )
    if any(feature.record for feature in finished.features):
        described, body = "", "    record = serialized  # whole records, as the source had them\n"
    elif steps:
        body = "    context, sequences = tf.io.parse_single_sequence_example(serialized, FEATURES, SEQUENCES)\n    record = context | sequences\n"
    else:
        body = "    record = tf.io.parse_single_example(serialized, FEATURES)\n"
    return loader_source.filled(
        _LOADER,
        splits=loader_source.splits(finished),
        classes=loader_source.classes(finished),
        features=described,
        files=loader_source.files_function("TensorFlow"),
        parse=body
        + "".join(_decode_lines(feature) for feature in finished.features if not feature.record and feature.name not in nullable),
        compression="GZIP" if finished.manifest.compression == "gzip" else "",
    )


def _describe(feature: FeatureSpec, has_nulls: bool) -> str:
    kind = _TYPES[feature.kind]
    if feature.raw:
        return "tf.io.FixedLenFeature([], tf.string)"
    if has_nulls and feature.kind == "float" and -1 not in feature.shape:
        return f'tf.io.FixedLenFeature({list(feature.shape)}, {kind}, default_value=[float("nan")] * {math.prod(feature.shape)})'
    if has_nulls:
        return f"tf.io.RaggedFeature({kind})"
    return f"tf.io.RaggedFeature({kind})" if feature.shape == (-1,) else f"tf.io.FixedLenFeature({list(feature.shape)}, {kind})"


def _describe_steps(feature: FeatureSpec) -> str:
    kind, step = _TYPES[feature.kind], feature.shape[1:]
    if feature.raw:
        return "tf.io.FixedLenSequenceFeature([], tf.string)"
    return f"tf.io.RaggedFeature({kind})" if step == (-1,) else f"tf.io.FixedLenSequenceFeature({list(step)}, {kind})"


def _decode_lines(feature: FeatureSpec) -> str:
    """For a feature that is stored as bytes, returns the line that converts the bytes to a tensor. Otherwise returns the empty string."""
    value = f"record[{loader_source.quoted(feature.name)}]"
    if feature.raw:
        decoded = f"tf.io.decode_raw({value}, tf.{_UNSIGNED.get(feature.dtype, feature.dtype)})"
        if feature.dtype in _UNSIGNED:
            decoded = f"tf.bitcast({decoded}, tf.{feature.dtype})"
        return f"    {value} = tf.reshape({decoded}, {list(feature.shape)})\n"
    if feature.name == IMAGE and feature.kind == "bytes" and not feature.shape:
        return f"    {value} = tf.io.decode_image({value}, channels=3, expand_animations=False)\n"
    return ""
