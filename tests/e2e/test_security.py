"""Worker pods have no rights and no capabilities, and secrets never leak."""

import json
from dataclasses import replace

import pytest
from tests.e2e.restricted_pods import assert_without_rights
from tests.secret_forms import forms_of

from kubecluster import Cluster
from storeservers.oss import AccessKey
from workbench.installation import Installation
from workbench.jobs import Namespace, condition
from workbench.smalljobs import small_jobs, write_input
from workbench.stores import BUCKET, Stores, a_job


def test_worker_pods_are_restricted_and_hold_no_right(namespace: Namespace, stores: Stores, digits_on_hdfs: str) -> None:
    namespace.apply(a_job(stores, name="plain", source=digits_on_hdfs, output=f"{stores.hdfs.uri}/{namespace.name}", limit=1000))
    namespace.wait_phase("plain", "Succeeded")
    pods = namespace.pods("plain")
    assert {pod["metadata"]["labels"]["dataprep.io/step"] for pod in pods} == {"plan", "convert", "commit"}
    assert_without_rights(namespace, pods)


@pytest.mark.parametrize("end", ["Succeeded", pytest.param("BadCredentials", marks=pytest.mark.nightly), "BadRecords"])
def test_a_key_never_leaks(namespace: Namespace, stores: Stores, operator: Installation, end: str) -> None:
    """The secret isn't in the job's objects, Events, logs, reports, manifest or data, in any encoding."""
    key = AccessKey(f"STS.{namespace.name}", f"a/key+{namespace.name}=%41", f"a//token++{namespace.name}==")
    stores.oss.add_key(replace(key, secret_key="another") if end == "BadCredentials" else key)
    given = {"accessKeyId": key.access_key, "accessKeySecret": key.secret_key, "securityToken": str(key.security_token)}
    namespace.apply({"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "tricky"}, "stringData": given})
    [job] = small_jobs(stores, namespace, ["keyed"], backoffLimit=0)
    if end == "BadRecords":
        write_input(stores, namespace).write_text("x,y,label\n1,2,3\n")
    of_oss = next(store for store in stores.settings() if store["uriPrefix"] == "oss://")
    job["spec"] |= {"stores": [of_oss | {"secretRef": {"name": "tricky"}}], "output": {"uri": f"oss://{BUCKET}/{namespace.name}"}}
    in_environment = {"name": "PASSWORD", "valueFrom": {"secretKeyRef": {"name": "tricky", "key": "accessKeySecret"}}}
    job["spec"]["workers"] |= {"env": [in_environment]}
    namespace.apply(job)
    status = namespace.wait_phase("keyed", "Succeeded" if end == "Succeeded" else "Failed")
    assert condition(status, "Failed").get("reason", "Succeeded") == end

    places = {
        "objects": namespace.kubectl("get", "dataprepjobs,jobs,pods,configmaps,events,serviceaccounts", "--output=json"),
        "described": namespace.kubectl("describe", "dataprepjobs,jobs,pods"),
        "logs": "\n".join(namespace.kubectl("logs", pod["metadata"]["name"]) for pod in namespace.pods("keyed")),
        "operator": operator.logs(),
        "output": "\n".join(stores.oss.read(BUCKET, name).decode("latin-1") for name in stores.oss.keys(BUCKET, f"{namespace.name}/")),
    }
    assert ("manifest" in places["output"]) == (end == "Succeeded")
    forms = {form for name, secret in given.items() if name != "accessKeyId" for form in forms_of(secret)}
    assert {place for place, text in places.items() if any(form in text for form in forms)} == set()
    # This assertion shows that the search would find a leaked key.
    assert any(form in namespace.kubectl("get", "secrets", "--output=json") for form in forms)


def test_the_operator_can_not_read_secrets(cluster: Cluster, operator: Installation, namespace: Namespace) -> None:
    [account, *_] = {pod["spec"]["serviceAccountName"] for pod in operator.pods()}
    for verb in ("get", "list", "watch"):
        answer = can_i(cluster, verb, "secrets", namespace.name, f"system:serviceaccount:{operator.namespace}:{account}")
        assert answer == "no"


def can_i(cluster: Cluster, verb: str, resource: str, namespace: str, account: str) -> str:
    """Returns `yes` or `no`; kubectl exits with 1 for no."""
    review = {
        "apiVersion": "authorization.k8s.io/v1",
        "kind": "SubjectAccessReview",
        "spec": {"user": account, "resourceAttributes": {"namespace": namespace, "verb": verb, "resource": resource}},
    }
    answer = json.loads(cluster.kubectl("create", "--filename=-", "--output=json", stdin=json.dumps(review)))
    return "yes" if answer["status"].get("allowed") else "no"


def test_the_operators_image_has_no_shell(cluster: Cluster, operator: Installation) -> None:
    [pod, *_] = operator.pods()
    look = "import shutil; print([name for name in ('sh', 'bash', 'dash', 'busybox', 'python3') if shutil.which(name)])"
    inside = ("exec", f"--namespace={operator.namespace}", pod["metadata"]["name"], "--", "/opt/dataprep/bin/python", "-c", look)
    assert cluster.kubectl(*inside).strip() == "['python3']"
