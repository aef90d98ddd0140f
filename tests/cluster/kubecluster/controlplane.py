"""The command lines of etcd, the API server and its clients.

This module doesn't start any process. The programs that run on each node are in `nodes`. All programs listen on the loopback interface or
on the bridge.
"""

import json
from dataclasses import dataclass
from pathlib import Path

from kubecluster import binaries, certificates, network

CLUSTER_DOMAIN = "cluster.local"
ISSUER = f"https://kubernetes.default.svc.{CLUSTER_DOMAIN}"
SERVER_PORT = 6443
SERVER = f"https://{network.BRIDGE_IP}:{SERVER_PORT}"
ETCD_CLIENTS = "http://127.0.0.1:23790"
ETCD_PEERS = "http://127.0.0.1:23800"
# Seconds until a dead node is noticed, and then until its pods are deleted; the defaults are minutes.
NODE_GRACE_SECONDS = 20
TOLERATION_SECONDS = 10

# The users that Kubernetes' default RBAC bindings expect, keyed by the name of their kubeconfig.
CLIENTS = {
    "admin": ("admin", "system:masters"),
    "kubelet-client": ("kube-apiserver-kubelet-client", "system:masters"),
    "controller-manager": ("system:kube-controller-manager", None),
    "scheduler": ("system:kube-scheduler", None),
    "proxy": ("system:kube-proxy", None),
    "coredns": ("system:coredns", None),
}

# The identity that the API server presents to aggregated API servers such as Kueue's. Its CA signs nothing else.
FRONT_PROXY = "front-proxy"

# Requests are recorded, but not responses. Requests from Kubernetes' own components are left out, because they would fill the log.
AUDIT_POLICY = {
    "apiVersion": "audit.k8s.io/v1",
    "kind": "Policy",
    "omitStages": ["RequestReceived"],
    "rules": [
        {"level": "None", "userGroups": ["system:serviceaccounts:kube-system"]},
        {"level": "Metadata", "userGroups": ["system:serviceaccounts"]},
        {"level": "None"},
    ],
}
AUDIT_MEGABYTES, AUDIT_FILES = 100, 3

COREDNS_ROLE = """
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRole
metadata: {name: "system:coredns"}
rules:
- {apiGroups: [""], resources: [endpoints, services, pods, namespaces], verbs: [list, watch]}
- {apiGroups: [discovery.k8s.io], resources: [endpointslices], verbs: [list, watch]}
---
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRoleBinding
metadata: {name: "system:coredns"}
roleRef: {apiGroup: rbac.authorization.k8s.io, kind: ClusterRole, name: "system:coredns"}
subjects: [{apiGroup: rbac.authorization.k8s.io, kind: User, name: "system:coredns"}]
"""


@dataclass(frozen=True)
class Folders:
    """The files of a running cluster."""

    run: Path

    @property
    def pki(self) -> Path:
        """Keys and certificates."""
        return self.run / "pki"

    @property
    def front_proxy(self) -> Path:
        """The front proxy's CA and key. Aggregated API servers use the CA to authenticate the API server."""
        return self.pki / FRONT_PROXY

    @property
    def logs(self) -> Path:
        """One log file per daemon."""
        return self.run / "logs"

    @property
    def memory(self) -> Path:
        """A tmpfs for files that the API server's requests wait for.

        If these files were on disk, other programs that write a lot could block the API server for a minute.
        """
        return self.run / "memory"

    @property
    def audit(self) -> Path:
        """Requests by service accounts, one JSON object per line. Full files are renamed to `audit-….log`, and only a few of them are
        kept."""
        return self.memory / "audit.log"

    @property
    def hosts(self) -> Path:
        """Extra host names for the DNS server, in addition to those of services."""
        return self.run / "hosts"

    @property
    def no_names(self) -> Path:
        """An empty root zone. With this zone, names outside the cluster don't exist, and no other DNS server is asked."""
        return self.run / "no-names.zone"

    def kubeconfig(self, user: str) -> Path:
        """The kubeconfig of one user."""
        return self.run / f"{user}.kubeconfig"


