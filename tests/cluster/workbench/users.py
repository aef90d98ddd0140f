"""Users of the cluster: service accounts with a role in one namespace, and the kubeconfigs of their programs."""

from pathlib import Path
from typing import Any, Final

import yaml

from workbench.jobs import Namespace

EDIT: Final = "edit"
"""The Kubernetes role to which the chart adds permissions for DataPrepJobs."""
ONLY_JOBS: Final = "dataprep-dataprep-operator-edit"
"""The chart's own role, whose permissions the chart adds to `edit`: only those for DataPrepJobs, cron jobs and profiles."""


def make_account(namespace: Namespace, name: str, *, role: str | None) -> None:
    """Creates a service account. If a role is given, also creates the role binding that docs/python.md describes."""
    namespace.kubectl("create", "serviceaccount", name)
    if role is not None:
        namespace.kubectl("create", "rolebinding", name, f"--clusterrole={role}", f"--serviceaccount={namespace.name}:{name}")


def make_user(namespace: Namespace, name: str, *, role: str | None, folder: Path) -> Path:
    """Creates a service account, and returns a kubeconfig in the folder. The kubeconfig has the account's token and the namespace."""
    make_account(namespace, name, role=role)
    token = namespace.kubectl("create", "token", name).strip()
    document: dict[str, Any] = yaml.safe_load(namespace.cluster.kubeconfig.read_text())
    [cluster] = document["clusters"]
    document["users"] = [{"name": name, "user": {"token": token}}]
    context = {"cluster": cluster["name"], "user": name, "namespace": namespace.name}
    document |= {"contexts": [{"name": name, "context": context}], "current-context": name}
    file = folder / f"kubeconfig-{name}"
    file.touch(mode=0o600)
    file.write_text(yaml.safe_dump(document))
    return file
