"""Before any worker starts, the preflight reports what is missing."""

import os
import threading
import time
import uuid
from dataclasses import replace
from pathlib import Path

import pytest
from tests.builders.specs import parse_job

from dataprep_converter.core.errors import BadSpec, NotFound, NotPermitted, StoreError, Unreachable
from dataprep_converter.inputs.access import Access
from dataprep_converter.steps import preflight
from dataprep_converter.steps.plan_step import run_plan_step
from dataprep_converter.steps.preflight import preflight as run_preflight
from dataprep_converter.stores import StoreSettings
from dataprep_converter.stores.files import FileStore
from storeservers import FakeOss, HdfsCluster, S3Server

BUCKET = "contract-bucket"


@pytest.fixture
def source(tmp_path: Path) -> str:
    (tmp_path / "in").mkdir()
    (tmp_path / "in" / "file").write_bytes(b"x")
    return str(tmp_path / "in")


def test_a_good_place_passes_and_is_left_clean(tmp_path: Path, source: str) -> None:
    run_preflight(Access(), f"{tmp_path}/out", [source, f"{source}/file"])

    assert [each for each in (tmp_path / "out").rglob("*") if each.is_file()] == []


def test_what_a_killed_preflight_left_is_removed_and_a_running_ones_not(tmp_path: Path, source: str) -> None:
    side = tmp_path / "out" / "_dataprep"
    side.mkdir(parents=True)
    for name in (".preflight-old", ".preflight-running", "other"):
        (side / name).write_bytes(b"x")
        if name != ".preflight-running":
            os.utime(side / name, (0, 0))
    run_preflight(Access(), f"{tmp_path}/out", [source])

    assert sorted(each.name for each in side.iterdir()) == [".preflight-running", "other"]


def test_a_source_that_names_nothing_is_named(tmp_path: Path, source: str) -> None:
    with pytest.raises(NotFound, match=rf"The source {source}/absent doesn't exist"):
        run_preflight(Access(), f"{tmp_path}/out", [source, f"{source}/absent"])
    (tmp_path / "empty").mkdir()
    with pytest.raises(NotFound, match="empty doesn't exist"):
        run_preflight(Access(), f"{tmp_path}/out", [f"{tmp_path}/empty"])
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize(("uri", "meant"), [("s3:/bucket/x", "s3://bucket/x"), ("file:/mnt/x", "file:///mnt/x")])
def test_a_slash_too_few_is_told_before_a_folder_of_that_name_is_made(
    tmp_path: Path, source: str, monkeypatch: pytest.MonkeyPatch, uri: str, meant: str
) -> None:
    monkeypatch.chdir(tmp_path)
    with pytest.raises(BadSpec, match=f"{uri} has only one slash after .* write {meant}\\.$"):
        run_preflight(Access(), uri, [source])
    assert [each.name for each in tmp_path.iterdir()] == ["in"]


def test_the_nearest_store_is_named_for_one_that_is_not_known(tmp_path: Path) -> None:
    with pytest.raises(BadSpec, match=r"No store for hfds://; did you mean hdfs\? \(known: file://, hdfs://, "):
        run_preflight(Access(), f"{tmp_path}/out", ["hfds://nn/x"])


def test_a_store_that_loses_what_is_written_is_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with monkeypatch.context() as patched:
        patched.setattr(FileStore, "get", lambda *_: b"")
        with pytest.raises(StoreError, match="differs from what was written to it"):
            run_preflight(Access(), f"{tmp_path}/out", [])
    with monkeypatch.context() as patched:
        patched.setattr(FileStore, "list", lambda *_, **__: iter(()))
        with pytest.raises(StoreError, match="not in the listing"):
            run_preflight(Access(), f"{tmp_path}/out", [])
    assert [each for each in (tmp_path / "out").rglob("*") if each.is_file()] == []


