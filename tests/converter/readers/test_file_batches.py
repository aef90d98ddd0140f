"""Tests images in DL4J's FileBatch zip files. The class of an image comes from its original URI."""

import io
import zipfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tests.builders.files import put
from tests.builders.images import an_image, images_source
from tests.builders.jobs import run_job
from tests.converter.readers.reader_contract import batches, plan, rows

from dataprep_api.resources.job import DataPrepJob
from dataprep_api.spec import Source
from dataprep_converter.core.errors import BadData, BadSpec
from dataprep_converter.readers.images import file_batches
from dataprep_converter.readers.images.images import ImagesReader

LIST = "originalUris.txt"


def zipped(members: Mapping[str, bytes]) -> bytes:
    """A zip file as written by DL4J, with deflated members."""
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, content in members.items():
            archive.writestr(name, content)
    return out.getvalue()


def a_batch(*originals: str) -> bytes:
    """A FileBatch. As in files written by DL4J, the list of URIs is the first member."""
    files = {f"file_{number}.jpg": an_image(seed=number) for number in range(len(originals))}
    return zipped({LIST: "\n".join(originals).encode(), **files})


def labels(folder: Path, **options: Any) -> list[tuple[str, int]]:
    found = rows(batches(ImagesReader, images_source(folder, labelFrom="OriginalUri", **options)))
    return [(row["image/class/text"], row["image/class/label"]) for row in found]


def test_the_class_is_the_folder_of_the_original_uri(tmp_path: Path) -> None:
    put(tmp_path, {"9f.zip": a_batch("file:/data/dog/1.jpg", "file:/data/cat/2.jpg"), "0a/1b.zip": a_batch("file:/data/cat/3.jpg")})
    assert labels(tmp_path) == [("cat", 0), ("dog", 1), ("cat", 0)]
    assert labels(tmp_path / "9f.zip") == [("dog", 1), ("cat", 0)]
    source = images_source(tmp_path, labelFrom="OriginalUri")
    read = rows(batches(ImagesReader, source))
    assert [row["image/filename"] for row in read] == ["0a/1b.zip!/file_0.jpg", "9f.zip!/file_0.jpg", "9f.zip!/file_1.jpg"]
    assert [row["image/encoded"] for row in read] == [an_image(seed=0), an_image(seed=0), an_image(seed=1)]


def test_files_are_in_the_order_of_their_numbers(tmp_path: Path) -> None:
    put(tmp_path, {"a.zip": a_batch(*(f"s3://bucket/{number}/x.jpg" for number in range(12)))})
    found = rows(batches(ImagesReader, images_source(tmp_path, labelFrom="OriginalUri", labelType="Number")))
    assert [row["image/class/label"] for row in found] == list(range(12))


@pytest.mark.parametrize(
    ("original", "label"),
    [
        ("file:/data/a%20b/1.jpg", "a b"),
        ("file:///data/%C3%A4/1.jpg", "ä"),
        ("hdfs://nn:9000/photos/cat/1.jpg", "cat"),
        ("cat/1.jpg", "cat"),
        ("/data/cat/1.jpg", "cat"),
        ("file:/C:/photos/cat/1.jpg", "cat"),
    ],
)
def test_the_folder_is_that_of_any_uri(tmp_path: Path, original: str, label: str) -> None:
    put(tmp_path, {"a.zip": a_batch(original)})
    assert labels(tmp_path) == [(label, 0)]


def test_what_is_no_image_is_counted(tmp_path: Path) -> None:
    originals = {LIST: b"file:/d/cat/1.JPG\nfile:/d/cat/notes.txt\nfile:/d/dog/2.png\n"}
    files = {"file_0.JPG": an_image(), "file_1.txt": b"", "file_2.png": an_image("PNG")}
    put(tmp_path, {"a.zip": zipped(originals | files), "README": b""})
    _, state = plan(ImagesReader, images_source(tmp_path, labelFrom="OriginalUri"))
    assert state == {"ignored": 2, "classes": ["cat", "dog"]}
    assert labels(tmp_path) == [("cat", 0), ("dog", 1)]


def test_the_subset_is_the_folder_of_the_zip(tmp_path: Path) -> None:
    put(tmp_path, {"train/a.zip": a_batch("file:/d/cat/1.jpg"), "test/a.zip": a_batch("file:/d/dog/1.jpg")})
    units, _ = plan(ImagesReader, images_source(tmp_path, labelFrom="OriginalUri", subsetFrom="FirstFolder"))
    assert units.table["subset"].to_pylist() == ["test", "train"]


