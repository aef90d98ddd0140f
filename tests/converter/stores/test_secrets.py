"""Keys never appear in outputs.

The steps run as in pods, both successfully and with errors, and with the most detailed logs. All outputs of the steps are searched for
every encoding of each key.
"""

import base64
import binascii
import json
import subprocess
import sys
import urllib.parse
import uuid
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
import yaml
from tests.converter.cli.commandline import environment
from tests.converter.stores.loopback import QuietFolder, served
from tests.converter.stores.places import Place, hdfs, in_folder, oss, s3
from tests.secret_forms import forms_of

from dataprep_api.dataset import messages
from storeservers import FakeOss, S3Server
from storeservers.odps import AccessKey as OdpsKey
from storeservers.odps import FakeMaxCompute
from storeservers.oss import AccessKey

pytestmark = pytest.mark.store

STEPS = """
import json, os, sys
import alibabacloud_oss_v2, obstore, odps, pyarrow.csv
from dataprep_converter.cli import commands
from dataprep_converter.steps import plan_step
from dataprep_converter.steps.conversion import convert_commit, convert_work

for line in sys.stdin:
    order = json.loads(line)
    child = os.fork()
    if child == 0:
        os.environ.update(order["environment"])
        os.dup2(os.open(order["out"], os.O_WRONLY | os.O_CREAT), 1)
        os.dup2(1, 2)
        commands.main(order["arguments"])
    print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]), flush=True)
"""
"""A program that runs commands one after the other, each in a fork. So Python is started only once, and the clients are imported only
once."""
SIGNATURE = "sv=2026-01-01&sig=Sas%2FSignature%2BOf%3DThe+Web"
TABLE = {"id": "bigint", "x": "double"}


def test_a_key_is_found_in_every_form() -> None:
    secret = "a+b/c=d%e&f-0123456789"
    within = base64.b64encode(f"id:{secret}:more".encode()).decode()
    for text in (secret, urllib.parse.quote(secret, safe=""), within, binascii.hexlify(secret.encode()).decode(), f'"{secret}"'):
        assert any(form in f"before {text} after" for form in forms_of(secret))
    assert not any(form in "a+b/c" for form in forms_of(secret))


@dataclass
class Bench:
    """The environment of a pod, the keys that must stay secret, and all outputs so far."""

    folder: Path
    process: "subprocess.Popen[str]"
    """The process that starts the steps."""
    stores: list[dict[str, Any]] = field(default_factory=list)
    secrets: set[str] = field(default_factory=set)
    said: dict[str, str] = field(default_factory=dict)

    def store(self, prefix: str, keys: dict[str, str], **fields: Any) -> None:
        """Add an entry of `spec.stores`, and mount its Secret."""
        mounted = self.folder / "mounts" / "secrets" / str(len(self.stores))
        mounted.mkdir(parents=True)
        for name, value in keys.items():
            (mounted / name).write_text(value)
        self.stores.append({"uriPrefix": prefix, "secretRef": {"name": "key"}, **fields})
        self.secrets |= {value for name, value in keys.items() if name != "accessKeyId"}

    def step(self, name: str, spec: dict[str, Any], *arguments: str) -> tuple[int, Any]:
        """Run a step as its pod does. Return its exit code and its termination message."""
        document = {"apiVersion": "dataprep.io/v1alpha1", "kind": "DataPrepJob", "metadata": {"name": "job"}, "spec": spec}
        run = f"{name}-{len(self.said)}"
        (self.folder / f"{run}.yaml").write_text(yaml.safe_dump({**document, "spec": {"stores": self.stores, **spec}}))
        log = self.folder / f"{run}.log"
        more = {"DATAPREP_MOUNTS": str(self.folder / "mounts"), "DATAPREP_TERMINATION_LOG": str(log)}
        command = ["--debug", name, "--job", str(self.folder / f"{run}.yaml"), *arguments]
        stdin, stdout = self.process.stdin, self.process.stdout
        assert stdin is not None
        assert stdout is not None
        stdin.write(json.dumps({"arguments": command, "environment": more, "out": str(self.folder / f"{run}.out")}) + "\n")
        stdin.flush()
        code = int(stdout.readline())
        self.said |= {
            f"{run} said": (self.folder / f"{run}.out").read_text(errors="replace"),
            f"{run} left": log.read_text(),
            f"{run} in ps": " ".join(command),
        }
        return code, messages.parse(log.read_text())

    def leaks(self, secrets: set[str], *, where: dict[str, str] | None = None) -> list[str]:
        """Return the names of the outputs that contain any encoding of a secret."""
        forms = {form for secret in secrets for form in forms_of(secret)}
        return [place for place, text in (self.said if where is None else where).items() if any(form in text for form in forms)]


