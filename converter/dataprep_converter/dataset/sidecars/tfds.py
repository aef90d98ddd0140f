"""TensorFlow Datasets: the files that let `tfds.builder_from_directory(f"{output}/_tfds/dataset/1.0.0")` read the shards in place.

    _tfds/dataset/1.0.0/dataset_info.json         splits, records of each shard, and the paths of the shards: `../../../{SPLIT}.tfrecords`
    _tfds/dataset/1.0.0/features.json             how each feature is stored
    _tfds/dataset/1.0.0/<feature>.labels.txt      class names, one on each line

All data sets have the same name and version in TFDS. So the folder's path is known, and equal data sets have equal folders. The files are
made only for uncompressed TFRecord files of tf.train.Example, and only if TFDS can construct the shards' names. TFDS numbers shards with
five digits. The files have the form that tensorflow_datasets 4.9.10 writes.
"""

import json
import re
from collections.abc import Iterable, Mapping, Sequence
from io import BytesIO
from sys import intern
from typing import Any, Final

from dataprep_api import names
from dataprep_api.dataset.report import ManifestSplit
from dataprep_converter.dataset.shard_table import plain_fields
from dataprep_converter.dataset.sidecars import FinishedDataSet, Made
from dataprep_converter.records.feature import FeatureSpec

FOLDER: Final = f"{names.TFDS}/dataset/1.0.0"
_UP: Final = "../../../"
_FEATURES: Final = "tensorflow_datasets.core.features"
_DECODABLE: Final = frozenset({"bool", "int8", "int16", "int32", "int64", "uint8", "uint16", "float16", "float32", "float64"})
"""Our types that `tf.io.decode_raw` supports."""
IMAGE: Final = "image/encoded"
"""The column in which our image readers put encoded images. TensorFlow's own tools also use this name for encoded images."""


def make(finished: FinishedDataSet) -> Made:
    """Yields the files, or nothing if TFDS can't read the shards."""
    manifest = finished.manifest
    if manifest.compression != "none":
        return
    if any(feature.sequence or feature.record for feature in finished.features):
        return
    splits = []
    for split in manifest.splits:
        files = (file for file, name in plain_fields(manifest.files, "file", "split") if name == split.name)
        template = _template(files, split, finished)
        if template is None:
            return
        # Most shards have the same number of records, so equal texts are stored only once.
        lengths = [intern(str(records)) for name, records in plain_fields(manifest.files, "split", "records") if name == split.name]
        splits.append({"filepathTemplate": _UP + template, "name": split.name, "numBytes": str(split.size), "shardLengths": lengths})
    info = {
        "description": f"{manifest.records_out} records, made by dataprep.",
        "fileFormat": "tfrecord",
        "name": "dataset",
        "splits": splits,
        "version": "1.0.0",
    }
    yield f"{FOLDER}/dataset_info.json", _to_json(info)
    nullable = finished.nullable
    classes = {feature.name: None if feature.name in nullable else _classes(feature, finished) for feature in finished.features}
    described = {
        feature.name: _optional(feature) if feature.name in nullable else _feature(feature, classes[feature.name])
        for feature in finished.features
    }
    root = {"pythonClassName": f"{_FEATURES}.features_dict.FeaturesDict", "featuresDict": {"features": described}}
    yield f"{FOLDER}/features.json", _to_json(root)
    for name, class_names in classes.items():
        if isinstance(class_names, list):
            yield f"{FOLDER}/{name.replace('/', '.')}.labels.txt", "".join(f"{class_name}\n" for class_name in class_names).encode()


