"""Tests every store as the source with every store as the destination. All pairs produce the same bytes."""

import hashlib
from collections.abc import Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from tests.builders import pairs
from tests.builders.specs import parse_job
from tests.converter.stores.loopback import QuietFolder, served
from tests.converter.stores.places import PLACES, Place, a_folder, files, oss, s3
from tests.converter.stores.small_jobs import live
from tests.converter.transforms.image_batches import drawn, file_of

from dataprep_api.resources.job import DataPrepJob
from dataprep_converter.cli.convert_to_records import mnist_job
from dataprep_converter.inputs.access import Access
from dataprep_converter.stores import StoreSettings
from dataprep_converter.tools import file_copy
from dataprep_converter.tools.verification import verify
from storeservers.odps import FakeMaxCompute, rows_of
from workbench import mnist

ROWS = "".join(f"{number},{number / 4}\n" for number in range(150))
COLUMNS = [{"name": "id", "type": "Int64"}, {"name": "x", "type": "Float64"}]
TABLE = {"id": "bigint", "x": "double"}
SCHEMA = pa.schema(pa.field(name, kind) for name, kind in (("id", pa.int64()), ("x", pa.float64())))


@dataclass
class Web:
    """A web server that serves a folder, as a place for sources. It can't list files and has no folders."""

    folder: Path
    root: str


@pytest.fixture
def web(tmp_path: Path) -> Iterator[Web]:
    (tmp_path / "web").mkdir()
    with served(partial(QuietFolder, directory=str(tmp_path / "web"))) as port:
        yield Web(tmp_path / "web", f"http://127.0.0.1:{port}")


@dataclass(frozen=True)
class Source:
    """A place for a job's input."""

    root: str
    settings: StoreSettings
    lists: bool
    """Whether the store can list folders. If not, the job names every file."""


def put(request: pytest.FixtureRequest, make: Any, contents: Mapping[str, bytes]) -> Source:  # Any, because `make` is a function or "http"
    if make == "http":
        web: Web = request.getfixturevalue("web")
        for name, content in contents.items():
            (web.folder / name).parent.mkdir(parents=True, exist_ok=True)
            (web.folder / name).write_bytes(content)
        return Source(web.root, StoreSettings(uri_prefix="http://"), lists=False)
    place: Place = make(request)
    store = place.store()
    with ThreadPoolExecutor(8) as pool:
        list(pool.map(lambda name: store.put(place.at(f"in/{name}"), contents[name]), contents))
    return Source(place.at("in"), place.settings, lists=True)


SOURCES = [*PLACES, pytest.param("http", id="http", marks=pytest.mark.store)]
every_pair = pytest.mark.parametrize(
    ("of", "to"),
    [
        pytest.param(
            *of.values,
            *to.values,
            id=f"{of.id}-{to.id}",
            marks=[*of.marks, *to.marks, *([] if pairs.has_turn(of, to, SOURCES, PLACES, shift=1) else [pytest.mark.nightly])],
        )
        for of in SOURCES
        for to in PLACES
    ],
)
"""Pairs of a source and a destination. The quick run uses each store once as a source and once as a destination. The nightly run tests all
pairs."""
every_source = pytest.mark.parametrize("of", SOURCES)
every_destination = pytest.mark.parametrize("to", PLACES)


@pytest.fixture(scope="module")
def digits_and_photos(tmp_path_factory: pytest.TempPathFactory) -> dict[str, bytes]:
    """Return the files of the two inputs.

    The first input is synthetic MNIST with 300 training samples and 60 test samples. The second input has twelve photos of three classes,
    and a file that lists them.
    """
    folder = mnist.write(tmp_path_factory.mktemp("mnist"), train=300, test=60)
    found = {file.name: file.read_bytes() for file in sorted(folder.iterdir())}
    photos = {
        f"photos/{name}/{number}.{kind}": file_of(drawn(20 + number, 30, seed=number), "PNG" if kind == "png" else "JPEG")
        for name in ("cat", "dog", "été")
        for number, kind in enumerate(["jpg", "png", "jpg", "jpg"])
    }
    listed = "path,class\n" + "".join(f"{path.removeprefix('photos/')},{path.split('/')[1]}\n" for path in sorted(photos))
    return found | photos | {"photos/list.csv": listed.encode()}


def mnist_of(source: Source, output: str) -> DataPrepJob:
    return mnist_job(source=source.root, output=output, validation=40, suffix=".gz")


def photos_of(source: Source, output: str) -> DataPrepJob:
    if source.lists:
        images: dict[str, Any] = {"uris": [f"{source.root}/photos"]}
    else:
        images = {"list": {"uri": f"{source.root}/photos/list.csv", "labelColumn": "class"}, "labelFrom": "List"}
    return a_job({"images": images}, {"uri": output, "shards": {"count": 1}}, shuffle={"seed": 3})


def a_job(source: dict[str, Any], output: dict[str, Any], **spec: Any) -> DataPrepJob:
    written = {"source": source, "output": output, **spec}
    return parse_job(written, name="pair")


def made(job: DataPrepJob, *settings: StoreSettings) -> dict[str, str]:
    """Run a job, read its data set back, and return the SHA-256 of each file."""
    live(job, Access(settings))
    access = Access(settings)
    manifest = verify(job.spec.output.uri, access)
    said = {file.file: file.sha256 for file in manifest.files}
    store = access.store(job.spec.output.uri)
    assert {name: hashlib.sha256(store.get(f"{job.spec.output.uri}/{name}")).hexdigest() for name in said} == said
    return said


