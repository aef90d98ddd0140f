"""The stores' documentation pages are correct: each example job runs on a test server, and each quoted error is the real one.

In an example job, only endpoints, hosts and mounted folders are replaced by those of the test servers (`here` in each test). The Secret
contains the server's key. The bucket is in the path, because test servers have addresses but no host names. test_hdfs_kerberos.py tests
Kerberos, including a token for HTTP, and test_hdfs_pair.py tests a standby NameNode.
"""

import errno
import json
import os
import re
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Final

import pyarrow as pa
import pytest
from tests.converter.stores import pages, small_jobs
from tests.converter.stores.ftp import put
from tests.converter.stores.site import Site

from dataprep_api.dataset.messages import CommitResult
from dataprep_api.resources.job import DataPrepJob
from dataprep_api.spec import Source, Store
from dataprep_converter.core.errors import ConvertError
from dataprep_converter.inputs.access import Access
from dataprep_converter.inputs.store_settings import settings_for
from dataprep_converter.steps import preflight
from dataprep_converter.stores import StoreSettings
from dataprep_converter.stores.hdfs import hdfs, hdfs_border
from dataprep_converter.tools.verification import verify
from storeservers import AzureServer, FakeGcs, FakeOss, HdfsCluster, S3Server
from storeservers.odps import FakeMaxCompute, rows_of

WITHOUT_A_JOB: Final = frozenset({"credentials.md"})
"""This page is about the credentials of several stores and has no job.

Its roles and rights are tested in test_alibaba_roles.py, test_aws_roles.py and test_rights.py.
"""

CLOSED: Final = "127.0.0.1:1"
"""An address at which no server listens."""
MISSING: Final = "When a step is missing"
ROWS: Final = b"x,label\n1,0\n2,1\n3,0\n"

Here = Mapping[str, str]
Found = tuple[ConvertError, Here]
"""An error, and the replacements for the names on its page."""


@dataclass(frozen=True)
class Page:
    """A page of the documentation, with the replacements for its names."""

    name: str
    here: Here
    mounts: Path
    """The folder with the files that the operator would mount."""

    @property
    def job(self) -> DataPrepJob:
        return pages.example(self.name, self.here)

    def settings(self, secret: Mapping[str, str] | None = None, stores: Sequence[Store] | None = None) -> list[StoreSettings]:
        """Return the settings of the job's stores, with this Secret."""
        folder = self.mounts / "secrets" / "0"
        folder.mkdir(parents=True, exist_ok=True)
        for file in folder.iterdir():
            file.unlink()
        for key, value in (secret or {}).items():
            (folder / key).write_text(value)
        found = settings_for(self.job.spec.stores if stores is None else stores, str(self.mounts))
        return [replace(each, path_style=True) for each in found]


def run(page: Page, settings: Sequence[StoreSettings]) -> CommitResult:
    """Run all steps of the page's job, including the preflight."""
    made = small_jobs.live(page.job, Access(settings))
    assert verify(page.job.spec.output.uri, Access(settings)).records_out == 3
    return made


def refused(settings: Sequence[StoreSettings], output: str, *sources: str) -> ConvertError:
    """Return the error of the preflight."""
    with pytest.raises(ConvertError) as found:
        preflight.preflight(Access(settings), output, sources)
    return found.value


def refused_plan(page: Page, settings: Sequence[StoreSettings]) -> ConvertError:
    """Return the error of the plan step after the preflight."""
    with pytest.raises(ConvertError) as found:
        small_jobs.plan(page.job, Access(settings))
    return found.value


def refused_settings(make: Callable[[], object]) -> ConvertError:
    """Return the error that is raised before any request to a store."""
    with pytest.raises(ConvertError) as found:
        make()
    return found.value


def assert_quoted(page: str, found: Iterator[Found], *, elsewhere: Collection[str] = ()) -> None:
    """Check that the errors in the page's table are the real ones, in the same order.

    Rows whose steps are in `elsewhere` are skipped, because other tests cover them.
    """
    real = list(found)
    rows = pages.rows(page, MISSING)
    assert {step for step, _ in rows} >= set(elsewhere)
    quoted = [error for step, error in rows if step not in elsewhere]
    assert len(quoted) == len(real)
    for line, (error, here) in zip(quoted, real, strict=True):
        assert pages.says(line, str(error), here), f"{line} is really: {error}"