def _template(files: Iterable[str], split: ManifestSplit, finished: FinishedDataSet) -> str | None:
    """Returns the template for file names, written with TFDS's fields, or None if TFDS would construct different names."""
    output = finished.spec.output
    several = len(finished.manifest.splits) > 1
    own_template = names.file_name_template(output.template, shards=split.shards, format_=output.format, several_splits=several)
    fields = {"split": split.name, "ext": "tfrecords", "shard": "{SHARD_INDEX}", "shards": "{NUM_SHARDS}"}
    template = re.sub(r"\{(\w+)(?::\d+)?\}", lambda match: fields[match[1]], own_template)
    digits = max(5, len(str(split.shards)))
    for number, file in enumerate(files):
        if template.format(SHARD_INDEX=f"{number:0{digits}}", NUM_SHARDS=f"{split.shards:0{digits}}") != file:
            return None
    return template


def _classes(feature: FeatureSpec, finished: FinishedDataSet) -> list[str] | int | None:
    """Returns the names of a feature's classes. Returns the number of classes if there are no names, or if TFDS doesn't accept them.

    Returns None if the feature's value isn't a single class.
    """
    if not feature.label or feature.kind != "int64" or feature.shape:
        return None
    class_names = finished.manifest.labels.get(feature.name, [])
    # When TFDS reads class names from its file, it strips white space, ignores empty lines, and requires unique names.
    if (
        class_names
        and len(set(class_names)) == len(class_names)
        and all(name and name == name.strip() and len(name.splitlines()) == 1 for name in class_names)
    ):
        return class_names
    return next((label.num_classes for label in finished.spec.labels or [] if label.name == feature.name), None)


def _feature(feature: FeatureSpec, classes: list[str] | int | None) -> Mapping[str, Any]:
    if classes is not None:
        count = len(classes) if isinstance(classes, list) else classes
        return _leaf("class_label_feature.ClassLabel", "classLabel", {"numClasses": str(count)})
    if feature.name == IMAGE and feature.kind == "bytes" and not feature.raw and not feature.shape:
        shape = {"dimensions": ["-1", "-1", "3"]}
        return _leaf("image_feature.Image", "image", {"dtype": "uint8", "shape": shape})
    if feature.raw and feature.dtype in _DECODABLE:
        return _tensor(feature.dtype, feature.shape, encoding="bytes")
    if feature.kind == "bytes":
        return _tensor("string", () if feature.raw else feature.shape)
    return _tensor("int64" if feature.dtype.startswith("uint") else feature.dtype, feature.shape)


def _optional(feature: FeatureSpec) -> Mapping[str, Any]:
    """Describes an optional tensor. In TFDS, only tensors can be optional, so class labels are described as numbers, and images as bytes.

    For a null, TFDS returns the type's lowest number, or an empty text. For a null boolean, TFDS would return False, so booleans are
    described as numbers.
    """
    if feature.shape == (-1,):
        return _feature(feature, None)  # a null is an empty list
    if feature.kind == "bytes":
        return _tensor("string", feature.shape, optional=True)
    has_other_type = feature.dtype == "bool" or feature.dtype.startswith("uint")
    return _tensor("int64" if has_other_type else feature.dtype, feature.shape, optional=True)


def _tensor(dtype: str, shape: Sequence[int], *, encoding: str = "none", optional: bool = False) -> Mapping[str, Any]:
    dimensions: Mapping[str, Any] = {"dimensions": [str(size) for size in shape]} if shape else {}
    tensor: Mapping[str, Any] = {"dtype": dtype, "encoding": encoding, "shape": dimensions}
    return _leaf("tensor_feature.Tensor", "tensor", {**tensor, "optional": True} if optional else tensor)


def _leaf(python_name: str, kind: str, content: Mapping[str, Any]) -> Mapping[str, Any]:
    return {"pythonClassName": f"{_FEATURES}.{python_name}", kind: content}


def _to_json(content: Mapping[str, Any]) -> bytes:
    # The JSON text is written part by part. With very many shards, a list of all parts would take several times as much memory.
    written = BytesIO()
    for part in json.JSONEncoder(indent=2, sort_keys=True, ensure_ascii=False).iterencode(content):
        written.write(part.encode())
    written.write(b"\n")
    return written.getvalue()