@pytest.fixture(scope="module")
def expected(digits_and_photos: dict[str, bytes], tmp_path_factory: pytest.TempPathFactory) -> dict[str, dict[str, str]]:
    """Return the hashes of the data sets that the jobs make on the local disk."""
    folder = tmp_path_factory.mktemp("reference")
    for name, content in digits_and_photos.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_bytes(content)
    source = Source(str(folder), StoreSettings(uri_prefix=""), lists=True)
    return {
        "mnist": made(mnist_of(source, str(folder / "out/mnist"))),
        "photos": made(photos_of(source, str(folder / "out/photos"))),
    }


@pytest.mark.slow
@every_pair
def test_digits_and_photos_have_the_same_hashes_through_every_pair(
    request: pytest.FixtureRequest, digits_and_photos: dict[str, bytes], expected: dict[str, dict[str, str]], of: Any, to: Any
) -> None:
    source, place = put(request, of, digits_and_photos), to(request)
    settings = {each.uri_prefix: each for each in (source.settings, place.settings)}.values()

    # Run both jobs concurrently, because HDFS is slow with small files even on an idle machine.
    with ThreadPoolExecutor(2) as pool:
        found = {
            "mnist": pool.submit(made, mnist_of(source, place.at("mnist")), *settings),
            "photos": pool.submit(made, photos_of(source, place.at("photos")), *settings),
        }
    assert {name: each.result() for name, each in found.items()} == expected
    assert place.leftovers() == 0


@pytest.mark.store
def test_all_of_mnist_from_oss_to_s3_has_the_golden_sizes_and_hashes(request: pytest.FixtureRequest, digits: Path) -> None:
    source, place = put(request, oss, {file.name: file.read_bytes() for file in digits.iterdir()}), s3(request)
    job = mnist_job(source=source.root, output=place.at("mnist"), validation=5000, suffix=".gz")

    assert made(job, source.settings, place.settings) == {name: file.sha256 for name, file in mnist.FILES.items()}
    assert {name: len(place.store().get(place.at(f"mnist/{name}"))) for name in mnist.FILES} == {
        name: file.size for name, file in mnist.FILES.items()
    }


# -- tables: rows instead of files --------------------------------------------------------------------------------------


@pytest.fixture
def warehouse() -> Iterator[FakeMaxCompute]:
    with FakeMaxCompute() as fake:
        yield fake


def key_of(fake: FakeMaxCompute) -> StoreSettings:
    given = {"accessKeyId": fake.access_id, "accessKeySecret": fake.secret}
    return StoreSettings(uri_prefix="odps://", endpoint=fake.endpoint, credentials=given)


@every_destination
def test_a_table_has_the_bytes_of_the_same_rows_in_a_file_on_every_store(
    request: pytest.FixtureRequest, warehouse: FakeMaxCompute, tmp_path: Path, to: Any
) -> None:
    warehouse.make("t", TABLE, SCHEMA)
    numbers = np.arange(150)
    warehouse.fill("t", rows_of(pa.table({"id": numbers, "x": numbers / 4}, schema=SCHEMA)))
    (tmp_path / "rows.csv").write_text(ROWS)
    place = to(request)

    of_table = a_job({"table": {"uris": ["odps://p/tables/t"]}}, {"uri": place.at("out"), "shards": {"count": 2}})
    of_file = a_job(
        {"csv": {"uris": [str(tmp_path / "rows.csv")], "columns": COLUMNS}}, {"uri": str(tmp_path / "o"), "shards": {"count": 2}}
    )
    assert made(of_table, key_of(warehouse), place.settings) == made(of_file)


@every_source
def test_rows_of_every_store_become_the_rows_of_a_table(request: pytest.FixtureRequest, warehouse: FakeMaxCompute, of: Any) -> None:
    warehouse.make("t", TABLE, SCHEMA)
    source = put(request, of, {"rows.csv": ROWS.encode()})
    place = replace(files(request), root=str(request.getfixturevalue("tmp_path") / a_folder()))
    job = a_job(
        {"csv": {"uris": [f"{source.root}/rows.csv"], "columns": COLUMNS}},
        {"uri": place.root, "format": "arrow", "shards": {"count": 2}, "table": {"uri": "odps://p/tables/t"}},
    )
    made(job, source.settings, key_of(warehouse))

    assert warehouse.rows("t").to_pylist() == [{"id": number, "x": number / 4} for number in range(150)]


@pytest.mark.store
@pytest.mark.parametrize(
    ("source", "target"), [(files, s3), (s3, oss), (oss, files), ("http", s3)], ids=["files-s3", "s3-oss", "oss-files", "http-s3"]
)
def test_any_files_are_copied_between_two_stores(source: Any, target: Any, request: pytest.FixtureRequest) -> None:  # Any: see put
    contents = {"a.bin": bytes(range(256)) * 4096, "sub/b c.txt": b"b", "sub/_empty": b""}
    found, to = put(request, source, contents), target(request)
    access = Access([found.settings, to.settings])
    if found.lists:
        assert file_copy.copy(found.root, to.at("to"), access, overwrite=False).files == 3
        assert file_copy.copy(found.root, to.at("to"), access, overwrite=False).kept == 3
    else:
        contents.pop("sub/b c.txt")
        for name in contents:
            file_copy.copy(f"{found.root}/{name}", to.at(f"to/{name}"), access, overwrite=False)
    assert {name: to.store().get(to.at(f"to/{name}")) for name in contents} == contents
    assert sorted(to.names("to")) == sorted(f"to/{name}" for name in contents)
