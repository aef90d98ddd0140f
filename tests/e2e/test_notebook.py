"""A notebook in a real Jupyter kernel submits jobs to the cluster.

Its user is a service account with the role that docs/python.md describes.
"""

import json
import os
import subprocess
import sys
from pathlib import Path
from urllib.parse import urlsplit

import pytest
from tests.builders import notebooks
from tests.e2e.slow_jobs import held_writes

import dataprep_io as dp
import environments
from workbench.jobs import EACH_STEP, Namespace
from workbench.stores import BUCKET, Stores
from workbench.users import EDIT, make_user

KILLED = notebooks.ROOT / "tests/interop/readers/killed_kernel.py"
ROWS = 200
SUBMIT = """
import os
import time
import dataprep_io as dp
job = dp.Job.from_yaml(os.environ["JOB"]).submit()
while job.phase != "Running":
    time.sleep(0.2)
print("The job is running.")
job.wait()
"""
ATTACH = """
import dataprep_io as dp
job = dp.Job.attach("flowers")
print(job.phase, flush=True)
input()
result = job.wait(timeout=120, poll=0.5)
print(result.records, result.uri, flush=True)
"""


@pytest.fixture
def variables(namespace: Namespace, stores: Stores, tmp_path: Path) -> dict[str, str]:
    """Returns the environment variables of the user's programs. Gives the namespace a profile with the settings of the stores."""
    workers = {"resources": {"requests": {"cpu": "50m", "memory": "64Mi"}, "limits": {"memory": "1Gi"}}}
    spec = {"stores": stores.settings(), "workers": workers}
    namespace.apply({"apiVersion": "dataprep.io/v1alpha1", "kind": "DataPrepProfile", "metadata": {"name": "default"}, "spec": spec})
    return {
        "KUBECONFIG": str(make_user(namespace, "scientist", role=EDIT, folder=tmp_path)),
        "AWS_ENDPOINT_URL": stores.s3.endpoint,
        "AWS_REGION": stores.s3.region,
        "AWS_ACCESS_KEY_ID": stores.s3.access_key,
        "AWS_SECRET_ACCESS_KEY": stores.s3.secret_key,
        # For all other addresses, the tests' environments set a proxy that doesn't exist.
        "NO_PROXY": f"127.0.0.1,localhost,{urlsplit(stores.s3.endpoint).hostname}",
        "no_proxy": f"127.0.0.1,localhost,{urlsplit(stores.s3.endpoint).hostname}",
    }


def test_a_notebook_submits_a_job_retries_it_and_reads_the_result(namespace: Namespace, stores: Stores, variables: dict[str, str]) -> None:
    stores.s3.make_bucket("flowers")
    notebook = notebooks.run("submit-to-a-cluster", variables, stand_ins={namespace.name: "ml"})
    notebooks.assert_as_stored("submit-to-a-cluster", notebook)
    said = json.dumps(notebook, ensure_ascii=False)
    assert "Succeeded 100 %" in said
    assert not {value for name, value in variables.items() if name != "AWS_REGION" and value in said}


def test_a_job_goes_on_after_its_kernel_was_killed(namespace: Namespace, stores: Stores, variables: dict[str, str], tmp_path: Path) -> None:
    stores.s3.write(BUCKET, f"{namespace.name}.csv", b"x,y\n" + b"1,2\n" * ROWS)
    output = f"oss://{BUCKET}/{namespace.name}"
    source = {"csv": {"uris": [f"s3://{BUCKET}/{namespace.name}.csv"], "header": True}}
    (tmp_path / "job.yaml").write_text(dp.Job("flowers", source=source, output={"uri": output}, workers=EACH_STEP).to_yaml())
    settings = notebooks.variables(tmp_path, variables) | {"JOB": str(tmp_path / "job.yaml")}
    with held_writes(stores, namespace, r".*tfrecords"):
        assert environments.run(notebooks.ENVIRONMENT, KILLED, [SUBMIT], settings) == "The job is running.\n"
        found = subprocess.Popen(
            [sys.executable, "-c", ATTACH], env=os.environ | variables, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        )
        with found:
            assert found.stdin is not None
            assert found.stdout is not None
            assert found.stdout.readline() == "Running\n"
            stores.oss.clear_faults()
            found.stdin.write("\n")
            found.stdin.flush()
            assert found.stdout.readline() == f"{ROWS} {output}\n"
    assert found.returncode == 0
