"""`load_dali.py`: reads the data set with NVIDIA DALI.

DALI reads uncompressed TFRecord files with their indexes, and webdataset's tar files, which it indexes itself.
"""

from string import Template
from typing import Final

from dataprep_converter.dataset.sidecars import FinishedDataSet, loader_source, loader_torch_samples
from dataprep_converter.dataset.sidecars.tfds import IMAGE
from dataprep_converter.records.feature import FeatureSpec

_FRAME: Final = '''\
"""Loads this data set with NVIDIA DALI: `load("train")` is a built pipeline, `python load_dali.py [FOLDER]` counts its records.

Decodes on the processor. With a GPU: device_id=0, and device="mixed" for images.
"""

import sys
from pathlib import Path

from nvidia.dali import $used

FOLDER = Path(__file__).resolve().parents[2]
$splits$classes$features

$files

@pipeline_def
$read

def load(split, folder=FOLDER, batch_size=32, random_shuffle=False):
    """A pipeline over the split's records; `run()` gives the next batch, as lists of tensors."""
$built    pipeline.build()
    return pipeline


def main():
    """Counts the records of every split, and runs one batch of each."""
    for split, expected in SPLITS.items():
        if expected:
            pipeline = load(split, *sys.argv[1:2])
            pipeline.run()
            print(f"{split}: {pipeline.reader_meta('records')['epoch_size']} of {expected} records")


if __name__ == "__main__":
    main()
'''


def _frame(**parts: str) -> Template:
    """Returns the file's template with these parts filled in. The other placeholders stay."""
    return Template(Template(_FRAME).safe_substitute(parts))


_LOADER: Final = _frame(
    used="fn, pipeline_def, tfrecord, types",
    read='''\
def records(paths, indexes, random_shuffle):
    """One output for each of FEATURES, in their order."""
    record = fn.readers.tfrecord(path=paths, index_path=indexes, features=FEATURES, random_shuffle=random_shuffle, name="records")
$decoded    return tuple(record[name] for name in FEATURES)
''',
    built="""\
    paths = [path for path in files(split, folder) if Path(path).stat().st_size]
    indexes = [str(Path(folder, "_dataprep/index", f"{Path(path).relative_to(folder).as_posix()}.idx")) for path in paths]
    pipeline = records(paths, indexes, random_shuffle, batch_size=batch_size, num_threads=4, device_id=None)
""",
)
_MEMBERS: Final = _frame(
    used="fn, pipeline_def, types",
    read='''\
def records(paths, random_shuffle):
    """One output for each of FEATURES, in their order: the bytes of its member, or the pixels of an image; empty for a record without it."""
    found = fn.readers.webdataset(
        paths=paths, ext=list(FEATURES.values()), missing_component_behavior="empty", random_shuffle=random_shuffle, name="records"
    )
    record = dict(zip(FEATURES, found if len(FEATURES) > 1 else [found]))
$decoded    return tuple(record.values())
''',
    built="""\
    pipeline = records(files(split, folder), random_shuffle, batch_size=batch_size, num_threads=4, device_id=None)
""",
)
_TYPES: Final = {"int64": ("tfrecord.int64", "0"), "float": ("tfrecord.float32", "0.0"), "bytes": ("tfrecord.string", '""')}
_DECODED: Final = 'fn.decoders.image({record}, device="cpu", output_type=types.RGB)'
_NAMES: Final = {
    "bool": "BOOL", "int8": "INT8", "int16": "INT16", "int32": "INT32", "int64": "INT64", "uint8": "UINT8", "uint16": "UINT16",
    "uint32": "UINT32", "float16": "FLOAT16", "float32": "FLOAT", "float64": "FLOAT64",
}  # fmt: skip


def examples(finished: FinishedDataSet) -> str:
    """Returns the file for `tfrecord`.

    Raises Unreadable for data sets that DALI can't read: those with gzip or SequenceExample, and those without indexes.
    """
    if finished.manifest.compression != "none":
        raise loader_source.Unreadable(
            "NVIDIA DALI reads no compressed TFRecord. Make the data set with output.tfrecord.compression: None."
        )
    if finished.unindexed:
        raise loader_source.Unreadable("NVIDIA DALI needs an index of the records. Make the data set with output.index: true.")
    if any(feature.sequence or feature.record for feature in finished.features):
        raise loader_source.Unreadable("NVIDIA DALI reads the features of tf.train.Example, and these records are others.")
    nullable = finished.nullable
    left_out = [
        feature for feature in finished.features if _is_list_of_bytes(feature) or (feature.kind == "bytes" and feature.name in nullable)
    ]
    readable = [feature for feature in finished.features if feature not in left_out]
    comment = "How each feature is stored."
    if any(feature.name in nullable for feature in readable):
        comment += " A feature with nulls has one dimension more, and a null is empty."
    if left_out:
        comment += f" DALI reads one text of a feature, so these are left out: {', '.join(feature.name for feature in left_out)}."
    return loader_source.filled(
        _LOADER,
        splits=loader_source.splits(finished),
        classes=loader_source.classes(finished),
        features=loader_source.dictionary(
            "FEATURES", {feature.name: _describe(feature, feature.name in nullable) for feature in readable}, comment
        ),
        files=loader_source.files_function("DALI"),
        decoded="".join(_decode_lines(feature) for feature in readable),
    )


def _is_image(feature: FeatureSpec) -> bool:
    return feature.name == IMAGE and feature.kind == "bytes" and not feature.shape


def _is_list_of_bytes(feature: FeatureSpec) -> bool:
    return feature.kind == "bytes" and not feature.raw and feature.shape != ()


def _describe(feature: FeatureSpec, has_nulls: bool) -> str:
    kind, default = _TYPES[feature.kind]
    if has_nulls and len(feature.shape) > 1:
        return f"tfrecord.VarLenFeature({list(feature.shape[1:])}, {kind}, {default})"
    if has_nulls or feature.shape == (-1,):
        return f"tfrecord.VarLenFeature({kind}, {default})"
    return f"tfrecord.FixedLenFeature({[] if feature.raw else list(feature.shape)}, {kind}, {default})"


def _decode_lines(feature: FeatureSpec) -> str:
    value = f"record[{loader_source.quoted(feature.name)}]"
    if feature.raw:
        return f"    {value} = fn.reinterpret({value}, dtype=types.{_NAMES[feature.dtype]}, shape={list(feature.shape)})\n"
    if _is_image(feature):
        return f"    {value} = {_DECODED.format(record=value)}\n"
    return ""


def members(finished: FinishedDataSet) -> str:
    """Returns the file for `webdataset`."""
    extensions = loader_torch_samples.extensions(finished)
    images = [feature for feature in finished.features if feature.name in extensions and _is_image(feature)]
    lines = [
        f"    record[{loader_source.quoted(feature.name)}] = {_DECODED.format(record=f'record[{loader_source.quoted(feature.name)}]')}\n"
        for feature in images
    ]
    return loader_source.filled(
        _MEMBERS,
        splits=loader_source.splits(finished),
        classes=loader_source.classes(finished),
        features=loader_source.dictionary(
            "FEATURES",
            {name: loader_source.quoted(";".join(suffixes)) for name, suffixes in extensions.items()},
            "Extensions of each feature's member.",
        ),
        files=loader_source.files_function("DALI"),
        decoded="".join(lines),
    )