@pytest.fixture(autouse=True)
def short(monkeypatch: pytest.MonkeyPatch) -> None:
    """Retry only for a short time, and ignore keys of the machine's user."""
    monkeypatch.setattr(preflight, "_RETRY_SECONDS", 0.3)
    for name in os.environ:
        if name.startswith(("AWS_", "OSS_", "ODPS_", "ALIBABA_", "HADOOP_", "AZURE_", "GOOGLE_", "CLOUDSDK_", "STORAGE_")):
            monkeypatch.delenv(name)


def test_every_page_is_tested() -> None:
    tested = {"hdfs.md", "webhdfs.md", "oss.md", "s3.md", "gcs.md", "azure.md", "nas.md", "maxcompute.md", "web.md", "fsspec.md"}
    assert {page.name for page in pages.FOLDER.glob("*.md")} - WITHOUT_A_JOB == tested
    assert all("kind: DataPrepJob" not in (pages.FOLDER / name).read_text() for name in WITHOUT_A_JOB)


# -- HDFS -----------------------------------------------------------------------------------------------------------------


def fill(cluster: HdfsCluster) -> None:
    """Make the source and the output folder, which are the same in the jobs of both pages."""
    cluster.mkdirs("/raw/rows")
    cluster.write("/raw/rows/rows.csv", ROWS)
    if cluster.exists("/training"):
        cluster.delete("/training")
    cluster.mkdirs("/training", owner="etl")


