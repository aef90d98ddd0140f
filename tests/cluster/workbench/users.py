"""Users of the cluster: service accounts with a role in one namespace, and the kubeconfigs of their programs."""

from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import yaml

from workbench.jobs import Namespace

EDIT: Final = "edit"
"""The Kubernetes role to which the chart adds permissions for DataPrepJobs."""


@dataclass(frozen=True)
class User:
    """A service account of a namespace."""

    token: str
    server: str
    authority: str
    """The certificate of the API server's CA, in base64."""
    kubeconfig: Path
    """A kubeconfig with the account's token. Its context has the namespace."""


def make_user(namespace: Namespace, name: str, *, role: str | None, folder: Path) -> User:
    """Creates a service account.

    If a role is given, also creates the role binding that docs/python.md describes. Writes the kubeconfig to the folder.
    """
    namespace.kubectl("create", "serviceaccount", name)
    if role is not None:
        namespace.kubectl("create", "rolebinding", name, f"--clusterrole={role}", f"--serviceaccount={namespace.name}:{name}")
    token = namespace.kubectl("create", "token", name).strip()
    document: dict[str, Any] = yaml.safe_load(namespace.cluster.kubeconfig.read_text())
    [cluster] = document["clusters"]
    document["users"] = [{"name": name, "user": {"token": token}}]
    context = {"cluster": cluster["name"], "user": name, "namespace": namespace.name}
    document |= {"contexts": [{"name": name, "context": context}], "current-context": name}
    file = folder / f"kubeconfig-{name}"
    file.touch(mode=0o600)
    file.write_text(yaml.safe_dump(document))
    return User(token, cluster["cluster"]["server"], cluster["cluster"]["certificate-authority-data"], file)
