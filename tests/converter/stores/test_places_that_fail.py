"""Stores that fail in the middle of a job: the disk becomes full or read-only, or a permission is revoked.

The error names the cause, and no incomplete file is visible.
"""

import gc
import json
import os
import re
import subprocess
import traceback
from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import partial
from pathlib import Path

import pytest
from tests.availability import unavailable
from tests.converter.stores import small_jobs
from tests.converter.stores.crashing import CrashingAccess, Operations, Point
from tests.converter.stores.places import BUCKET, Place, azure, gcs, hdfs, in_folder, oss, s3, webhdfs
from tests.converter.stores.small_jobs import assert_nothing_broken, assert_whole

from dataprep_converter.core.errors import NotPermitted, StoreError, StoreFull
from dataprep_converter.inputs.access import Access
from dataprep_converter.stores.hdfs import hdfs as hdfs_store
from dataprep_converter.stores.hdfs.hdfs_border import USER_VARIABLE
from storeservers import AzureServer, FakeGcs, FakeOss, HdfsCluster, S3Server
from storeservers.faulty import Fault as ProxyFault
from storeservers.faulty import HttpProxy, Kind
from storeservers.oss import Fault

pytestmark = [pytest.mark.slow, pytest.mark.disk]

_NOBODY = 65534

PlaceMaker = Callable[[pytest.FixtureRequest], Place]


@pytest.fixture
def disk(tmp_path: Path) -> Iterator[Path]:
    """Mount a separate file system of 4 MiB."""
    folder = tmp_path / "disk"
    folder.mkdir()
    mounted = mount("-t", "tmpfs", "-o", "size=4m", "tmpfs", str(folder))
    if mounted.returncode != 0:
        unavailable(f"This test needs to mount a file system, which takes root: {mounted.stderr}")
    yield folder
    held = held_open(folder)
    # Unmount lazily, because other processes, such as a node's agent, might be using the file system.
    subprocess.run(["umount", "--lazy", str(folder)], check=True)  # noqa: S607 - the system's own
    assert held == []