@pytest.fixture
def hdfs_page(hdfs_cluster: HdfsCluster, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Page:
    """Return the page. During the test, this process acts as the page's user."""
    monkeypatch.setattr(hdfs, "_users", {})
    monkeypatch.setenv(hdfs_border.USER_VARIABLE, "")
    fill(hdfs_cluster)
    return Page("hdfs.md", {"nn1.example:8020": f"{hdfs_cluster.host}:{hdfs_cluster.port}"}, tmp_path)


@pytest.mark.store
def test_the_job_of_hdfs_runs(hdfs_page: Page, hdfs_cluster: HdfsCluster) -> None:
    made = run(hdfs_page, hdfs_page.settings())
    assert {file.replication for file in made.outputs} == {1}
    shard = next(each for each in hdfs_cluster.files("/training/rows") if "/_" not in each.path and "/." not in each.path)
    assert (shard.owner, shard.replication, shard.block_size) == ("etl", 1, 16 << 20)


@pytest.mark.store
def test_the_errors_of_hdfs_are_real(hdfs_page: Page, hdfs_cluster: HdfsCluster) -> None:
    def found() -> Iterator[Found]:
        settings, here, root = hdfs_page.settings(), hdfs_page.here, hdfs_cluster.uri
        hdfs_cluster.mkdirs("/closed")
        hdfs_cluster.mkdirs("/secret", permission="700")
        yield refused(settings, f"hdfs://{CLOSED}/out"), {"nn1.example:8020": CLOSED}
        yield refused(settings, "hdfs://nn.invalid:8020/out"), here
        yield refused(settings, f"{root}/closed/rows"), here
        yield refused(settings, f"{root}/training/rows", f"{root}/secret"), here
        yield refused(settings, f"{root}/training/rows", f"{root}/nothing"), here
        yield refused(settings, "hdfs://ns1/training/rows"), here
        with_configuration = [Store.model_validate({"uriPrefix": "hdfs://", "configMapRef": {"name": "hadoop"}})]
        yield refused_settings(lambda: hdfs_page.settings(stores=with_configuration)), here

    assert_quoted("hdfs.md", found())


# -- HDFS over HTTP -------------------------------------------------------------------------------------------------------


@pytest.fixture
def webhdfs_page(hdfs_cluster: HdfsCluster, tmp_path: Path) -> Page:
    fill(hdfs_cluster)
    return Page("webhdfs.md", {"nn1.example:9870": hdfs_cluster.http_address}, tmp_path)


@pytest.mark.store
def test_the_job_of_webhdfs_runs(webhdfs_page: Page, hdfs_cluster: HdfsCluster) -> None:
    made = run(webhdfs_page, webhdfs_page.settings())
    assert {file.replication for file in made.outputs} == {1}
    shard = next(each for each in hdfs_cluster.files("/training/rows") if "/_" not in each.path and "/." not in each.path)
    assert (shard.owner, shard.replication, shard.block_size) == ("etl", 1, 16 << 20)


@pytest.mark.store
def test_the_errors_of_webhdfs_are_real(webhdfs_page: Page, hdfs_cluster: HdfsCluster, site: Site) -> None:
    def found() -> Iterator[Found]:
        settings, here, root = webhdfs_page.settings(), webhdfs_page.here, f"webhdfs://{hdfs_cluster.http_address}"
        hdfs_cluster.mkdirs("/training/closed")
        hdfs_cluster.mkdirs("/full", owner="etl")
        hdfs_cluster.set_quota("/full", names=1)
        yield refused(settings, f"webhdfs://{CLOSED}/out"), {"nn1.example:9870": CLOSED}
        yield refused(settings, f"{root}/training/closed/rows"), here
        other = site.at("").partition("://")[2].rstrip("/")
        yield refused(settings, f"webhdfs://{other}/out", f"webhdfs://{other}/raw/rows"), {"nn1.example:9870": other}
        yield refused(settings, f"{root}/full/rows"), here

    assert_quoted("webhdfs.md", found(), elsewhere={"a valid token", "the whole text of a token", "the active NameNode"})


# -- OSS ------------------------------------------------------------------------------------------------------------------


@pytest.fixture
def oss_page(oss_fake: FakeOss, tmp_path: Path) -> Iterator[Page]:
    oss_fake.make_bucket("my-bucket")
    oss_fake.write("my-bucket", "raw/rows/rows.csv", ROWS)
    yield Page("oss.md", {"https://oss-cn-shenzhen-internal.aliyuncs.com": oss_fake.endpoint, "cn-shenzhen": oss_fake.region}, tmp_path)
    oss_fake.deny()


def oss_secret(fake: FakeOss) -> dict[str, str]:
    return {"accessKeyId": fake.access_key, "accessKeySecret": fake.secret_key}


def policies(page: str) -> list[list[str]]:
    """Return the actions of each policy on a page."""
    written = [json.loads(each) for each in re.findall(r"```json\n(.*?)```", (pages.FOLDER / page).read_text(), re.DOTALL)]

    def actions(statement: dict[str, Any]) -> list[str]:  # Any: JSON
        action = statement["Action"]
        return [action] if isinstance(action, str) else action

    return [[action for statement in each["Statement"] for action in actions(statement)] for each in written]


@pytest.mark.store
def test_the_job_of_oss_runs_with_just_the_rights_of_the_policy(oss_page: Page, oss_fake: FakeOss) -> None:
    needed, optional = policies("oss.md")
    assert sorted(needed) == ["oss:DeleteObject", "oss:GetObject", "oss:ListObjects", "oss:PutObject"]
    oss_fake.deny(*optional, "oss:GetBucket*")
    run(oss_page, oss_page.settings(oss_secret(oss_fake)))


@pytest.mark.store
def test_the_errors_of_oss_are_real(oss_page: Page, oss_fake: FakeOss) -> None:
    peer = oss_fake.endpoint.partition("://")[2]
    here = {**oss_page.here, "oss-cn-shenzhen-internal.aliyuncs.com:443": peer}
    output = oss_page.job.spec.output.uri

    def found() -> Iterator[Found]:
        settings = oss_page.settings(oss_secret(oss_fake))
        yield refused([replace(settings[0], uri_prefix="oss://")], output, "oss://other-bucket/raw"), here
        yield refused([replace(settings[0], endpoint=f"http://{CLOSED}")], output, "oss://my-bucket/raw/rows"), here
        yield refused([replace(settings[0], endpoint="https://oss.example", region=None)], output), here
        yield refused([replace(settings[0], region="cn-beijing")], output, "oss://my-bucket/raw/rows"), here
        for right in ("oss:PutObject", "oss:GetObject", "oss:ListObjects", "oss:DeleteObject*"):
            oss_fake.deny(right)
            yield refused(settings, output), here
        oss_fake.deny()
        yield refused_settings(lambda: oss_page.settings({"accessKeyId": "x"})), here
        yield refused(oss_page.settings({"accessKeyId": oss_fake.access_key, "accessKeySecret": "another"}), output), here
        yield refused(settings, output, "oss://my-bucket/nothing"), here

    assert_quoted("oss.md", found())


# -- S3 -------------------------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def s3_bucket(s3_server: S3Server) -> S3Server:
    """Return the server with the page's bucket, and a user who has no rights."""
    s3_server.make_bucket("my-bucket")
    s3_server.write("my-bucket", "raw/rows/rows.csv", ROWS)
    s3_server.add_user("etl", "of etl")
    return s3_server


@pytest.fixture
def s3_page(s3_bucket: S3Server, tmp_path: Path) -> Page:
    return Page("s3.md", {"https://s3.us-east-1.amazonaws.com": s3_bucket.endpoint}, tmp_path)


def allow(server: S3Server, *, but: str = "") -> None:
    """Apply the page's policy for the user to the bucket, without the action `but`."""
    [written] = re.findall(r"```json\n(.*?)```", (pages.FOLDER / "s3.md").read_text(), re.DOTALL)
    policy = json.loads(written)
    for statement in policy["Statement"]:
        statement["Principal"] = {"AWS": ["etl"]}
        statement["Action"] = [action for action in statement["Action"] if action != but]
    server.set_policy("my-bucket", json.dumps(policy))


ETL: Final = {"accessKeyId": "etl", "accessKeySecret": "of etl"}


@pytest.mark.store
def test_the_job_of_s3_runs_with_the_policy(s3_page: Page, s3_server: S3Server) -> None:
    allow(s3_server)
    run(s3_page, s3_page.settings(ETL))


@pytest.mark.store
def test_the_errors_of_s3_are_real(s3_page: Page, s3_server: S3Server) -> None:
    here = {**s3_page.here, "s3.us-east-1.amazonaws.com:443": s3_server.endpoint.partition("://")[2]}
    output = s3_page.job.spec.output.uri

    def found() -> Iterator[Found]:
        settings = s3_page.settings(ETL)
        yield refused(settings, output, "s3://other-bucket/raw"), here
        yield refused([replace(settings[0], endpoint=f"http://{CLOSED}")], output), here
        for right in ("s3:PutObject", "s3:GetObject", "s3:ListBucket", "s3:DeleteObject"):
            allow(s3_server, but=right)
            yield refused(settings, output), here
        allow(s3_server)
        yield refused_settings(lambda: s3_page.settings({"accessKeyId": "x"})), here
        yield refused(s3_page.settings({**ETL, "accessKeySecret": "another"}), output), here
        yield refused(settings, output, "s3://my-bucket/nothing"), here

    assert_quoted("s3.md", found())


# -- Cloud Storage --------------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def gcs_bucket(gcs_fake: FakeGcs) -> FakeGcs:
    """Return the fake with the page's bucket."""
    gcs_fake.make_bucket("my-bucket")
    settings = StoreSettings("gs://", endpoint=gcs_fake.endpoint, credentials=gcs_secret(gcs_fake))
    Access([settings]).store("gs://my-bucket").put("gs://my-bucket/raw/rows/rows.csv", ROWS)
    return gcs_fake


@pytest.fixture
def gcs_page(gcs_bucket: FakeGcs, tmp_path: Path) -> Iterator[Page]:
    yield Page("gcs.md", {"https://storage.googleapis.com": gcs_bucket.endpoint}, tmp_path)
    gcs_bucket.allow()


def gcs_secret(fake: FakeGcs) -> dict[str, str]:
    return {"serviceAccountKey": fake.service_account_key}


def gcs_rights() -> list[str]:
    """Return the rights that the role needs according to the page."""
    [needed] = re.findall(r"The rights used are ([^;]*);", (pages.FOLDER / "gcs.md").read_text())
    return re.findall(r"`(storage\.\w+\.\w+)`", needed)


@pytest.mark.store
def test_the_job_of_gcs_runs_with_just_the_rights_of_the_page(gcs_page: Page, gcs_fake: FakeGcs) -> None:
    gcs_fake.allow(gcs_rights())
    run(gcs_page, gcs_page.settings(gcs_secret(gcs_fake)))


@pytest.mark.store
def test_the_errors_of_gcs_are_real(gcs_page: Page, gcs_fake: FakeGcs, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    here = {**gcs_page.here, "storage.googleapis.com:443": gcs_fake.endpoint.partition("://")[2]}
    output = gcs_page.job.spec.output.uri

    def found() -> Iterator[Found]:
        settings = gcs_page.settings(gcs_secret(gcs_fake))
        yield refused(settings, output, "gs://other-bucket/raw"), here
        yield refused([replace(settings[0], endpoint=f"http://{CLOSED}")], output), here
        for right in ("storage.objects.create", "storage.objects.get", "storage.objects.list", "storage.objects.delete"):
            gcs_fake.allow([each for each in gcs_rights() if each != right])
            yield refused(settings, output), here
        gcs_fake.allow()
        yield refused_settings(lambda: gcs_page.settings({"key.json": "{}"})), here
        strange = FakeGcs(tmp_path / "strange")
        key = strange.service_account_key.replace(strange.endpoint, gcs_fake.endpoint)
        yield refused(gcs_page.settings({"serviceAccountKey": key}), output), here
        # Make it appear that this machine is outside Google Cloud, and that its user isn't logged in there.
        monkeypatch.setenv("NO_GCE_CHECK", "true")
        monkeypatch.setenv("CLOUDSDK_CONFIG", str(tmp_path))
        yield refused([replace(settings[0], credentials={})], output), here

    assert_quoted("gcs.md", found())


# -- Azure ----------------------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def azure_container(azure_server: AzureServer) -> AzureServer:
    """Return the server with the page's container."""
    azure_server.make_container("my-container")
    settings = StoreSettings("abfs://", endpoint=azure_server.endpoint, credentials={"accountKey": azure_server.key})
    root = f"abfs://my-container@{azure_server.account}.dfs.core.windows.net"
    Access([settings]).store(root).put(f"{root}/raw/rows/rows.csv", ROWS)
    return azure_server


@pytest.fixture
def azure_page(azure_container: AzureServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Page:
    monkeypatch.setenv("AZURE_POD_IDENTITY_AUTHORITY_HOST", f"http://{CLOSED}")  # makes this machine appear to be outside Azure
    here = {"https://myaccount.blob.core.windows.net": azure_container.endpoint, "myaccount": azure_container.account}
    return Page("azure.md", here, tmp_path)


def azure_letters() -> str:
    """Return the letters of the permissions that a signature needs according to the page."""
    [letters] = re.findall(r"A shared access signature needs `(\w+)`", (pages.FOLDER / "azure.md").read_text())
    return str(letters)


@pytest.mark.store
@pytest.mark.parametrize("key", ["accountKey", "sasToken"])
def test_the_job_of_azure_runs(azure_page: Page, azure_server: AzureServer, key: str) -> None:
    for blob in azure_server.keys("my-container", "training/"):
        azure_server.request("DELETE", f"my-container/{blob}")
    value = azure_server.key if key == "accountKey" else azure_server.shared_access(azure_letters())
    run(azure_page, azure_page.settings({key: value}))


@pytest.mark.store
def test_the_errors_of_azure_are_real(azure_page: Page, azure_server: AzureServer) -> None:
    here = {**azure_page.here, "myaccount.blob.core.windows.net:443": f"{azure_server.host}:{azure_server.port}"}
    output = azure_page.job.spec.output.uri

    def found() -> Iterator[Found]:
        settings = azure_page.settings({"accountKey": azure_server.key})
        other = output.replace("my-container", "other-container")
        yield refused([replace(settings[0], uri_prefix="abfs://")], output, other), here
        yield refused([replace(settings[0], endpoint=f"http://{CLOSED}/{azure_server.account}")], output), here
        for letters in ("cw", "r", "l", "d"):
            given = "".join(each for each in azure_letters() if each not in letters)
            yield refused(azure_page.settings({"sasToken": azure_server.shared_access(given)}), output), here
        yield refused_settings(lambda: azure_page.settings({"key": "x"})), here
        yield refused(azure_page.settings({"accountKey": "d3Jvbmc="}), output), here
        yield refused([replace(settings[0], credentials={})], output), here

    assert_quoted("azure.md", found())


# -- mounted volumes ------------------------------------------------------------------------------------------------------


@pytest.fixture
def nas(tmp_path: Path) -> Path:
    """Make the folder of the mounted volume."""
    (tmp_path / "nas/raw/rows").mkdir(parents=True)
    (tmp_path / "nas/raw/rows/rows.csv").write_bytes(ROWS)
    (tmp_path / "nas/training").mkdir()
    return tmp_path / "nas"


def test_the_job_of_nas_runs(nas: Path, tmp_path: Path) -> None:
    page = Page("nas.md", {"/mnt/nas": str(nas)}, tmp_path)
    [mount] = pages.example("nas.md", {}).spec.workers.volume_mounts or []
    assert mount.model_dump(by_alias=True)["mountPath"] == "/mnt/nas"
    run(page, page.settings())


def test_the_errors_of_nas_are_real(nas: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    output = f"{nas}/training/rows"

    def fails(number: int) -> Callable[..., int]:
        def call(*_: object, **__: object) -> int:
            raise OSError(number, os.strerror(number))

        return call

    def with_a_disk_that(number: int, call: str) -> ConvertError:
        # Simulate the kernel's errors, because tests can't fill a disk on demand, and might run as root, who has all permissions.
        with monkeypatch.context() as patched:
            patched.setattr(os, call, fails(number))
            return refused([], output)

    def found() -> Iterator[Found]:
        here = {"/mnt/nas": str(nas)}
        yield with_a_disk_that(errno.EACCES, "mkdir"), here
        yield refused([], output, f"{nas}/nothing"), here
        yield with_a_disk_that(errno.EROFS, "mkdir"), here
        yield with_a_disk_that(errno.ENOSPC, "write"), here

    assert_quoted("nas.md", found())


# -- MaxCompute -----------------------------------------------------------------------------------------------------------


@pytest.fixture
def odps() -> Iterator[FakeMaxCompute]:
    columns: dict[str, pa.DataType] = {"amount": pa.float64(), "age": pa.int64()}
    schema = pa.schema(list(columns.items()))
    rows = pa.table({"amount": [1.0, 2.0, 3.0], "age": [20, 30, 40]}, schema=schema)
    with FakeMaxCompute() as fake:
        fake.make("sales", {"amount": "double", "age": "bigint"}, schema, keys=["pt"], project="my_project")
        fake.fill("sales", rows_of(rows), partition="pt=20260101", project="my_project")
        yield fake


@pytest.fixture
def odps_page(odps: FakeMaxCompute, tmp_path: Path) -> Page:
    here = {
        "https://service.cn-shenzhen.maxcompute.aliyun-inc.com/api": odps.endpoint,
        "https://dt.cn-shenzhen.maxcompute.aliyun-inc.com": odps.tunnel_endpoint,
        "/mnt/nas": str(tmp_path / "nas"),
    }
    return Page("maxcompute.md", here, tmp_path)


def test_the_job_of_maxcompute_runs(odps_page: Page, odps: FakeMaxCompute) -> None:
    run(odps_page, odps_page.settings({"accessKeyId": odps.access_id, "accessKeySecret": odps.secret}))


@pytest.mark.slow
def test_the_errors_of_maxcompute_are_real(odps_page: Page, odps: FakeMaxCompute) -> None:
    output, here = odps_page.job.spec.output.uri, odps_page.here
    table = "odps://my_project/tables/sales"
    partition = f"{table}/pt=20260101"

    def found() -> Iterator[Found]:
        settings = odps_page.settings({"accessKeyId": odps.access_id, "accessKeySecret": odps.secret})
        odps.controls.denied.add("odps:Select")
        yield refused_plan(odps_page, settings), here
        odps.controls.denied.clear()
        wrong = odps_page.settings({"accessKeyId": odps.access_id, "accessKeySecret": "another"})
        yield refused(wrong, output, partition), here
        yield refused(settings, output, "odps://my_project/tables/nothing"), here
        yield refused(settings, output, table), here
        yield refused([replace(settings[0], endpoint=f"http://{CLOSED}/api")], output, partition), here
        yield refused_plan(odps_page, [replace(settings[0], tunnel_endpoint=f"http://{CLOSED}")]), here
        yield refused_settings(lambda: odps_page.settings({"accessKeyId": "x"})), here

    assert_quoted("maxcompute.md", found())


# -- the web --------------------------------------------------------------------------------------------------------------


def test_the_job_of_the_web_runs(site: Site, tmp_path: Path) -> None:
    site.files["/rows.csv"] = ROWS
    page = Page("web.md", {"https://data.example": site.at(""), "/mnt/nas": str(tmp_path / "nas")}, tmp_path)
    run(page, page.settings())


def test_the_errors_of_the_web_are_real(site: Site, tmp_path: Path) -> None:
    output, here = str(tmp_path / "out"), {"https://data.example": site.at("")}
    alike = Source.model_validate({"csv": {"uris": [site.at("/rows.csv?sig=one"), site.at("/rows.csv?sig=two")]}})

    def found() -> Iterator[Found]:
        yield refused([], output, f"http://{CLOSED}/rows.csv"), here
        yield refused([], output, site.at("/nothing")), here
        site.refusals["/rows.csv"] = 403
        yield refused([], output, site.at("/rows.csv")), here
        site.refusals.clear()
        site.sizes = site.ranges = False
        yield refused([], output, site.at("/rows.csv")), here
        yield refused_settings(lambda: Access().unsigned(alike)), here
        yield refused([], site.at("/out")), here

    assert_quoted("web.md", found())


# -- fsspec ---------------------------------------------------------------------------------------------------------------


LOGIN: Final = {"username": "reader", "password": "marked-password"}


def ftp_page(server: str, folder: Path) -> Page:
    return Page("fsspec.md", {"ftp://files.example.com": server, "s3://bucket": str(folder / "bucket")}, folder)


def test_the_job_of_an_ftp_server_runs(served: tuple[Path, str], tmp_path: Path) -> None:
    folder, server = served
    put(folder, days__1=ROWS)
    page = ftp_page(server, tmp_path)
    run(page, page.settings(LOGIN))


def test_the_errors_of_fsspec_are_real(served: tuple[Path, str], tmp_path: Path) -> None:
    folder, server = served
    put(folder, days__1=ROWS)
    output, page = str(tmp_path / "out"), ftp_page(server, tmp_path)
    here = page.here

    def found() -> Iterator[Found]:
        yield refused([], output, "smb://files/share/days"), here
        yield refused(page.settings(LOGIN), output, f"ftp://{CLOSED}/days"), {"ftp://files.example.com": f"ftp://{CLOSED}"}
        yield refused(page.settings({**LOGIN, "password": "another"}), output, f"{server}/days"), here
        yield refused(page.settings(LOGIN), output, f"{server}/nothing"), here
        yield refused(page.settings(LOGIN), f"{server}/out"), here

    # The errors of outputs on the Hub are tested with its fake, in test_hub_refusals.
    assert_quoted(
        "fsspec.md", found(), elsewhere={"a token with write access", "the permission to upload large files", "a repository for the output"}
    )
