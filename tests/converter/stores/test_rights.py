"""Rights and keys in complete jobs.

If a required right is missing, the preflight fails and names it. If an optional right is missing, there is only a warning.
"""

import json
import time
import uuid
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace

import pytest
from tests.converter.stores import small_jobs
from tests.converter.stores.places import Place, beginning, hdfs, oss, s3
from tests.converter.stores.small_jobs import SmallJob

from dataprep_converter.core.errors import BadCredentials, NotPermitted
from dataprep_converter.dataset.output_folder import OutputFolder
from dataprep_converter.dataset.stored_plan import load_plan
from dataprep_converter.inputs.access import Access
from dataprep_converter.steps import plan_step
from dataprep_converter.steps.conversion import convert_commit
from dataprep_converter.stores import StoreSettings
from storeservers import FakeOss, HdfsCluster, S3Server
from storeservers.oss import AccessKey

pytestmark = pytest.mark.store

OSS_RIGHTS = ["oss:PutObject", "oss:GetObject", "oss:ListObjects", "oss:DeleteObject"]
OSS_OPTIONAL = ["oss:AbortMultipartUpload", "oss:ListMultipartUploads", "oss:GetBucketVersioning"]
S3_RIGHTS = ["s3:PutObject", "s3:GetObject", "s3:ListBucket", "s3:DeleteObject"]
S3_OPTIONAL = ["s3:AbortMultipartUpload", "s3:ListBucketMultipartUploads", "s3:GetBucketVersioning"]
MIB = 1 << 20


@dataclass(frozen=True)
class Limited:
    """A place that is accessed by a key with limited permissions, and by its owner with full permissions."""

    place: Place
    """The place, accessed with the limited key."""
    owner: Place
    """The same place, accessed with full permissions."""
    deny: Callable[..., object]


@pytest.fixture
def limited_oss(request: pytest.FixtureRequest, oss_fake: FakeOss) -> Iterator[Limited]:
    owner = oss(request)

    def deny(*actions: str) -> None:
        oss_fake.add_key(AccessKey("limited", "its-secret", denied=frozenset(actions)))

    deny()
    settings = replace(owner.settings, credentials={"accessKeyId": "limited", "accessKeySecret": "its-secret"})
    yield Limited(replace(owner, settings=settings), owner, deny)
    oss_fake.remove_key("limited")


@pytest.fixture
def limited_s3(request: pytest.FixtureRequest, s3_server: S3Server) -> Limited:
    owner = s3(request)
    # Use a separate bucket, because the policy applies to the complete bucket.
    bucket, key = f"rights-{uuid.uuid4().hex}", f"limited-{uuid.uuid4().hex[:8]}"
    s3_server.make_bucket(bucket)
    s3_server.add_user(key, "its-secret")
    both = [f"arn:aws:s3:::{bucket}", f"arn:aws:s3:::{bucket}/*"]

    def deny(*actions: str) -> None:
        allowed = {"Effect": "Allow", "Principal": key, "Action": "s3:*", "Resource": both}
        # The server refuses policies in which the kind of resource doesn't match the action.
        refused = [{"Effect": "Deny", "Principal": key, "Action": each, "Resource": both["Bucket" not in each]} for each in actions]
        s3_server.set_policy(bucket, json.dumps({"Statement": [allowed, *refused]}))

    deny()

    def names(below: str = "") -> list[str]:
        return [key.removeprefix("folder/") for key in s3_server.keys(bucket, beginning("folder", below))]

    owner = replace(owner, root=f"s3://{bucket}/folder", names=names)
    settings = replace(owner.settings, credentials={"accessKeyId": key, "accessKeySecret": "its-secret"})
    return Limited(replace(owner, settings=settings), owner, deny)


def live(job: SmallJob, *settings: StoreSettings, output: str = "out") -> tuple[list[str], list[str]]:
    """Run all steps of a job. Return the warnings of its plan step and of its commit step, as they appear in the status."""
    written, access = job.to(output), Access(settings)
    planned = plan_step.run_plan_step(written, access)
    small_jobs.work(written, access, planned)
    folder = OutputFolder(written.spec.output.uri, access).of_run(planned.result.run_id)
    made = convert_commit.commit(written.spec, plan=load_plan(folder, planned.result.plan_sha256), access=access)
    return planned.result.warnings, made.warnings


def of_rows(of: Limited) -> SmallJob:
    """Return the job with the limited key. The owner has written its input."""
    return replace(small_jobs.of_rows(of.owner), place=of.place)