def write_files(folders: Folders) -> None:
    """Write the keys, certificates, kubeconfig files and configurations of the control plane."""
    certificates.create_authority(folders.pki)
    certificates.sign_server(
        folders.pki,
        name="apiserver",
        addresses=[network.BRIDGE_IP, network.FIRST_SERVICE_IP, "127.0.0.1"],
        dns_names=["localhost", "kubernetes", "kubernetes.default", "kubernetes.default.svc", f"kubernetes.default.svc.{CLUSTER_DOMAIN}"],
    )
    for name, (user, group) in CLIENTS.items():
        certificates.sign_client(folders.pki, name=name, user=user, group=group)
        certificates.write_kubeconfig(folders.pki, name=name, server=SERVER, target=folders.kubeconfig(name))
    certificates.create_authority(folders.front_proxy)
    certificates.sign_client(folders.front_proxy, name=FRONT_PROXY, user=FRONT_PROXY)
    folders.hosts.write_text(f"{network.BRIDGE_IP} host.test\n")
    folders.no_names.write_text(". 5 IN SOA host.test. nobody.host.test. 1 5 5 5 5\n")
    (folders.run / "Corefile").write_text(_corefile(folders))
    (folders.run / "audit.json").write_text(json.dumps(AUDIT_POLICY, indent=1))
    (folders.run / "proxy.json").write_text(json.dumps(_proxy_configuration(folders), indent=1))


def etcd(folders: Folders) -> list[str | Path]:
    """The command line of etcd. Its data is disposable, so it stays in memory."""
    command: list[str | Path] = [binaries.path("etcd"), "--name=test", f"--data-dir={folders.memory / 'etcd'}", "--unsafe-no-fsync"]
    command += [f"--listen-client-urls={ETCD_CLIENTS}", f"--advertise-client-urls={ETCD_CLIENTS}"]
    command += [f"--listen-peer-urls={ETCD_PEERS}", f"--initial-advertise-peer-urls={ETCD_PEERS}", f"--initial-cluster=test={ETCD_PEERS}"]
    return command


def apiserver(folders: Folders) -> list[str | Path]:
    """The command line of the API server, with RBAC and certificates as in a real cluster."""
    pki = folders.pki
    return [
        binaries.path("kube-apiserver"),
        f"--etcd-servers={ETCD_CLIENTS}",
        f"--bind-address={network.BRIDGE_IP}",
        f"--advertise-address={network.BRIDGE_IP}",
        f"--secure-port={SERVER_PORT}",
        f"--service-cluster-ip-range={network.SERVICE_RANGE}",
        f"--cert-dir={pki}",
        f"--client-ca-file={pki / 'ca.crt'}",
        f"--tls-cert-file={pki / 'apiserver.crt'}",
        f"--tls-private-key-file={pki / 'apiserver.key'}",
        f"--kubelet-certificate-authority={pki / 'ca.crt'}",
        f"--kubelet-client-certificate={pki / 'kubelet-client.crt'}",
        f"--kubelet-client-key={pki / 'kubelet-client.key'}",
        "--kubelet-preferred-address-types=InternalIP,Hostname",
        f"--service-account-issuer={ISSUER}",
        f"--service-account-key-file={pki / 'service-accounts.pub'}",
        f"--service-account-signing-key-file={pki / 'service-accounts.key'}",
        f"--requestheader-client-ca-file={folders.front_proxy / 'ca.crt'}",
        f"--requestheader-allowed-names={FRONT_PROXY}",
        "--requestheader-username-headers=X-Remote-User",
        "--requestheader-group-headers=X-Remote-Group",
        "--requestheader-extra-headers-prefix=X-Remote-Extra-",
        f"--proxy-client-cert-file={folders.front_proxy / f'{FRONT_PROXY}.crt'}",
        f"--proxy-client-key-file={folders.front_proxy / f'{FRONT_PROXY}.key'}",
        "--authorization-mode=Node,RBAC",
        "--enable-admission-plugins=NodeRestriction",
        "--allow-privileged=true",
        f"--audit-policy-file={folders.run / 'audit.json'}",
        f"--audit-log-path={folders.audit}",
        f"--audit-log-maxsize={AUDIT_MEGABYTES}",
        f"--audit-log-maxbackup={AUDIT_FILES - 1}",
        f"--default-not-ready-toleration-seconds={TOLERATION_SECONDS}",
        f"--default-unreachable-toleration-seconds={TOLERATION_SECONDS}",
    ]


