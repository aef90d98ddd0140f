"""Workloads with image files: W1, W2, W2b, W7 and W9."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, Final

from benchmarks.contenders import ONE_CORE, TWO_CORES, Contender, digest, libraries, limit, tensorflow, tfds, vahidk, webdataset, write
from benchmarks.workload import IMAGES, Against, Workload, encode, job

_TWO_CORES: Final[Mapping[str, Any]] = {"shards": {"count": 8}}
"""Four shards for each of two processes, as docs/operations.md recommends."""
_DECODED: Final[Mapping[str, Any]] = {
    "source": {"images": {"uris": ["INPUT"], "labelFrom": "None"}},
    "transforms": [{"decode": {"channels": 3}}, {"cropOrPad": {"height": 482, "width": 415}}, {"standardize": {"dtype": "float16"}}],
    "features": [{"name": "image"}],
}
_DECODED_BYTES: Final = 482 * 415 * 3 * 2
_SAMPLE_BYTES: Final = 5 * 512
"""The size in bytes of a sample in a tar file: two headers, two blocks for the 600-byte picture, and one block for its class."""
_RESIZED: Final[Mapping[str, Any]] = {
    "source": {"images": {"uris": ["INPUT"], "labelFrom": "None"}},
    "transforms": [
        {"decode": {"channels": 3}},
        {"resize": {"shortestSide": 256}},
        {"encode": {"format": "Jpeg", "quality": 95}},
        {"select": {"columns": ["image/encoded"]}},
    ],
    "features": [{"name": "image/encoded"}],
}
_TAR: Final[Mapping[str, Any]] = {**_TWO_CORES, "format": "webdataset"}
_NAMED: Final[Mapping[str, Any]] = {
    "source": {"images": {"uris": ["INPUT"], "labelFrom": "None"}},
    "transforms": [{"select": {"columns": ["image/filename", "image/encoded"]}}],
    "features": [{"name": "image/filename"}, {"name": "image/encoded"}],
}


def _decoding(kind: str, name: str, *, threads: int = 1, processes: int = 1) -> Contender:
    options = (str(threads), str(processes))
    return Contender(f"tf.data, {name}", "peer", "tensorflow_decoding.py", kind, peer="tf", options=options)


def _resizing(processes: int) -> Contender:
    name = f"img2dataset's Resizer, {processes} process{'es' * (processes > 1)}"
    options = (str(processes),)
    return Contender(name, "peer", "img2dataset_resizing.py", "resize", peer="img2dataset", environment="img2dataset", options=options)


WORKLOADS: Final[Sequence[Workload]] = (
    Workload(
        "images",
        "W1: JPEG files to TFRecord with unchanged bytes, file to file",
        make="images",
        records=6000,
        quick=300,
        contenders=(
            job({"source": IMAGES, "features": [{"name": "image/encoded"}, {"name": "image/class/text"}]}),
            tensorflow("images"),
            vahidk("images", 0.5),
            tfds("images", 0.5),
            limit("cat FILES > file", "cat"),
            write(),
            digest(),
            limit("CRC-32C alone", "crc"),
        ),
        goals={"TensorFlow": 1.4, "cat FILES > file": 0.9},
        limit="SHA-256 and write alone",
        check="tfrecord",
    ),
    Workload(
        "pictures",
        "W1: JPEG files in memory to TFRecord, to /dev/null",
        make="pictures",
        records=2000,
        quick=300,
        twice=True,
        contenders=(
            replace(encode(place="/dev/null"), writes=False, shown_by=encode()),
            replace(tensorflow("pictures-dropped"), writes=False, shown_by=tensorflow("pictures")),
            limit("CRC-32C alone", "crc"),
        ),
        goals={"TensorFlow": 4.5},
        limit="CRC-32C alone",
        check="tfrecord",
    ),
    Workload(
        "decode",
        "W2: JPEG files, decoded, cropped or padded to 482 x 415 and standardized to float16, to TFRecord, on two cores",
        make="images",
        records=1500,
        quick=60,
        contenders=(
            job(_DECODED, _TWO_CORES, workers=2),
            job(_DECODED, _TWO_CORES, name="ours, 1 process"),
            job(_DECODED, _TWO_CORES, name="ours, 1 process, 1 core", cores=1),
            _decoding("whole", "decode_jpeg, 2 threads", threads=2),
            _decoding("cropped", "decode_and_crop_jpeg, 2 threads", threads=2),
            _decoding("cropped", "decode_and_crop_jpeg, 2 processes", processes=2),
            limit("decoding alone, 2 threads", "decode"),
            digest(_DECODED_BYTES),
            *libraries("pixels"),
        ),
        goals={
            "ours, 1 process": 1.8,
            "ours, 1 process, 1 core": 1.8,
            "tf.data, decode_jpeg, 2 threads": 2.0,
            "tf.data, decode_and_crop_jpeg, 2 threads": 2.0,
            "tf.data, decode_and_crop_jpeg, 2 processes": 2.0,
        },
        limit=TWO_CORES,
        gains=dict.fromkeys(("ours, 1 process", "ours, 1 process, 1 core"), (TWO_CORES, ONE_CORE)),
        check="decoded",
    ),
    Workload(
        "resize",
        "W2b: JPEG files, decoded, resized to a shortest side of 256 and encoded again, to WebDataset, on two cores",
        make="images",
        records=6000,
        quick=60,
        contenders=(
            job(_RESIZED, _TAR, workers=2),
            job(_RESIZED, _TAR, name="ours, 1 process"),
            job(_RESIZED, _TAR, name="ours, 1 process, 1 core", cores=1),
            _resizing(2),
            _resizing(1),
            limit("decoding alone, 2 threads", "decode"),
            limit("decoding, resizing, encoding alone, 2 threads", "recode"),
            *libraries("pictures"),
        ),
        goals={"img2dataset's Resizer, 2 processes": 1.5, "ours, 1 process": 1.8, "ours, 1 process, 1 core": 1.8},
        limit=TWO_CORES,
        gains=dict.fromkeys(("ours, 1 process", "ours, 1 process, 1 core"), (TWO_CORES, ONE_CORE)),
        check="resized",
    ),
    Workload(
        "sequencefile",
        "W7: JPEG files to Hadoop's SequenceFile, file to file",
        make="images",
        records=6000,
        quick=300,
        contenders=(
            job(_NAMED, {"format": "sequenceFile", "sequenceFile": {"key": "image/filename", "value": "Feature"}}),
            limit("cat FILES > file", "cat"),
            write(),
            digest(),
        ),
        goals={"cat FILES > file": 0.9, "write alone": 0.9},
        limit="SHA-256 and write alone",
        against=Against("sequencefile", "named"),
    ),
    Workload(
        "webdataset",
        "W9: JPEG files to WebDataset, file to file",
        make="images",
        records=6000,
        quick=300,
        contenders=(
            job({"source": IMAGES, "features": [{"name": "image/encoded"}]}, {"format": "webdataset"}),
            webdataset("images"),
            limit("cat FILES > file", "cat"),
            write(),
            digest(),
        ),
        goals={"cat FILES > file": 0.9, "write alone": 0.9},
        limit="SHA-256 and write alone",
        check="webdataset",
    ),
    Workload(
        "webdataset-small",
        "W9: pictures of 600 bytes and a class, in memory, to WebDataset",
        make="small_samples",
        records=200_000,
        quick=20_000,
        contenders=(
            encode({"format": "webdataset", "webdataset": {"extensions": {"jpg": "jpg"}}}),
            webdataset("samples", 0.2),
            write(_SAMPLE_BYTES),
        ),
        goals={"webdataset": 8},
        limit="write alone",
        check="webdataset",
    ),
)