@pytest.fixture(scope="module")
def process() -> Iterator["subprocess.Popen[str]"]:
    """Start the process that runs `STEPS`."""
    with subprocess.Popen(
        [sys.executable, "-c", STEPS], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env=environment()
    ) as process:
        yield process
        process.communicate()


@pytest.fixture
def bench(
    request: pytest.FixtureRequest, tmp_path: Path, process: "subprocess.Popen[str]", oss_fake: FakeOss, s3_server: S3Server
) -> Iterator[tuple[Bench, FakeMaxCompute]]:
    """Make keys for OSS (from STS), S3 and MaxCompute. Every encoding changes some of a key's characters."""
    made, unique = Bench(tmp_path, process), uuid.uuid4().hex[:12]
    oss_key = {"accessKeyId": f"STS.{unique}", "accessKeySecret": f"oss/key+{unique}=%41", "securityToken": f"oss//token++{unique}=="}
    oss_fake.add_key(AccessKey(oss_key["accessKeyId"], oss_key["accessKeySecret"], oss_key["securityToken"]))
    made.store("oss://", oss_key, endpoint=oss_fake.endpoint, region=oss_fake.region, pathStyle=True)
    s3_key = {"accessKeyId": f"s3-{unique}", "accessKeySecret": f"s3/key+{unique}=%42"}
    s3_server.add_user(*s3_key.values())
    place = s3(request)
    bucket = place.root.split("/")[2]
    allowed = {
        "Effect": "Allow",
        "Principal": s3_key["accessKeyId"],
        "Action": "s3:*",
        "Resource": [f"arn:aws:s3:::{bucket}", f"arn:aws:s3:::{bucket}/*"],
    }
    s3_server.set_policy(bucket, json.dumps({"Statement": [allowed]}))
    made.store("s3://", s3_key, endpoint=s3_server.endpoint, region=s3_server.region, pathStyle=True)
    odps_key = OdpsKey(f"odps-{unique}", f"odps/key+{unique}=%43", f"odps//token++{unique}==")
    with FakeMaxCompute() as fake:
        fake.controls.keys[odps_key.access_id] = odps_key
        keys = {"accessKeyId": odps_key.access_id, "accessKeySecret": odps_key.secret, "securityToken": str(odps_key.token)}
        made.store("odps://", keys, endpoint=fake.endpoint)
        fake.make("out", TABLE, pa.schema(pa.field(name, kind) for name, kind in (("id", pa.int64()), ("x", pa.float64()))))
        yield made, fake


def a_spec(source: str, output: str, **more: Any) -> dict[str, Any]:
    columns = [{"name": "id", "type": "Int64"}, {"name": "x", "type": "Float64"}]
    return {
        "source": {"csv": {"uris": [source], "columns": columns}},
        "onBadRecord": {"policy": "Quarantine"},
        "output": {"uri": output, "format": "arrow", "shards": {"count": 1}, **more},
    }


def rows_in(place: Place) -> str:
    place.store().put(place.at("in/rows.csv"), b"1,0.5\n2,1\nbad,3\n")
    return place.at("in/rows.csv")


def whole(bench: Bench, spec: dict[str, Any]) -> None:
    code, planned = bench.step("plan", spec)
    assert code == 0, bench.said
    told = ("--run", planned.run_id, "--plan-sha256", planned.plan_sha256)
    assert bench.step("work", spec, *told, "--index", "0")[0] == 0, bench.said
    code, made = bench.step("commit", spec, *told)
    assert code == 0, bench.said
    assert made.records.bad == 1


def files_of(place: Place, folder: str) -> dict[str, str]:
    store = place.store()
    return {name: store.get(place.at(name)).decode("latin-1") for name in place.names() if name.startswith(folder)}


