"""The bridge, address ranges and firewall rules that keep the cluster's packets on this machine.

Pods, nodes, services and the tests' servers share one bridge. The ranges are reserved for benchmarks (RFC 2544) and never routed:
198.18.0.0/16 for the bridge, 198.19.0.0/16 for services. A firewall table, created before the first route, blocks forwarding between the
bridge and other interfaces.
"""

import ipaddress
import json
from collections.abc import Iterator
from pathlib import Path

from kubecluster.commands import attempt, run
from kubecluster.errors import ClusterUnavailable

BRIDGE = "dataprep0"
TABLE = "dataprep_test"
BRIDGE_RANGE = "198.18.0.0/16"
SERVICE_RANGE = "198.19.0.0/16"
# The API server, the DNS server and the tests' servers listen on this address, which both pods and the host can reach.
BRIDGE_IP = "198.18.0.1"
# Without a fixed hardware address the bridge would take the lowest of its ports' addresses. That address would change as pods come and go,
# and pods that have cached the old address would lose the network for half a minute.
BRIDGE_MAC = "0a:58:c6:12:00:01"
FIRST_SERVICE_IP = "198.19.0.1"
FIRST_POD_IP, LAST_POD_IP = "198.18.1.0", "198.18.191.255"
# Addresses that kwok writes into the status of its pods. They belong to the bridge, but nothing answers there.
FAKE_POD_RANGE = "198.18.192.0/18"
# Tables that kube-proxy leaves behind when it ends.
PROXY_TABLES = (("ip", "kube-proxy"), ("ip6", "kube-proxy"))
# kubelet sets these for the whole machine; `down` restores them.
KUBELET_SYSCTLS = (
    "vm.overcommit_memory",
    "vm.panic_on_oom",
    "kernel.panic",
    "kernel.panic_on_oops",
    "kernel.keys.root_maxkeys",
    "kernel.keys.root_maxbytes",
)

FIREWALL = f"""
table inet {TABLE} {{
    chain forward {{
        type filter hook forward priority -200; policy accept;
        iifname "{BRIDGE}" oifname != "{BRIDGE}" reject with icmpx type admin-prohibited
        oifname "{BRIDGE}" iifname != "{BRIDGE}" drop
    }}
    chain leaving {{
        type filter hook postrouting priority -200; policy accept;
        ip daddr {{ {BRIDGE_RANGE}, {SERVICE_RANGE} }} oifname != {{ "{BRIDGE}", "lo" }} drop
    }}
}}
"""


def node_ip(number: int) -> str:
    """Return the address of the n-th node. Node addresses are lower than pod addresses."""
    return f"198.18.0.{10 + number}"


def refuse_overlaps() -> None:
    """Raise if this machine already uses our ranges for something else."""
    ours = [ipaddress.ip_network(BRIDGE_RANGE), ipaddress.ip_network(SERVICE_RANGE)]
    for used, interface in _used_ranges():
        if interface != BRIDGE and any(used.overlaps(our) for our in ours):
            raise ClusterUnavailable(
                f"The test cluster uses {BRIDGE_RANGE} and {SERVICE_RANGE}, but {interface} of this machine has {used}."
            )
    for family, table in PROXY_TABLES:
        if attempt(["nft", "list", "table", family, table]).returncode == 0:
            raise ClusterUnavailable(f"Another kube-proxy is running on this machine: nft has the table {family} {table}.")


def create() -> None:
    """Create the firewall, then the bridge, then the routes."""
    run(["nft", "-f", "-"], stdin=FIREWALL)
    run(["ip", "link", "add", BRIDGE, "address", BRIDGE_MAC, "type", "bridge"])
    write_sysctl(f"net.ipv6.conf.{BRIDGE}.disable_ipv6", "1")
    # Forwarding is enabled only for this bridge, and isn't changed on the machine's other interfaces.
    write_sysctl(f"net.ipv4.conf.{BRIDGE}.forwarding", "1")
    run(["ip", "address", "add", f"{BRIDGE_IP}/16", "dev", BRIDGE])
    run(["ip", "link", "set", BRIDGE, "up"])
    run(["ip", "route", "add", SERVICE_RANGE, "dev", BRIDGE, "src", BRIDGE_IP])


def add_address(ip: str) -> None:
    """Give the bridge an additional address for a node."""
    run(["ip", "address", "add", f"{ip}/32", "dev", BRIDGE])


def remove() -> None:
    """Remove everything that `create` and kube-proxy made.

    Does nothing if there is no firewall: it is created first and removed last, so a bridge or table with one of our names then belongs to
    another program.
    """
    if attempt(["nft", "list", "table", "inet", TABLE]).returncode != 0:
        return
    if Path(f"/sys/class/net/{BRIDGE}").exists():
        run(["ip", "link", "delete", BRIDGE])
    for family, table in (*PROXY_TABLES, ("inet", TABLE)):
        attempt(["nft", "delete", "table", family, table])


def read_sysctls() -> dict[str, str]:
    """Return the machine's settings that kubelet is going to change."""
    return {name: _sysctl_file(name).read_text().strip() for name in KUBELET_SYSCTLS}


def write_sysctl(name: str, value: str) -> None:
    """Set a kernel setting."""
    _sysctl_file(name).write_text(value)


def _sysctl_file(name: str) -> Path:
    return Path("/proc/sys") / name.replace(".", "/")


def _used_ranges() -> Iterator[tuple[ipaddress.IPv4Network, str]]:
    for link in json.loads(run(["ip", "-json", "-4", "address"])):
        for address in link.get("addr_info", []):
            yield ipaddress.IPv4Network(f"{address['local']}/{address['prefixlen']}", strict=False), link["ifname"]
    for route in json.loads(run(["ip", "-json", "-4", "route"])):
        if route["dst"] != "default":
            yield ipaddress.IPv4Network(route["dst"], strict=False), route.get("dev", "a route")
