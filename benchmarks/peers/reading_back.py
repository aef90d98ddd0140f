"""What was written, read again by a library that is not ours: the number of records, and a digest of the first so many.

    reading_back.py tfrecord|sequences|decoded|webdataset|resized|recordio|arrayrecord|npz|uploaded COUNT,… OUTPUT…

Equal digests mean equal records: keys, types, values and order. Decoders of JPEG differ in the last bits of a pixel, so of decoded images
some values are told instead.
"""

import hashlib
import io
import json
import os
import sys
import urllib.request
from collections.abc import Callable, Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

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
    from sagemaker_recordio import serializer_utils

    for path in files(output, "rec"):
        with path.open("rb") as file:
            for data in serializer_utils.read_recordio(file):
                yield serializer_utils.Record.FromString(data).SerializeToString(deterministic=True)


def _arrayrecord(output: Path) -> Iterator[bytes]:
    os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
    import tensorflow as tf
    from array_record.python.array_record_module import ArrayRecordReader

    for path in files(output, "array_record"):
        reader = ArrayRecordReader(str(path))
        for record in reader.read_all():
            yield tf.train.Example.FromString(record).SerializeToString(deterministic=True)


def _npz(output: Path) -> Iterator[bytes]:
    (path,) = files(output, "npz")
    with np.load(path) as held:
        matrices = [held[name].reshape(len(held[name]), -1).view(np.uint8) for name in sorted(held)]
    for rows in zip(*matrices, strict=True):
        yield b"".join(row.tobytes() for row in rows)


def _uploaded(output: Path) -> Iterator[bytes]:
    """The object of the server that is named by its folder, MiB by MiB, from its disk or by its own REST API."""
    server = json.loads((output.parent / "server.json").read_text())
    if "url" in server:
        address = server["url"].replace("OBJECT", output.name)
    elif "path" in server:
        address = (Path(server["path"]) / output.name).as_uri()
    else:
        address = _oss_file(server, output.name)
    with urllib.request.urlopen(address) as found:  # noqa: S310 - of our own server
        while piece := found.read(1 << 20):
            yield piece


def _oss_file(server: Mapping[str, str], key: str) -> str:
    with urllib.request.urlopen(server["objects"]) as answer:  # noqa: S310 - see above
        (name,) = [each["content"]["name"] for each in json.load(answer) if each["key"] == key]
    return Path(f"{server['data']}/{server['bucket']}/content/{name}").as_uri()


READERS: Mapping[str, Callable[[Path], Iterable[bytes]]] = {
    "tfrecord": _tensorflow("Example"),
    "sequences": _tensorflow("SequenceExample"),
    "decoded": _tensorflow("Example"),
    "webdataset": _webdataset,
    "resized": _webdataset,
    "arrayrecord": _arrayrecord,
    "recordio": _recordio,
    "npz": _npz,
    "uploaded": _uploaded,
}


def told(record: bytes) -> list[float]:
    """A few values of a decoded image: of the float16 that are the end of its record."""
    values = np.frombuffer(record[-(len(record) // 2 * 2) :], np.float16).astype(np.float64)
    return [round(float(value), 2) for value in values[-_EVERY::-_EVERY]]


def pictured(record: bytes) -> list[float]:
    """The size of a JPEG, and the means of 64 parts of it in steps of 64."""
    from PIL import Image

    with Image.open(io.BytesIO(record[record.index(b"\xff\xd8\xff") :])) as picture:
        small = np.asarray(picture.convert("RGB").resize((8, 8), Image.Resampling.BOX))
        return [*map(float, picture.size), *(round(float(value) / 64, 2) for value in small.mean(axis=2).reshape(-1))]


TELLERS: Mapping[str, Callable[[bytes], list[float]]] = {"decoded": told, "resized": pictured}
"""What decoders of JPEG differ in the last bits of: some values are told instead of digests."""


def checked(kind: str, output: Path, counts: list[int]) -> dict[str, Any]:
    digest = hashlib.sha256()
    digests: dict[int, str] = {}
    values: list[list[float]] = []
    count = 0
    error = ""
    try:
        for count, record in enumerate(READERS[kind](output), start=1):
            if kind in TELLERS:
                values += [TELLERS[kind](record)] if count <= _TOLD else []
                continue
            digest.update(len(record).to_bytes(8, "little") + record)
            if count in counts:
                digests[count] = digest.hexdigest()
    except Exception as exc:  # whatever the library raises: the others' outputs are still to be read
        error = f"{type(exc).__name__}: {exc}"
    return {"records": count, "digests": digests, "values": values, "error": error}


def main(kind: str, counts: list[int], outputs: list[Path]) -> None:
    json.dump([checked(kind, output, counts) for output in outputs], sys.stdout)


if __name__ == "__main__":
    main(sys.argv[1], list(map(int, sys.argv[2].split(","))), list(map(Path, sys.argv[3:])))
