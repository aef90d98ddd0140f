"""Checks that the pods of jobs are restricted."""

from collections.abc import Sequence

from workbench.jobs import Document, Namespace


def assert_without_rights(namespace: Namespace, pods: Sequence[Document]) -> None:
    """Checks that the pods have no capabilities, and that their service account has no rights on the Kubernetes API."""
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
    rights = namespace.cluster.kubectl("auth", "can-i", "--list", f"--as={account}", f"--namespace={namespace.name}")
    resources = {line.split()[0] for line in rights.splitlines()[1:] if line and not line.startswith(" ")}
    assert resources <= {
        "selfsubjectreviews.authentication.k8s.io",
        "selfsubjectaccessreviews.authorization.k8s.io",
        "selfsubjectrulesreviews.authorization.k8s.io",
    }