def controller_manager(folders: Folders) -> list[str | Path]:
    """The command line of the controller manager. Each controller has its own service account."""
    return [
        binaries.path("kube-controller-manager"),
        f"--kubeconfig={folders.kubeconfig('controller-manager')}",
        f"--service-account-private-key-file={folders.pki / 'service-accounts.key'}",
        f"--root-ca-file={folders.pki / 'ca.crt'}",
        f"--cluster-signing-cert-file={folders.pki / 'ca.crt'}",
        f"--cluster-signing-key-file={folders.pki / 'ca.key'}",
        "--use-service-account-credentials=true",
        "--bind-address=127.0.0.1",
        f"--cert-dir={folders.pki}",
        "--leader-elect=false",
        "--node-monitor-period=2s",
        f"--node-monitor-grace-period={NODE_GRACE_SECONDS}s",
        # With the default of 20 requests a second, tests would measure this limit instead of the operator.
        "--kube-api-qps=200",
        "--kube-api-burst=400",
    ]


def scheduler(folders: Folders) -> list[str | Path]:
    """The scheduler."""
    return [
        binaries.path("kube-scheduler"),
        f"--kubeconfig={folders.kubeconfig('scheduler')}",
        "--bind-address=127.0.0.1",
        f"--cert-dir={folders.pki}",
        "--leader-elect=false",
        "--kube-api-qps=200",
        "--kube-api-burst=400",
    ]


def proxy(folders: Folders) -> list[str | Path]:
    """The command line of kube-proxy. A single kube-proxy is enough for all nodes, because they share this machine's network."""
    return [binaries.path("kube-proxy"), f"--config={folders.run / 'proxy.json'}"]


def coredns(folders: Folders) -> list[str | Path]:
    """The command line of the DNS server for pods."""
    return [binaries.path("coredns"), "-conf", folders.run / "Corefile"]


def _proxy_configuration(folders: Folders) -> dict[str, object]:
    return {
        "apiVersion": "kubeproxy.config.k8s.io/v1alpha1",
        "kind": "KubeProxyConfiguration",
        "mode": "nftables",
        "clientConnection": {"kubeconfig": str(folders.kubeconfig("proxy"))},
        "hostnameOverride": "node0",
        "bindAddress": network.BRIDGE_IP,
        "healthzBindAddress": "127.0.0.1:10256",
        "metricsBindAddress": "127.0.0.1:10249",
        "nodePortAddresses": [network.BRIDGE_RANGE],
        "clusterCIDR": network.BRIDGE_RANGE,
        "oomScoreAdj": 0,
        # Both ends of a connection can be on the same bridge. If such a connection weren't masqueraded, its replies would bypass the NAT
        # rules.
        "nftables": {"masqueradeAll": True},
        # With zero, kube-proxy leaves the machine's settings for connection tracking unchanged.
        "conntrack": {"maxPerCore": 0, "min": 0, "tcpEstablishedTimeout": "0s", "tcpCloseWaitTimeout": "0s"},
    }


def _corefile(folders: Folders) -> str:
    return f"""\
.:53 {{
    bind {network.BRIDGE_IP}
    errors
    ready 127.0.0.1:18181
    hosts {folders.hosts} {{
        reload 1s
        ttl 1
        fallthrough
    }}
    kubernetes {CLUSTER_DOMAIN} in-addr.arpa {{
        kubeconfig {folders.kubeconfig("coredns")} dataprep-test
        pods verified
        ttl 5
    }}
    file {folders.no_names} .
}}
"""