@pytest.mark.parametrize("to", [oss, hdfs], ids=["oss", "hdfs"])
def test_no_key_is_in_anything_that_a_good_job_leaves(request: pytest.FixtureRequest, bench: tuple[Bench, FakeMaxCompute], to: Any) -> None:
    here, fake = bench
    of, place = (oss(request) if to is not oss else s3(request)), to(request)
    table = {"table": {"uri": "odps://p/tables/out"}} if to is oss else {}
    whole(here, a_spec(rows_in(of), place.at("out"), **table))

    written = files_of(place, "out/")
    assert any(name.endswith("manifest.json") for name in written)
    assert any("/reports/" in name for name in written)
    assert any("quarantine" in name for name in written)
    assert fake.rows("out").num_rows == (2 if to is oss else 0)
    assert here.leaks(here.secrets) == []
    assert here.leaks(here.secrets, where=written) == []


def test_no_key_is_in_what_a_job_says_that_fails(
    request: pytest.FixtureRequest, bench: tuple[Bench, FakeMaxCompute], oss_fake: FakeOss
) -> None:
    here, fake = bench
    source, place, other = rows_in(in_folder(here.folder)), oss(request), s3(request)
    good = list(here.stores)

    def failing(code: int, spec: dict[str, Any], *, changed: dict[int, dict[str, Any]] | None = None) -> str:
        here.stores = [store | (changed or {}).get(number, {}) for number, store in enumerate(good)]
        found, left = here.step("plan", spec)
        assert found == code, here.said
        message: str = left.message
        return message

    nowhere = "http://127.0.0.1:1"
    assert "cannot connect" in failing(4, a_spec(source, place.at("o")), changed={0: {"endpoint": nowhere}})
    assert "cannot connect" in failing(4, a_spec(source, other.at("o")), changed={1: {"endpoint": nowhere}})
    [name, *_] = [file for file in (here.folder / "mounts/secrets/0").iterdir() if file.name == "accessKeySecret"]
    right = name.read_text()
    name.write_text(wrong := f"{right}+wrong/")
    here.secrets.add(wrong)
    assert "refused the credentials" in failing(5, a_spec(source, place.at("o")))
    name.write_text(right)
    oss_fake.add_key(replace(_key_of(here, 0), denied=frozenset({"oss:PutObject"})))
    assert "missing oss:PutObject" in failing(5, a_spec(source, place.at("o")))
    oss_fake.add_key(_key_of(here, 0))
    fake.controls.denied.add("odps:Describe")
    of_table = {"source": {"table": {"uris": ["odps://p/tables/out"]}}, "output": {"uri": str(here.folder / "o")}}
    assert "missing odps:Describe" in failing(5, of_table)

    assert here.leaks(here.secrets) == []
    # Check that the search finds text that is in the outputs.
    assert here.leaks({"cannot connect"}) != []


def _key_of(here: Bench, number: int) -> AccessKey:
    mounted = here.folder / "mounts" / "secrets" / str(number)
    key, secret, token = ((mounted / name).read_text() for name in ("accessKeyId", "accessKeySecret", "securityToken"))
    return AccessKey(key, secret, token)


def test_the_signature_in_an_address_is_in_no_message(bench: tuple[Bench, FakeMaxCompute]) -> None:
    here, _ = bench
    web, signature = here.folder / "web", SIGNATURE.partition("sig=")[2]
    web.mkdir()
    (web / "rows.csv").write_text("1,0.5\n2,1\nbad,3\n")
    with served(partial(QuietFolder, directory=str(web))) as port:
        root = f"http://127.0.0.1:{port}"
        whole(here, a_spec(f"{root}/rows.csv?{SIGNATURE}", str(here.folder / "o")))
        code, absent = here.step("plan", a_spec(f"{root}/absent.csv?{SIGNATURE}", str(here.folder / "p")))
    code, gone = here.step("plan", a_spec(f"{root}/rows.csv?{SIGNATURE}", str(here.folder / "p")))

    assert code == 4
    assert (f"{root}/absent.csv" in absent.message, f"{root}/rows.csv" in gone.message) == (True, True)
    assert here.leaks({signature, urllib.parse.unquote(signature)}) == []
    written = files_of(in_folder(here.folder / "o"), "")
    reports = {name: text for name, text in written.items() if "/reports/" in name or name.endswith("_SUCCESS")}
    assert len(reports) == 2
    assert here.leaks({signature}, where=reports) == []
    assert here.leaks({signature}, where=written) == []
