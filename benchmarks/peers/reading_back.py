"""What was written, read again by a library that is not ours: the number of records, and a digest of the first so many.

    reading_back.py tfrecord|sequences|decoded|webdataset|recordio|npz|uploaded OUTPUT COUNT…

Equal digests mean equal records: keys, types, values and order. Decoders of JPEG differ in the last bits of a pixel, so of decoded images
some values are told instead.
"""

import hashlib
import importlib.util
import json
import os
import sys
import types
import urllib.request
from collections.abc import Callable, Iterable, Iterator, Mapping
from pathlib import Path

import numpy as np

_TOLD = 8
_EVERY = 4999


def files(output: Path, ending: str) -> list[Path]:
    """The visible files, in order."""
    return sorted(path for path in output.glob(f"*.{ending}") if path.name[0] not in "_.")


def _tensorflow(message: str) -> Callable[[Path], Iterator[bytes]]:
    def records(output: Path) -> Iterator[bytes]:
        os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
        import tensorflow as tf

        kind = getattr(tf.train, message)
        for record in tf.data.TFRecordDataset(list(map(str, files(output, "tfrecords")))).prefetch(8192).as_numpy_iterator():
            yield kind.FromString(record).SerializeToString(deterministic=True)

    return records


def _webdataset(output: Path) -> Iterator[bytes]:
    import webdataset

    shards = list(map(str, files(output, "tar")))
    for sample in webdataset.WebDataset(shards, shardshuffle=False):
        yield b"".join(key.encode() + value for key, value in sorted(sample.items()) if not key.startswith("__"))


def _recordio(output: Path) -> Iterator[bytes]:
    found = importlib.util.find_spec("sagemaker")
    if found is None:
        sys.exit("sagemaker is not installed")
    package = types.ModuleType("sagemaker")
    package.__path__ = list(found.submodule_search_locations or [])
    sys.modules["sagemaker"] = package
    from sagemaker import serializer_utils
    from sagemaker.amazon.record_pb2 import Record

    for path in files(output, "rec"):
        with path.open("rb") as file:
            for data in serializer_utils.read_recordio(file):
                yield Record.FromString(data).SerializeToString(deterministic=True)


def _npz(output: Path) -> Iterator[bytes]:
    (path,) = files(output, "npz")
    with np.load(path) as held:
        matrices = [held[name].reshape(len(held[name]), -1).view(np.uint8) for name in sorted(held)]
    for rows in zip(*matrices, strict=True):
        yield b"".join(row.tobytes() for row in rows)


def _uploaded(output: Path) -> Iterator[bytes]:
    """The object of the server, MiB by MiB, from its disk or by its own REST API."""
    del output
    server = json.loads(os.environ["BENCHMARK_SERVER"])
    address = server.get("url") or Path(server.get("path") or _oss_file(server)).as_uri()
    with urllib.request.urlopen(address) as found:  # noqa: S310 - of our own server
        while piece := found.read(1 << 20):
            yield piece


def _oss_file(server: Mapping[str, str]) -> str:
    with urllib.request.urlopen(server["objects"]) as answer:  # noqa: S310 - see above
        (each,) = json.load(answer)
    return f"{server['data']}/uploads/content/{each['content']['name']}"


READERS: Mapping[str, Callable[[Path], Iterable[bytes]]] = {
    "tfrecord": _tensorflow("Example"),
    "sequences": _tensorflow("SequenceExample"),
    "decoded": _tensorflow("Example"),
    "webdataset": _webdataset,
    "recordio": _recordio,
    "npz": _npz,
    "uploaded": _uploaded,
}


def told(record: bytes) -> list[float]:
    """A few values of a decoded image: of the float16 that are the end of its record."""
    values = np.frombuffer(record[-(len(record) // 2 * 2) :], np.float16).astype(np.float64)
    return [round(float(value), 2) for value in values[-_EVERY::-_EVERY]]


def main(kind: str, output: Path, counts: list[int]) -> None:
    digest = hashlib.sha256()
    digests: dict[int, str] = {}
    values: list[list[float]] = []
    count = 0
    for count, record in enumerate(READERS[kind](output), start=1):
        if kind == "decoded":
            values += [told(record)] if count <= _TOLD else []
            continue
        digest.update(len(record).to_bytes(8, "little") + record)
        if count in counts:
            digests[count] = digest.hexdigest()
    json.dump({"records": count, "digests": digests, "values": values}, sys.stdout)


if __name__ == "__main__":
    main(sys.argv[1], Path(sys.argv[2]), list(map(int, sys.argv[3:])))