def test_a_store_that_never_answers_ends_it_in_time(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    tested = threading.Event()
    monkeypatch.setattr(preflight, "check_output", lambda *_: tested.wait())
    began = time.monotonic()
    with pytest.raises(Unreachable, match="has not responded"):
        run_preflight(Access(), f"{tmp_path}/out", [], limit_seconds=0.5)
    assert time.monotonic() - began < 2
    tested.set()


@pytest.mark.slow
@pytest.mark.parametrize(
    ("uri", "settings", "said"),
    [
        ("hdfs://127.0.0.1:1/out", StoreSettings(uri_prefix="hdfs://"), r"cannot connect to 127\.0\.0\.1:1"),
        (
            "s3://bucket/out",
            StoreSettings(uri_prefix="s3://", endpoint="http://127.0.0.1:1", credentials={"accessKeyId": "a", "accessKeySecret": "b"}),
            r"cannot connect to 127\.0\.0\.1:1",
        ),
        (
            "oss://bucket/out",
            StoreSettings(
                uri_prefix="oss://", endpoint="http://127.0.0.1:1", region="cn-a", credentials={"accessKeyId": "a", "accessKeySecret": "b"}
            ),
            r"cannot connect to 127\.0\.0\.1:1",
        ),
    ],
    ids=["hdfs", "s3", "oss"],
)
def test_a_store_that_is_not_there_is_named_within_the_limit(uri: str, settings: StoreSettings, said: str) -> None:
    began = time.monotonic()
    with pytest.raises(Unreachable, match=said):
        run_preflight(Access([settings]), uri, [])
    assert time.monotonic() - began < 30


@pytest.mark.store
def test_a_missing_right_on_hdfs_is_named(hdfs_cluster: HdfsCluster, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = f"/preflight/{uuid.uuid4().hex}"
    hdfs_cluster.mkdirs(folder, owner="alice", permission="555")
    monkeypatch.setenv("HADOOP_USER_NAME", "nobody")

    with pytest.raises(NotPermitted, match=rf"AccessDenied: user=nobody path={folder}/_dataprep/"):
        run_preflight(Access([StoreSettings(uri_prefix="hdfs://")]), f"{hdfs_cluster.uri}{folder}", [])


@pytest.mark.store
def test_a_good_hdfs_passes(hdfs_cluster: HdfsCluster) -> None:
    folder = f"/preflight/{uuid.uuid4().hex}"
    run_preflight(Access([StoreSettings(uri_prefix="hdfs://")]), f"{hdfs_cluster.uri}{folder}", [])
    assert hdfs_cluster.files(folder) == []


@pytest.mark.store
@pytest.mark.parametrize("right", ["oss:PutObject", "oss:GetObject", "oss:ListObjects", "oss:DeleteObject"])
def test_each_missing_right_on_oss_is_named(oss_fake: FakeOss, oss_settings: StoreSettings, right: str) -> None:
    oss_fake.deny(right)
    with pytest.raises(NotPermitted, match=rf"missing {right}s? .*on oss://{BUCKET}/preflight/_dataprep/"):
        run_preflight(Access([oss_settings]), f"oss://{BUCKET}/preflight", [])


@pytest.mark.store
def test_a_good_oss_passes(oss_fake: FakeOss, oss_settings: StoreSettings) -> None:
    folder = f"preflight/{uuid.uuid4().hex}"
    run_preflight(Access([oss_settings]), f"oss://{BUCKET}/{folder}", [])
    assert oss_fake.keys(BUCKET, folder) == []


@pytest.mark.store
def test_a_good_s3_passes_and_a_stranger_does_not(s3_server: S3Server, s3_settings: StoreSettings) -> None:
    folder = f"preflight/{uuid.uuid4().hex}"
    run_preflight(Access([s3_settings]), f"s3://{BUCKET}/{folder}", [])
    assert s3_server.keys(BUCKET, folder) == []

    s3_server.add_user("outsider", "outsider-secret")
    stranger = replace(s3_settings, credentials={"accessKeyId": "outsider", "accessKeySecret": "outsider-secret"})
    with pytest.raises(NotPermitted, match=rf"missing s3:PutObject on s3://{BUCKET}/{folder}/_dataprep/"):
        run_preflight(Access([stranger]), f"s3://{BUCKET}/{folder}", [])


@pytest.mark.parametrize(
    ("uri", "said"),
    [
        ("https://127.0.0.1:1/out", "nothing can be written to the web"),
        ("ftp://127.0.0.1:1/out", "dataprep doesn't write to ftp://"),
        ("s3://bucket/a.zip!/out", "is inside an archive"),
    ],
)
def test_an_output_on_a_store_that_is_only_read_is_refused_before_the_source_is_missing(uri: str, said: str, tmp_path: Path) -> None:
    job = parse_job({"source": {"text": {"uris": [str(tmp_path / "absent")]}}, "output": {"uri": uri}})
    with pytest.raises(BadSpec, match=said):
        run_plan_step(job, Access())