def mount(*arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(["mount", *arguments], capture_output=True, text=True, check=False)  # noqa: S607 - see above


def held_open(folder: Path) -> list[str]:
    """Return the files below a folder that this process has open or mapped.

    Garbage is collected first, because error tracebacks still refer to the files' readers.
    """
    gc.collect()
    opened = [str(each.readlink()) if each.is_symlink() else "" for each in Path("/proc/self/fd").iterdir()]
    mapped = Path("/proc/self/maps").read_text(encoding="utf-8").splitlines()
    return [each for each in (*opened, *mapped) if f"{folder}/" in each]


@pytest.fixture(params=[68, pytest.param(17, marks=pytest.mark.nightly)], ids=lambda every: f"every {every}")
def every(request: pytest.FixtureRequest) -> int:
    """The number of store operations from one failure point to the next."""
    distance: int = request.param
    return distance


def points(count: int, every: int) -> list[Point]:
    return [Point(number, "before") for number in range(2, count, every)]


def failing(job: small_jobs.SmallJob, output: str, point: Point, spoil: Callable[[], object]) -> StoreError | None:
    """Run the job, and call `spoil` when the job reaches `point`. Return the job's error, or None if it succeeded."""
    try:
        small_jobs.live(job.to(output), CrashingAccess((job.place.settings,), Operations(point, lambda _: spoil())))
    except StoreError as exc:
        return exc
    return None


def counted(job: small_jobs.SmallJob) -> tuple[small_jobs.Whole, int]:
    small_jobs.live(job.to("whole"), Access([job.place.settings]))
    operations = Operations()
    small_jobs.live(job.to("counted"), CrashingAccess((job.place.settings,), operations))
    return small_jobs.whole(job.place, "whole"), len(operations.names)


def test_a_disk_that_gets_full_is_named_and_nothing_half_is_seen(disk: Path, every: int) -> None:
    place = in_folder(disk)
    job = small_jobs.of_rows(place)
    expected, count = counted(job)
    filler = disk / "filler"

    def fill() -> None:
        with filler.open("wb", buffering=0) as file:
            try:
                while file.write(bytes(4096)):
                    pass
            except OSError:
                return

    failures = 0
    for point in points(count, every):
        output = f"full-{point.number}"
        error = failing(job, output, point, fill)
        assert error is None or isinstance(error, StoreFull), error
        if error is not None:
            failures += 1
            assert str(error).startswith(f"No space or quota left for {disk}/{output}")
        assert_nothing_broken(place, output, expected)
        assert place.leftovers() == 0
        filler.unlink()
        small_jobs.live(job.to(output), Access())
        assert_whole(place, output, expected)
    assert failures >= len(points(count, every)) - 1


def test_a_disk_that_becomes_read_only_is_named_and_nothing_half_is_seen(disk: Path, every: int) -> None:
    place = in_folder(disk)
    job = small_jobs.of_rows(place)
    expected, count = counted(job)

    named = 0
    for point in points(count, every):
        output = f"ro-{point.number}"
        error = failing(job, output, point, lambda: mount("-o", "remount,ro", str(disk)))
        if error is not None:
            assert isinstance(error, NotPermitted), error
            assert "Read-only file system" in str(error)
            assert f"path={disk}/{output}" in str(error)
            named += 1
        assert_nothing_broken(place, output, expected)
        assert mount("-o", "remount,rw", str(disk)).returncode == 0
        small_jobs.live(job.to(output), Access())
        assert_whole(place, output, expected)
    assert named >= len(points(count, every)) // 2


def test_a_folder_that_may_no_longer_be_written_is_named_and_nothing_half_is_seen(disk: Path, every: int) -> None:
    place = in_folder(disk)
    job = small_jobs.of_rows(place)
    expected, count = counted(job)
    for point in points(count, every):
        output = f"no-{point.number}"
        folder = disk / output
        folder.mkdir()
        os.chown(folder, _NOBODY, _NOBODY)

        def forbid(folder: Path = folder) -> None:
            for each in (folder, *(found for found in folder.rglob("*") if found.is_dir())):
                each.chmod(0o555)

        child = os.fork()
        if child == 0:
            # The threads of clients that earlier tests left behind exist only in the parent. So the child would wait forever if it
            # destroyed these clients.
            gc.freeze()
            code = 1
            try:
                os.setuid(_NOBODY)
                error = failing(job, output, point, forbid)
                assert isinstance(error, NotPermitted), error
                assert "AccessDenied: user=nobody (uid 65534) path=" in str(error)
                code = 0
            except BaseException:
                traceback.print_exc()
            finally:
                os._exit(code)
        assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
        assert_nothing_broken(place, output, expected)
        for each in (folder, *(found for found in folder.rglob("*") if found.is_dir())):
            each.chmod(0o755)
        small_jobs.live(job.to(output), Access())
        assert_whole(place, output, expected)


def is_named(
    job: small_jobs.SmallJob,
    output: str,
    point: Point,
    expected: small_jobs.Whole,
    right: str,
    *,
    take: Callable[[], object],
    give_back: Callable[[], object],
) -> bool:
    """Revoke the permission at the point.

    Return whether the job failed because it still needed the permission. If the job failed, check that the error names the permission, and
    that the data set becomes complete once the permission is granted again.
    """
    error = failing(job, output, point, take)
    if error is not None:
        assert isinstance(error, NotPermitted), error
        assert f"missing {right}" in str(error)
    give_back()
    assert_nothing_broken(job.place, output, expected)
    small_jobs.live(job.to(output), Access([job.place.settings]))
    assert_whole(job.place, output, expected)
    return error is not None


@pytest.mark.store
def test_an_oss_right_that_is_taken_away_half_way_is_named(request: pytest.FixtureRequest, oss_fake: FakeOss, every: int) -> None:
    place = oss(request)
    job = small_jobs.of_rows(place)
    expected, count = counted(job)
    named = 0
    for right in ("oss:PutObject", "oss:GetObject", "oss:ListObjects"):
        for point in points(count, every)[::2]:
            output = f"{right[4:]}-{point.number}"
            named += is_named(job, output, point, expected, right, take=partial(oss_fake.deny, right), give_back=oss_fake.deny)
    assert named >= 5


@pytest.mark.store
def test_a_quota_of_oss_that_is_used_up_is_named_and_nothing_half_is_seen(
    request: pytest.FixtureRequest, oss_fake: FakeOss, monkeypatch: pytest.MonkeyPatch, every: int
) -> None:
    small_jobs.least_parts(monkeypatch)
    place = oss(request)
    job = small_jobs.of_parts(place)
    expected, count = counted(job)
    used_up = Fault(kind="error", method="PUT", status=403, code="QuotaExceeded", count=1000)
    named = 0
    for point in points(count, every)[::2]:
        output = f"{point.number}"
        error = failing(job, output, point, lambda: oss_fake.inject(used_up))
        if error is not None:
            assert isinstance(error, StoreFull), error
            assert str(error).startswith(f"No space or quota left for {place.at(output)}")
            named += 1
        oss_fake.clear_faults()
        assert place.leftovers(output) == 0
        assert_nothing_broken(place, output, expected)
        small_jobs.live(job.to(output), Access([place.settings]))
        assert_whole(place, output, expected)
    assert named >= 2


@pytest.mark.store
@pytest.mark.parametrize(
    ("made", "quota"),
    # While a file is being written, each of its two replicas counts as a full block. So the quota has room for a first file, but not for
    # another file once a few kilobytes are used.
    [
        (hdfs, {"names": 5}),
        (hdfs, {"names": 8}),
        (hdfs, {"space_bytes": 2 * (128 << 20) + 4096}),
        (webhdfs, {"space_bytes": 2 * (128 << 20) + 4096}),
    ],
    ids=["names of the plan", "names of the shards", "space", "space, webhdfs"],
)
def test_a_quota_of_hdfs_that_is_used_up_is_named_and_nothing_half_is_seen(
    request: pytest.FixtureRequest, hdfs_cluster: HdfsCluster, made: PlaceMaker, quota: dict[str, int]
) -> None:
    place = made(request)
    job = small_jobs.of_rows(place)
    small_jobs.live(job.to("whole"), Access([place.settings]))
    expected = small_jobs.whole(place, "whole")
    folder = path_of(place, "out")
    hdfs_cluster.mkdirs(folder, permission="777")
    hdfs_cluster.set_quota(folder, **quota)
    with pytest.raises(StoreFull, match=rf"No quota left for {folder}/.*quota"):
        small_jobs.live(job.to("out"), Access([place.settings]))
    assert place.leftovers("out") == 0
    assert_nothing_broken(place, "out", expected)
    hdfs_cluster.set_quota(folder, names=1000, space_bytes=1 << 40)
    small_jobs.live(job.to("out"), Access([place.settings]))
    assert_whole(place, "out", expected)


def path_of(place: Place, name: str) -> str:
    """Return a file's path on HDFS."""
    return "/" + place.at(name).partition("://")[2].partition("/")[2]


@pytest.mark.store
@pytest.mark.parametrize("made", [hdfs, webhdfs])
def test_a_right_of_hdfs_that_is_taken_away_half_way_is_named(
    request: pytest.FixtureRequest, hdfs_cluster: HdfsCluster, made: PlaceMaker, monkeypatch: pytest.MonkeyPatch
) -> None:
    # The tests run as HDFS's superuser, who has all permissions. hdfs-native reads the user's name from this variable when a store is
    # created.
    monkeypatch.setattr(hdfs_store, "_users", {})
    monkeypatch.setenv(USER_VARIABLE, "nobody")
    whole = made(request)
    hdfs_cluster.mkdirs(path_of(whole, "out").removesuffix("/out"), owner="nobody")
    place = replace(whole, settings=replace(whole.settings, user="nobody"))
    job = small_jobs.of_rows(place)
    operations = Operations()
    small_jobs.live(job.to("whole"), CrashingAccess((place.settings,), operations))
    expected = small_jobs.whole(place, "whole")
    made_shards = [number for number, name in enumerate(operations.names, start=1) if re.fullmatch(r"commit .*\.tfrecords", name)]

    assert len(made_shards) == 2
    for after, permission, missing in zip(made_shards, ("555", "000"), ("WRITE", "EXECUTE"), strict=True):
        output = f"{after}-{permission}"
        folder = path_of(place, output)
        error = failing(job, output, Point(after, "after"), partial(hdfs_cluster.set_permission, folder, permission))
        assert isinstance(error, NotPermitted), error
        assert str(error).startswith(f"AccessDenied: user=nobody path={folder}/"), error
        assert f"(needs {missing} on " in str(error), error
        assert "_SUCCESS" not in small_jobs.listed(place, output)
        hdfs_cluster.set_permission(folder, "755")
        assert_nothing_broken(place, output, expected)
        small_jobs.live(job.to(output), Access([place.settings]))
        assert_whole(place, output, expected)


@pytest.mark.store
def test_a_right_of_s3_that_is_taken_away_half_way_is_named(request: pytest.FixtureRequest, s3_server: S3Server, every: int) -> None:
    whole = s3(request)
    s3_server.add_user("half-way", "half-way-secret")
    place = replace(whole, settings=replace(whole.settings, credentials={"accessKeyId": "half-way", "accessKeySecret": "half-way-secret"}))

    def allow(*denied: str) -> None:
        everything = [
            {
                "Effect": "Allow",
                "Principal": "half-way",
                "Action": "s3:*",
                "Resource": [f"arn:aws:s3:::{BUCKET}", f"arn:aws:s3:::{BUCKET}/*"],
            }
        ]
        refused = [{"Effect": "Deny", "Principal": "half-way", "Action": each, "Resource": f"arn:aws:s3:::{BUCKET}/*"} for each in denied]
        s3_server.set_policy(BUCKET, json.dumps({"Statement": [*everything, *refused]}))

    allow()
    job = small_jobs.of_rows(place)
    expected, count = counted(job)
    named = 0
    for right in ("s3:PutObject", "s3:GetObject"):
        for point in points(count, every)[::2]:
            output = f"{right[3:]}-{point.number}"
            error = failing(job, output, point, lambda right=right: allow(right))  # type: ignore[misc] # see above
            if error is not None:
                assert isinstance(error, NotPermitted), error
                assert f"missing {right}" in str(error)
                named += 1
            allow()
            assert_nothing_broken(place, output, expected)
            small_jobs.live(job.to(output), Access([place.settings]))
            assert_whole(place, output, expected)
    assert named >= 3


@pytest.mark.store
@pytest.mark.parametrize(
    ("made", "server", "status", "code", "shard"),
    [
        (s3, "s3_server", 403, "QuotaExceeded", r"train-00001-of-00002\.tfrecords"),
        # Cloud Storage joins the parts of an upload under a hidden name.
        (gcs, "gcs_fake", 403, "QuotaExceeded", r"\.dataprep-tmp-train-00001-of-00002\.tfrecords-\w+"),
        (azure, "azure_server", 507, "InsufficientStorage", r"train-00001-of-00002\.tfrecords"),
    ],
    ids=["s3", "gcs", "azure"],
)
def test_a_quota_of_objects_that_is_used_up_is_named_and_nothing_half_is_seen(
    request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch, made: PlaceMaker, server: str, status: int, code: str, shard: str
) -> None:
    """These servers don't support quotas, so a proxy sends the error that real services send."""
    running = request.getfixturevalue(server)
    with HttpProxy(running.port, expired=code, status=status) as proxy:
        place = made(request)
        small_jobs.least_parts(monkeypatch, place)
        place = replace(place, settings=replace(place.settings, endpoint=running.endpoint.replace(f":{running.port}", f":{proxy.port}")))
        job = small_jobs.of_parts(place)
        operations = Operations()
        small_jobs.live(job.to("whole"), CrashingAccess((place.settings,), operations))
        expected = small_jobs.whole(place, "whole")
        made_shards = [number for number, name in enumerate(operations.names, start=1) if re.fullmatch(r"commit .*\.tfrecords", name)]
        # In one run, refuse the last part of the second shard or the completion of its upload. In another run, refuse the shard's report.
        for number, written in (
            (made_shards[1], shard),
            (made_shards[1] + 1, r"_dataprep/\w+/reports/00000001\.json"),
        ):
            output = f"full-{number}"
            error = failing(job, output, Point(number, "before"), lambda: proxy.arm([ProxyFault(1, Kind.EXPIRED)]))
            assert isinstance(error, StoreFull), error
            assert re.match(rf"No space or quota left for {place.at(output)}/{written}: {status} {code} ", str(error)), error
            proxy.arm()
            assert place.leftovers(output) == 0
            assert_nothing_broken(place, output, expected)
            small_jobs.live(job.to(output), Access([place.settings]))
            assert_whole(place, output, expected)


@pytest.mark.store
def test_a_right_of_azure_that_is_taken_away_half_way_is_named(
    request: pytest.FixtureRequest, azure_server: AzureServer, every: int
) -> None:
    everything = "racwdl"
    azure_server.set_policy(BUCKET, "half-way", everything)
    whole = azure(request)
    signature = azure_server.shared_access_by(BUCKET, "half-way")
    place = replace(whole, settings=replace(whole.settings, credentials={"sasToken": signature}))
    job = small_jobs.of_rows(place)
    expected, count = counted(job)
    named = 0
    for right, letters in (("blobs/write (SAS: c and w)", "cw"), ("blobs/read (SAS: r)", "r"), ("blobs/read (SAS: l)", "l")):
        rest = everything.translate(dict.fromkeys(map(ord, letters)))
        for point in points(count, every)[::4]:
            output = f"{letters}-{point.number}"
            take, give_back = (partial(azure_server.set_policy, BUCKET, "half-way", allowed) for allowed in (rest, everything))
            named += is_named(job, output, point, expected, right, take=take, give_back=give_back)
    assert named >= 3


@pytest.mark.store
def test_a_right_of_cloud_storage_that_is_taken_away_half_way_is_named(
    request: pytest.FixtureRequest, gcs_fake: FakeGcs, every: int
) -> None:
    place = gcs(request)
    job = small_jobs.of_rows(place)
    expected, count = counted(job)
    named = 0
    rights = [f"storage.objects.{each}" for each in ("create", "get", "list", "delete")]
    # Uploads in parts need separate permissions, which this test doesn't revoke.
    in_parts = [f"storage.multipartUploads.{each}" for each in ("create", "list", "abort")]
    for right in rights[:3]:
        for point in points(count, every)[::4]:
            output = f"{right}-{point.number}"
            others = [each for each in rights if each != right] + in_parts
            named += is_named(job, output, point, expected, right, take=partial(gcs_fake.allow, others), give_back=gcs_fake.allow)
    assert named >= 3
