"""Signed web addresses as inputs: they are read with their signatures, but stored without them."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest
from tests.builders.images import an_image
from tests.builders.jobs import run_job
from tests.builders.specs import parse_job
from tests.converter.stores.site import Site, serving
from tests.secret_forms import forms_of

from dataprep_api.dataset.messages import PlanResult
from dataprep_api.resources.job import DataPrepJob
from dataprep_converter.core.errors import BadSpec
from dataprep_converter.inputs.access import Access
from dataprep_converter.steps import pool
from dataprep_converter.stores import StoreSettings
from dataprep_converter.stores.http import HttpStore
from dataprep_converter.tools import repair
from dataprep_converter.tools.verification import verify

MARK = "s3cr3t/m4rk+x"
SIGNED = [
    f"/a.csv?X-Amz-Algorithm=AWS4-HMAC-SHA256&X-Amz-Credential=c&X-Amz-Expires=60&X-Amz-Signature={MARK}",
    f"/a.csv?OSSAccessKeyId=k&Expires=1700000000&Signature={MARK}",
    f"/a.csv?security-token={MARK}&OSSAccessKeyId=k&Expires=1700000000&Signature={MARK}",
    f"/a.csv?GoogleAccessId=k&Expires=1700000000&Signature={MARK}",
    f"/a.csv?X-Goog-Credential=c&X-Goog-Signature={MARK}",
    f"/a.csv?x-oss-signature-version=OSS4-HMAC-SHA256&x-oss-credential=c&x-oss-signature={MARK}",
    f"/a.csv?q-sign-algorithm=sha1&q-ak=k&q-signature={MARK}",
    f"/a.csv?sv=2026-01-01&se=2026-02-01&sp=r&sig={MARK}",
    f"/a.csv?Expires=1700000000&Key-Pair-Id=k&Policy=p&Signature={MARK}",
    f"/a.csv?access_token={MARK}",
]


@pytest.fixture
def site() -> Iterator[Site]:
    with serving({}) as made:
        yield made


def a_job(uris: list[str], out: Path, **more: Any) -> DataPrepJob:
    spec = {"source": {"csv": {"uris": uris, "header": True}}, "output": {"uri": str(out), **more.pop("output", {})}, **more}
    return parse_job(spec, name="j")


def made(job: DataPrepJob, *, workers: int = 1) -> PlanResult:
    return run_job(job, workers=workers)[0]


def stored(folder: Path) -> dict[str, str]:
    """Return the contents of all files in a folder. Tables are returned as the text of their values."""
    found: dict[str, str] = {}
    for file in folder.rglob("*"):
        if file.suffix == ".parquet":
            found[file.name] = json.dumps(pq.read_table(file).to_pylist())
        elif file.is_file():
            found[file.name] = file.read_bytes().decode("latin-1")
    return found


def leaks(folder: Path, secret: str) -> list[str]:
    return [name for name, text in stored(folder).items() if any(form in text for form in forms_of(secret))]


@pytest.mark.parametrize("path", SIGNED, ids=lambda path: path.partition("?")[2][:20])
def test_a_signed_address_is_read_and_stored_without_what_signs_it(path: str, site: Site, tmp_path: Path) -> None:
    site.files[path] = b"n,w\n1,a\n2,b\n"
    made(a_job([site.at(path)], tmp_path / "out", output={"provenance": True}))

    assert verify(str(tmp_path / "out"), Access()).records_out == 2
    assert leaks(tmp_path / "out", MARK) == []
    assert json.loads(stored(tmp_path / "out")["units.parquet"])[0]["uri"] == site.at("/a.csv")


def test_another_signature_is_no_other_run(site: Site, tmp_path: Path) -> None:
    for mark in ("one", "two"):
        site.files[f"/a.csv?X-Amz-Signature={mark}"] = b"n\n1\n2\n3\n4\n"
    split: dict[str, Any] = {
        "splits": {"into": [{"name": "a", "fraction": 0.5}, {"name": "b", "fraction": 0.5}], "seed": 1},
        "output": {"overwrite": "IfChanged"},
    }
    first = made(a_job([site.at("/a.csv?X-Amz-Signature=one")], tmp_path / "out", **split))
    site.files.pop("/a.csv?X-Amz-Signature=one")
    second = made(a_job([site.at("/a.csv?X-Amz-Signature=two")], tmp_path / "out", **split))

    assert (second.run_id, second.reused) == (first.run_id, True)


def test_other_processes_sign_too(site: Site, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pool, "INLINE_BYTES", 0)
    files = {f"/{name}.csv?sig={MARK}{name}": f"n\n{name}\n".encode() for name in range(8)}
    site.files |= files
    job = a_job([site.at(path) for path in files], tmp_path / "out", output={"shards": {"count": 8}}, workers={"parallelism": 4})
    made(job, workers=3)

    assert verify(str(tmp_path / "out"), Access()).records_out == 8
    assert leaks(tmp_path / "out", MARK) == []


def test_tables_of_a_join_are_signed_too(site: Site, tmp_path: Path) -> None:
    site.files |= {f"/a.csv?sig={MARK}": b"k,n\n1,5\n2,6\n", f"/b.csv?sig={MARK}": b"k,m\n1,7\n2,8\n"}
    tables = [{"name": name, "source": {"csv": {"uris": [site.at(f"/{name}.csv?sig={MARK}")], "header": True}}} for name in "ab"]
    made(a_job([], tmp_path / "out", source={"join": {"tables": tables, "keys": ["k"]}}))

    assert verify(str(tmp_path / "out"), Access()).records_out == 2
    assert leaks(tmp_path / "out", MARK) == []


def test_what_is_extended_may_be_signed_anew(site: Site, tmp_path: Path) -> None:
    site.files["/a.csv?sig=one"] = b"n\n1\n"
    made(a_job([site.at("/a.csv?sig=one")], tmp_path / "out", output={"overwrite": "Extend"}))
    site.files |= {"/a.csv?sig=two": b"n\n1\n", "/b.csv?sig=two": b"n\n2\n"}
    made(a_job([site.at("/a.csv?sig=two"), site.at("/b.csv?sig=two")], tmp_path / "out", output={"overwrite": "Extend"}))

    assert verify(str(tmp_path / "out"), Access()).records_out == 2


def test_what_is_broken_is_repaired_by_the_job_s_new_signature(site: Site, tmp_path: Path) -> None:
    site.files["/a.csv?sig=one"] = b"n\n1\n2\n"
    made(a_job([site.at("/a.csv?sig=one")], tmp_path / "out"))
    site.files["/a.csv?sig=two"] = site.files.pop("/a.csv?sig=one")
    [shard] = (tmp_path / "out").glob("*.tfrecords")
    before = shard.read_bytes()
    shard.unlink()
    repair.repair(str(tmp_path / "out"), Access(), job=a_job([site.at("/a.csv?sig=two")], tmp_path / "out"))
    assert shard.read_bytes() == before


def test_addresses_that_differ_in_what_signs_them_alone_are_refused(site: Site, tmp_path: Path) -> None:
    site.files |= {"/get?token=one": b"n\n1\n", "/get?token=two": b"n\n2\n"}
    with pytest.raises(BadSpec) as refused:
        made(a_job([site.at("/get?token=one"), site.at("/get?token=two")], tmp_path / "out"))

    assert str(refused.value) == (
        f"Two addresses of the source differ only in their signatures or tokens: {site.at('/get')}. Signatures and tokens aren't stored, so "
        "the two files can't be told apart. Give each file a different address, or copy the files to a store."
    )
    site.files["/get"] = b"n\n3\n"
    with pytest.raises(BadSpec, match="Two addresses of the source differ only in their signatures"):
        made(a_job([site.at("/get?token=one"), site.at("/get")], tmp_path / "out"))


def test_a_file_that_is_named_twice_is_read_twice(site: Site, tmp_path: Path) -> None:
    site.files["/a.csv?token=one"] = b"n\n1\n"
    made(a_job([site.at("/a.csv?token=one")] * 2, tmp_path / "out"))
    assert verify(str(tmp_path / "out"), Access()).records_out == 2


def test_a_signed_address_in_a_list_of_images_is_refused(site: Site, tmp_path: Path) -> None:
    site.files[f"/1.jpg?sig={MARK}"] = an_image()
    (tmp_path / "list.txt").write_text(site.at(f"/1.jpg?sig={MARK}") + "\n")
    source = {"images": {"list": {"uri": str(tmp_path / "list.txt")}, "labelFrom": "None"}}
    with pytest.raises(BadSpec) as refused:
        made(a_job([], tmp_path / "out", source=source))

    assert MARK not in str(refused.value)
    assert str(refused.value) == (
        f"{tmp_path}/list.txt, line 1: {site.at('/1.jpg')} is signed or holds a token, which would be stored with the plan. Only addresses in the "
        "job's spec may have signatures or tokens. Instead, list images of a store, which gets its credentials from an entry of stores."
    )


def test_a_plan_of_an_older_release_is_read_by_the_job_s_own_signature(site: Site) -> None:
    site.files["/a.csv?sig=new"] = b"n\n1\n"
    store = HttpStore(StoreSettings(uri_prefix="http://", signed={site.at("/a.csv"): site.at("/a.csv?sig=new")}))
    assert store.get(site.at("/a.csv?sig=old")) == b"n\n1\n"
    assert store.get(site.at("/a.csv")) == b"n\n1\n"
