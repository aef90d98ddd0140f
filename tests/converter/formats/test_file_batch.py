"""fileBatch: DL4J's zip archive of raw files with their URIs. Tests with DL4J are in tests/interop/test_dl4j.py."""

import io
import zipfile
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.builders.examples import examples
from tests.builders.jobs import run_job
from tests.converter.formats.batches import Encoded, breaks, flipped

from dataprep_api.resources.job import DataPrepJob
from dataprep_converter.core.errors import BadData, BadSpec, BrokenRecord
from dataprep_converter.formats.archives.file_batch_encoder import uri_of
from dataprep_converter.inputs.access import Access
from dataprep_converter.tools.verification import verify


def files(contents: list[bytes], paths: list[str]) -> dict[str, Any]:
    return {"content": pa.array(contents, pa.large_binary()), "path": pa.array(paths, pa.string())}


def members(content: bytes) -> dict[str, bytes]:
    with zipfile.ZipFile(io.BytesIO(content)) as archive:
        assert archive.testzip() is None
        return {name: archive.read(name) for name in archive.namelist()}


def test_files_lie_under_their_numbers_beside_the_list_of_their_uris() -> None:
    made = Encoded("fileBatch", files([b"one", b"", b"three"], ["cat/1.jpg", "b.tar.gz", "cat/README"]), base="hdfs://nn/photos")
    assert members(made.content) == {
        "file_0.jpg": b"one",
        "file_1.gz": b"",
        "file_2.bin": b"three",
        "originalUris.txt": b"hdfs://nn/photos/cat/1.jpg\nhdfs://nn/photos/b.tar.gz\nhdfs://nn/photos/cat/README",
    }


@pytest.mark.parametrize(
    ("written", "base", "uri"),
    [
        ("a/b c.jpg", "/data/photos/", "file:/data/photos/a/b%20c.jpg"),
        ("a%#?.jpg", "s3://bucket/x", "s3://bucket/x/a%25%23%3F.jpg"),
        ("ä\n.jpg", None, "%C3%A4%0A.jpg"),
        ("a.jpg", "some photos", "some%20photos/a.jpg"),
        ("https://host/a%20b?c=d#e", "/data", "https://host/a%20b?c=d#e"),
        ("file:/a b", None, "file:/a%20b"),
    ],
)
def test_paths_become_uris_that_java_takes(written: str, base: str | None, uri: str) -> None:
    options: dict[str, Any] = {"base": base} if base else {}
    made = Encoded("fileBatch", files([b"x"], [written]), **options)
    assert members(made.content)["originalUris.txt"].decode() == uri
    assert uri_of(uri, "") == uri or not uri.startswith(("file:", "http"))


@settings(max_examples=examples(30))
@given(rows=st.lists(st.tuples(st.binary(max_size=50), st.text(min_size=1, max_size=8)), max_size=8), data=st.data())
def test_every_byte_comes_back_wherever_batches_are_cut(rows: list[tuple[bytes, str]], data: st.DataObject) -> None:
    columns = files([content for content, _ in rows], [path for _, path in rows])
    compression = data.draw(st.sampled_from(["None", "Deflate"]))
    made = Encoded("fileBatch", columns, compression=compression)
    cuts = sorted(data.draw(st.lists(st.integers(0, len(rows)), max_size=3)))
    assert Encoded("fileBatch", columns, cuts=cuts, compression=compression).content == made.content
    assert [record["content"] for record in made.parsed()] == [[content] for content, _ in rows]
    assert list(members(made.content).values())[:-1] == [content for content, _ in rows]


