"""Worker pods hold no right and no capability; secrets are nowhere to be read."""

import base64
import json
import urllib.parse

from kubecluster import Cluster
from workbench.installation import Installation
from workbench.jobs import Namespace
from workbench.stores import BUCKET, Stores, a_job


def test_worker_pods_are_restricted_and_hold_no_right(namespace: Namespace, stores: Stores, cluster: Cluster, digits_on_hdfs: str) -> None:
    namespace.apply(a_job(stores, name="plain", source=digits_on_hdfs, output=f"{stores.hdfs.uri}/{namespace.name}"))
    namespace.wait_phase("plain", "Succeeded")
    pods = namespace.pods("plain")
    assert {pod["metadata"]["labels"]["dataprep.io/step"] for pod in pods} == {"plan", "convert", "commit"}
    for pod in pods:
        spec = pod["spec"]
        assert spec["automountServiceAccountToken"] is False
        assert spec["enableServiceLinks"] is False
        assert spec["securityContext"]["runAsNonRoot"] is True
        assert spec["securityContext"]["seccompProfile"] == {"type": "RuntimeDefault"}
        for container in spec["containers"]:
            context = container["securityContext"]
            assert context["readOnlyRootFilesystem"] is True
            assert context["allowPrivilegeEscalation"] is False
            assert context["capabilities"] == {"drop": ["ALL"]}
    account = f"system:serviceaccount:{namespace.name}:{pods[0]['spec']['serviceAccountName']}"
    rights = cluster.kubectl("auth", "can-i", "--list", f"--as={account}", f"--namespace={namespace.name}")
    resources = {line.split()[0] for line in rights.splitlines()[1:] if line and not line.startswith(" ")}
    assert resources <= {
        "selfsubjectreviews.authentication.k8s.io",
        "selfsubjectaccessreviews.authorization.k8s.io",
        "selfsubjectrulesreviews.authorization.k8s.io",
    }


def test_a_key_is_nowhere_to_be_read(namespace: Namespace, stores: Stores, operator: Installation, digits_on_hdfs: str) -> None:
    """Not in the resource, the children, the events, the logs, the status, the reports or the manifest, in no encoding."""
    namespace.apply(a_job(stores, name="keyed", source=digits_on_hdfs, output=f"oss://{BUCKET}/{namespace.name}"))
    namespace.wait_phase("keyed", "Succeeded")
    places = {
        "objects": namespace.kubectl("get", "dataprepjobs,jobs,pods,configmaps,events", "--output=json"),
        "logs": "\n".join(namespace.kubectl("logs", pod["metadata"]["name"]) for pod in namespace.pods("keyed")),
        "operator": operator.logs(),
        "output": "\n".join(
            stores.oss.read(BUCKET, key).decode("utf-8", "replace")
            for key in stores.oss.keys(BUCKET, f"{namespace.name}/")
            if not key.endswith((".tfrecords", ".parquet"))
        ),
    }
    secret = stores.oss.secret_key
    forms = {secret, urllib.parse.quote(secret, safe=""), base64.b64encode(secret.encode()).decode(), json.dumps(secret)[1:-1]}
    assert {place for place, text in places.items() if any(form in text for form in forms)} == set()


def test_the_operator_can_not_read_secrets(cluster: Cluster, operator: Installation, namespace: Namespace) -> None:
    [account, *_] = {pod["spec"]["serviceAccountName"] for pod in operator.pods()}
    for verb in ("get", "list", "watch"):
        answer = can_i(cluster, verb, "secrets", namespace.name, f"system:serviceaccount:{operator.namespace}:{account}")
        assert answer == "no"


def can_i(cluster: Cluster, verb: str, resource: str, namespace: str, account: str) -> str:
    """`yes` or `no`; kubectl exits with 1 for no."""
    review = {
        "apiVersion": "authorization.k8s.io/v1",
        "kind": "SubjectAccessReview",
        "spec": {"user": account, "resourceAttributes": {"namespace": namespace, "verb": verb, "resource": resource}},
    }
    answer = json.loads(cluster.kubectl("create", "--filename=-", "--output=json", stdin=json.dumps(review)))
    return "yes" if answer["status"].get("allowed") else "no"