NO_BATCHES: dict[str, tuple[dict[str, bytes], str]] = {
    "no list": ({"file_0.jpg": b""}, "is not a FileBatch: it has no originalUris.txt (labelFrom: OriginalUri)."),
    "a line too few": (
        {LIST: b"/a/1.jpg", "file_0.jpg": b"", "file_1.jpg": b""},
        "is not a FileBatch: originalUris.txt has 1 line; expected one member file_<n> for each line, but the other 2 members don't match.",
    ),
    "another member": (
        {LIST: b"/a/1.jpg", "file_0.jpg": b"", "x": b""},
        "is not a FileBatch: originalUris.txt has 1 line; expected one member file_<n> for each line, but the other 2 members don't match.",
    ),
    "a number twice": (
        {LIST: b"/a/1.jpg\n/a/2.jpg", "file_0.jpg": b"", "file_00.jpg": b""},
        (
            "is not a FileBatch: originalUris.txt has 2 lines; "
            "expected one member file_<n> for each line, but the other 2 members don't match."
        ),
    ),
    "not UTF-8": ({LIST: b"/a\xff/1.jpg", "file_0.jpg": b""}, ": its originalUris.txt is not UTF-8 at byte 2."),
    "no folder": (
        {LIST: b"/a/1.jpg\ns3://bucket/2.jpg", "file_0.jpg": b"", "file_1.jpg": b""},
        ": line 2 of originalUris.txt, 's3://bucket/2.jpg', contains no folder name to use as the class (labelFrom: OriginalUri).",
    ),
    "a folder that is no text": (
        {LIST: b"/%FF/1.jpg", "file_0.jpg": b""},
        ": line 1 of originalUris.txt, '/%FF/1.jpg', contains no folder name to use as the class (labelFrom: OriginalUri).",
    ),
}


@pytest.mark.parametrize(("members", "message"), NO_BATCHES.values(), ids=NO_BATCHES.keys())
def test_what_is_no_file_batch_is_named(tmp_path: Path, members: dict[str, bytes], message: str) -> None:
    put(tmp_path, {"a.zip": zipped(members)})
    with pytest.raises(BadData) as caught:
        labels(tmp_path)
    assert str(caught.value).removeprefix(f"{tmp_path}/a.zip").lstrip() == message


def test_a_list_beyond_all_bounds_is_not_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(file_batches, "LARGEST_LIST", 1 << 20)
    put(tmp_path, {"a.zip": zipped({LIST: bytes(np.random.default_rng(0).bytes((1 << 20) + 1)), "file_0.jpg": b""})})
    with pytest.raises(BadData, match=r"its originalUris\.txt has 1,048,577 bytes; the limit is 1 MiB"):
        labels(tmp_path)


def test_a_zip_is_named_and_not_what_is_in_it(tmp_path: Path) -> None:
    put(tmp_path, {"a.zip": a_batch("/cat/1.jpg")})
    with pytest.raises(BadSpec, match=r"a\.zip!/: labelFrom: OriginalUri reads FileBatch files; name a zip file, or a folder of zip files"):
        plan(ImagesReader, Source.model_validate({"images": {"uris": [f"{tmp_path}/a.zip!/"], "labelFrom": "OriginalUri"}}))


def test_what_file_batch_wrote_is_read_with_its_classes(tmp_path: Path) -> None:
    put(tmp_path / "in", {f"{('cat', 'dog', 'é x')[n % 3]}/{n}.jpg": an_image(seed=n) for n in range(7)})
    spec = {
        "source": {"images": {"uris": [str(tmp_path / "in")]}},
        "features": [{"name": "image/encoded"}, {"name": "image/filename"}],
        "output": {
            "uri": str(tmp_path / "out"), "format": "fileBatch", "granularity": "Minibatch", "minibatchSize": 3,
            "fileBatch": {"base": str(tmp_path / "in")},
        },
    }  # fmt: skip
    job = {"apiVersion": "dataprep.io/v1alpha1", "kind": "DataPrepJob", "metadata": {"name": "x"}, "spec": spec}
    run_job(DataPrepJob.parse(job))
    again = rows(batches(ImagesReader, images_source(tmp_path / "out/train", labelFrom="OriginalUri")))
    before = rows(batches(ImagesReader, images_source(tmp_path / "in")))
    names = ("image/encoded", "image/class/label", "image/class/text", "image/width")
    assert [[row[name] for name in names] for row in again] == [[row[name] for name in names] for row in before]