def test_a_job_makes_a_batch_of_every_32_files(tmp_path: Path) -> None:
    # An archive of 32 raw files is read back as the original bytes and URIs.
    contents = {f"{'cat' if n % 2 else 'dog'}/{n:03}.bin": bytes([n]) * n for n in range(70)}
    for name, content in contents.items():
        (tmp_path / "in" / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / "in" / name).write_bytes(content)
    spec = {
        "source": {"wholeFile": {"uris": [str(tmp_path / "in")]}},
        "features": [{"name": "content"}, {"name": "path"}],
        "output": {
            "uri": str(tmp_path / "out"), "format": "fileBatch", "granularity": "Minibatch", "fileBatch": {"base": str(tmp_path / "in")},
        },
    }  # fmt: skip
    job = {"apiVersion": "dataprep.io/v1alpha1", "kind": "DataPrepJob", "metadata": {"name": "x"}, "spec": spec}
    run_job(DataPrepJob.parse(job))
    manifest = verify(str(tmp_path / "out"), Access())
    assert [(file.file, file.records) for file in manifest.files] == [
        ("train/batch_00000.zip", 32), ("train/batch_00001.zip", 32), ("train/batch_00002.zip", 6),
    ]  # fmt: skip
    found: list[tuple[str, bytes]] = []
    for file in manifest.files:
        read = members((tmp_path / "out" / file.file).read_bytes())
        uris = read.pop("originalUris.txt").decode().split("\n")
        assert list(read) == [f"file_{number}.bin" for number in range(file.records)]
        found += zip(uris, read.values(), strict=True)
    assert found == [(f"file:{tmp_path}/in/{name}", content) for name, content in sorted(contents.items())]


@pytest.mark.parametrize(
    ("columns", "options", "message"),
    [
        (
            {"x": pa.array([1])},
            {},
            "output.fileBatch.content: there is no feature named image/encoded or content that holds bytes; the features are x.",
        ),
        (
            {"content": pa.array([b"x"]), "name": pa.array([b"x"])},
            {"uri": "name"},
            "output.fileBatch.uri: there is no feature named name that holds text; the features are content, name.",
        ),
        (
            files([b"x"], ["y"]) | {"size": pa.array([1])},
            {},
            "fileBatch holds only files and their URIs, so it can't store size: remove all other features from the spec.",
        ),
    ],
)
def test_other_features_than_files_and_uris_are_refused(columns: dict[str, Any], options: dict[str, Any], message: str) -> None:
    with pytest.raises(BadSpec) as caught:
        Encoded("fileBatch", columns, **options)
    assert str(caught.value) == message


def test_a_file_without_uri_is_refused() -> None:
    with pytest.raises(BadData, match="fileBatch: a record has no path."):
        Encoded("fileBatch", files([b"x"], [""]))


# --- broken files -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("compression", ["None", "Deflate"])
def test_damage_is_found_wherever_it_is(compression: str) -> None:
    made = Encoded("fileBatch", files([b"one" * 9, b"two"], ["a.b", "c"]), compression=compression)
    for size in range(len(made.content)):
        with pytest.raises(BrokenRecord, match=r" at offset \d+$"):
            made.parsed(made.content[:size], piece=1 << 20)
    unnoticed = [damaged for damaged in flipped(made.content) if not breaks(made, damaged)]
    # Up to seven bits after the end of each deflated member are unused.
    assert len(unnoticed) <= (21 if compression == "Deflate" else 0)
    assert all(made.parsed(damaged, piece=1 << 20) == made.parsed() for damaged in unnoticed)


def test_the_files_before_the_fault_are_read() -> None:
    made = Encoded("fileBatch", files([b"one", b"two"], ["a.b", "c"]))
    second = made.content.index(b"file_1") - 30
    found: list[bytes] = []
    with pytest.raises(BrokenRecord) as caught:
        found.extend(content for _, (_, content) in made.decoder().read([made.content[: second + 40]]))
    assert found == [b"one"]
    assert str(caught.value) == f"truncated member (40 of 43 bytes) at offset {second}"
    damaged = made.content.replace(b"two", b"twi")
    with pytest.raises(BrokenRecord, match=f"^bad CRC of file_1.bin at offset {second}$"):
        made.parsed(damaged)