def a_dead_writer(of: Limited, name: str) -> None:
    """Leave an unfinished upload behind."""
    of.owner.store().create(of.owner.at(name)).write(bytes(9 * MIB))


def nothing_is_visible(place: Place, output: str = "out") -> bool:
    return not [name for name in small_jobs.listed(place, output) if not any(part[0] in "_." for part in name.split("/"))]


def refused_by_the_preflight(of: Limited, right: str) -> None:
    job = of_rows(of)
    # Access the source using a key with full permissions.
    source = replace(of.owner.settings, uri_prefix=of.owner.at("in"))
    of.deny(right)
    with pytest.raises(NotPermitted, match=rf"^missing {right}s? .*on {of.place.root}/out/_dataprep/"):
        live(job, of.place.settings, source)
    assert nothing_is_visible(of.owner)

    of.deny()
    assert live(job, of.place.settings) == ([], [])


@pytest.mark.parametrize("right", OSS_RIGHTS)
def test_each_right_of_oss_is_named_before_any_work(limited_oss: Limited, right: str) -> None:
    refused_by_the_preflight(limited_oss, right)


@pytest.mark.parametrize("right", S3_RIGHTS)
def test_each_right_of_s3_is_named_before_any_work(limited_s3: Limited, right: str) -> None:
    refused_by_the_preflight(limited_s3, right)


@pytest.mark.parametrize(("right", "source"), [("oss:GetObject", "in/rows.csv"), ("oss:ListObjects", "in/*.csv")])
def test_a_right_that_lacks_at_the_source_is_named_with_the_source(
    limited_oss: Limited, oss_fake: FakeOss, right: str, source: str
) -> None:
    job = small_jobs.of_rows(limited_oss.owner)
    uri = limited_oss.owner.at(source)
    job = replace(job, source={"csv": {**job.source["csv"], "uris": [uri]}})
    oss_fake.add_key(AccessKey("reader", "its-secret", denied=frozenset({right})))
    reader = replace(
        limited_oss.owner.settings,
        uri_prefix=limited_oss.owner.at("in"),
        credentials={"accessKeyId": "reader", "accessKeySecret": "its-secret"},
    )
    with pytest.raises(NotPermitted, match=rf"^missing {right} on {limited_oss.owner.at('in')}"):
        live(job, limited_oss.owner.settings, reader)
    assert small_jobs.listed(limited_oss.owner, "out") == []


@pytest.mark.parametrize("right", OSS_OPTIONAL)
def test_a_job_on_oss_works_without_any_optional_right(limited_oss: Limited, right: str) -> None:
    works_without(limited_oss, right)


@pytest.mark.parametrize("right", S3_OPTIONAL)
def test_a_job_on_s3_works_without_any_optional_right(limited_s3: Limited, right: str) -> None:
    works_without(limited_s3, right)


def works_without(of: Limited, right: str) -> None:
    job = of_rows(of)
    a_dead_writer(of, "out/dead.tfrecords")
    of.deny(right)
    before, after = live(job, of.place.settings)

    assert before == []
    if "Versioning" in right:
        assert after == []
    else:
        [warning] = after
        assert warning.startswith(f"missing {right} on {of.place.root}/out")
        assert ("1 unfinished uploads remain: " in warning and "dead.tfrecords" in warning) == ("Abort" in right)
        assert warning.endswith("give the bucket a lifecycle rule that removes unfinished uploads.")


def test_four_rights_are_enough_for_a_job_that_replaces_another(
    limited_oss: Limited, oss_fake: FakeOss, monkeypatch: pytest.MonkeyPatch
) -> None:
    small_jobs.least_parts(monkeypatch)
    job = replace(small_jobs.of_parts(limited_oss.owner), place=limited_oss.place)
    live(job, limited_oss.owner.settings)
    limited_oss.deny(*OSS_OPTIONAL, "oss:ListParts", "oss:GetBucket*")
    oss_fake.clear_requests()
    _, [warning] = live(replace(job, spec={"shuffle": {"seed": 1}}), limited_oss.place.settings)

    assert "oss:ListMultipartUploads" in warning
    granted = [each for each in oss_fake.requests() if each.access_key == "limited" and each.status < 400]
    assert {each.action for each in granted} == set(OSS_RIGHTS)
    assert "CompleteMultipartUpload" in {each.operation for each in granted}


