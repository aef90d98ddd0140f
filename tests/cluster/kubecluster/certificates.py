"""The certificate authority of a cluster, and the certificates and kubeconfig files that it issues.

As in a cluster made by kubeadm, every component has its own client certificate, with the name that the default RBAC bindings expect. Only
the test itself and the API server's calls to kubelets use `system:masters`.
"""

import base64
import json
from collections.abc import Sequence
from pathlib import Path

from kubecluster.commands import run

# Without this configuration, openssl adds the extensions of the machine's own configuration.
OPENSSL_CONFIG = "[req]\ndistinguished_name = name\nprompt = no\n[name]\n"


def create_authority(folder: Path) -> None:
    """Create the CA certificate and the key that signs service account tokens."""
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "openssl.cnf").write_text(OPENSSL_CONFIG)
    _request(
        folder,
        name="ca",
        subject="/CN=dataprep-test",
        extensions=["basicConstraints=critical,CA:TRUE", "keyUsage=critical,keyCertSign,cRLSign,digitalSignature"],
        signer=[],
    )
    run(["openssl", "genrsa", "-out", folder / "service-accounts.key", "2048"])
    run(["openssl", "rsa", "-in", folder / "service-accounts.key", "-pubout", "-out", folder / "service-accounts.pub"])


def sign_server(folder: Path, *, name: str, addresses: Sequence[str], dns_names: Sequence[str] = ()) -> None:
    """Sign a serving certificate for these addresses and names."""
    names = [*(f"IP:{address}" for address in addresses), *(f"DNS:{dns}" for dns in dns_names)]
    _signed(folder, name=name, subject=f"/CN={name}", usage="serverAuth", more=[f"subjectAltName={','.join(names)}"])


def sign_client(folder: Path, *, name: str, user: str, group: str | None = None) -> None:
    """Sign a client certificate, which identifies a user of the API server."""
    organisation = f"/O={group}" if group else ""
    _signed(folder, name=name, subject=f"{organisation}/CN={user}", usage="clientAuth", more=[])


def write_kubeconfig(folder: Path, *, name: str, server: str, target: Path) -> None:
    """Write a self-contained kubeconfig, as JSON, which is valid YAML."""
    cluster = {"server": server, "certificate-authority-data": _base64(folder / "ca.crt")}
    user = {"client-certificate-data": _base64(folder / f"{name}.crt"), "client-key-data": _base64(folder / f"{name}.key")}
    config = {
        "apiVersion": "v1",
        "kind": "Config",
        "current-context": "dataprep-test",
        "clusters": [{"name": "dataprep-test", "cluster": cluster}],
        "users": [{"name": name, "user": user}],
        "contexts": [{"name": "dataprep-test", "context": {"cluster": "dataprep-test", "user": name}}],
    }
    target.write_text(json.dumps(config, indent=1))


def _base64(file: Path) -> str:
    return base64.b64encode(file.read_bytes()).decode()


def _signed(folder: Path, *, name: str, subject: str, usage: str, more: list[str]) -> None:
    _request(
        folder,
        name=name,
        subject=subject,
        extensions=["basicConstraints=critical,CA:FALSE", "keyUsage=critical,digitalSignature", f"extendedKeyUsage={usage}", *more],
        signer=["-CA", str(folder / "ca.crt"), "-CAkey", str(folder / "ca.key")],
    )


def _request(folder: Path, *, name: str, subject: str, extensions: list[str], signer: list[str]) -> None:
    command: list[str | Path] = ["openssl", "req", "-x509", "-config", folder / "openssl.cnf", "-newkey", "ec"]
    command += ["-pkeyopt", "ec_paramgen_curve:P-256", "-nodes", "-days", "365", "-subj", subject]
    command += ["-keyout", folder / f"{name}.key", "-out", folder / f"{name}.crt", *signer]
    for extension in extensions:
        command += ["-addext", extension]
    run(command)