def unseen(below: str = "") -> list[str]:
    """Stands in for `Place.names` in tests that don't check files. Returns no names."""
    del below
    return []


def test_a_bucket_that_keeps_versions_is_warned_of(request: pytest.FixtureRequest, oss_fake: FakeOss, s3_server: S3Server) -> None:
    bucket = f"versions-{uuid.uuid4().hex}"
    oss_fake.make_bucket(bucket, versioning="Enabled")
    place = replace(oss(request), root=f"oss://{bucket}/folder", names=unseen)
    [warning], _ = live(small_jobs.of_rows(place), place.settings)
    assert warning.startswith(f"The bucket {bucket} has versioning Enabled: OSS then can't forbid overwriting")

    s3_server.make_bucket(bucket)
    enabled = b"<VersioningConfiguration><Status>Enabled</Status></VersioningConfiguration>"
    s3_server.request("PUT", f"/{bucket}", query={"versioning": ""}, body=enabled)
    place = replace(s3(request), root=f"s3://{bucket}/folder", names=unseen)
    [warning], _ = live(small_jobs.of_rows(place), place.settings)
    assert warning.startswith(f"The bucket {bucket} has versioning Enabled: objects that jobs replace or remove are kept")


# -- keys ---------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({"accessKeyId": "nobody"}, "InvalidAccessKeyId"),
        ({"accessKeySecret": "wrong"}, "SignatureDoesNotMatch"),
        ({"accessKeyId": "sts", "accessKeySecret": "its-secret", "securityToken": "token"}, "SecurityTokenExpired"),
        ({"accessKeyId": "sts-2", "accessKeySecret": "its-secret", "securityToken": "another"}, "InvalidSecurityToken"),
        ({"accessKeyId": "sts-2", "accessKeySecret": "its-secret"}, "InvalidAccessKeyId"),
    ],
    ids=["key", "secret", "expired token", "wrong token", "no token"],
)
def test_a_key_that_oss_refuses_is_named_before_any_work(
    request: pytest.FixtureRequest, oss_fake: FakeOss, given: dict[str, str], said: str
) -> None:
    oss_fake.add_key(AccessKey("sts", "its-secret", "token", expires_at=time.time() - 60))
    oss_fake.add_key(AccessKey("sts-2", "its-secret", "token"))
    refused(oss(request), given, said)


@pytest.mark.parametrize(
    ("given", "said"),
    [({"accessKeyId": "nobody"}, "InvalidAccessKeyId"), ({"accessKeySecret": "wrong"}, "SignatureDoesNotMatch")],
    ids=["key", "secret"],
)
def test_a_key_that_s3_refuses_is_named_before_any_work(request: pytest.FixtureRequest, given: dict[str, str], said: str) -> None:
    refused(s3(request), given, said)


def refused(place: Place, given: dict[str, str], said: str) -> None:
    job = small_jobs.of_rows(place)
    settings = replace(place.settings, credentials={**place.settings.credentials, **given})
    with pytest.raises(BadCredentials, match=rf"at 127\.0\.0\.1:\d+ refused the credentials: 403 {said}") as error:
        live(job, settings)
    assert not any(secret in str(error.value) for secret in ("its-secret", "wrong", "another"))
    assert small_jobs.listed(place, "out") == []


# -- HDFS ---------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("denied", ["output", "source"])
def test_what_a_user_may_not_on_hdfs_is_named(
    request: pytest.FixtureRequest, hdfs_cluster: HdfsCluster, monkeypatch: pytest.MonkeyPatch, denied: str
) -> None:
    place = hdfs(request)
    job = small_jobs.of_rows(place)
    folder = place.root.removeprefix(hdfs_cluster.uri)
    hdfs_cluster.mkdirs(f"{folder}/out", owner="alice", permission="555" if denied == "output" else "777")
    hdfs_cluster.mkdirs(f"{folder}/secret", owner="alice", permission="700")
    uris = [place.at("secret/rows.csv" if denied == "source" else "in/rows.csv")]
    monkeypatch.setenv("HADOOP_USER_NAME", "nobody")

    path = f"{folder}/out/_dataprep" if denied == "output" else f"{folder}/secret"
    with pytest.raises(NotPermitted, match=rf"^AccessDenied: user=nobody path={path}"):
        live(replace(job, source={"csv": {**job.source["csv"], "uris": uris}}), place.settings)
    assert small_jobs.listed(place, "out") == []
