"""The bridge, the ranges and the rules that keep the cluster's packets on this machine.

Pods, nodes, services and the test's own servers share one bridge. The ranges are the ones set aside for benchmarks
(RFC 2544), which nobody routes: 198.18.0.0/16 for the bridge, 198.19.0.0/16 for services. A firewall table refuses to
forward anything between the bridge and another interface, and it is there before the first route is.
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
# Where the API server, the name server and the servers of the tests listen; pods and the host both reach it.
BRIDGE_IP = "198.18.0.1"
# Without one of its own a bridge takes the lowest of its ports': it would change as pods come and go, and the pods that know the old one
# would reach nothing for half a minute.
BRIDGE_MAC = "0a:58:c6:12:00:01"
FIRST_SERVICE_IP = "198.19.0.1"
FIRST_POD_IP, LAST_POD_IP = "198.18.1.0", "198.18.191.255"
# Addresses that kwok writes into the status of its pods; nobody answers there, but they are on the bridge like all others.
FAKE_POD_RANGE = "198.18.192.0/18"
# Tables of kube-proxy, which it leaves behind when it ends.
PROXY_TABLES = (("ip", "kube-proxy"), ("ip6", "kube-proxy"))
# kubelet sets these for the whole machine; `down` puts back what was there.
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
    """Return the address of the n-th node, below all pods' addresses."""
    return f"198.18.0.{10 + number}"


def refuse_overlaps() -> None:
    """Raise when this machine already uses our ranges for something else."""
    ours = [ipaddress.ip_network(BRIDGE_RANGE), ipaddress.ip_network(SERVICE_RANGE)]
    for used, interface in _used_ranges():
        if interface != BRIDGE and any(used.overlaps(our) for our in ours):
            raise ClusterUnavailable(
                f"The test cluster uses {BRIDGE_RANGE} and {SERVICE_RANGE}, but {interface} of this machine has {used}."
            )
    for family, table in PROXY_TABLES:
        if attempt(["nft", "list", "table", family, table]).returncode == 0:
            raise ClusterUnavailable(f"Another kube-proxy works on this machine: nft has the table {family} {table}.")


def create() -> None:
    """Make the firewall, then the bridge, then the routes."""
    run(["nft", "-f", "-"], stdin=FIREWALL)
    run(["ip", "link", "add", BRIDGE, "address", BRIDGE_MAC, "type", "bridge"])
    write_sysctl(f"net.ipv6.conf.{BRIDGE}.disable_ipv6", "1")
    # For this bridge only; forwarding of the machine's other interfaces stays as it was.
    write_sysctl(f"net.ipv4.conf.{BRIDGE}.forwarding", "1")
    run(["ip", "address", "add", f"{BRIDGE_IP}/16", "dev", BRIDGE])
    run(["ip", "link", "set", BRIDGE, "up"])
    run(["ip", "route", "add", SERVICE_RANGE, "dev", BRIDGE, "src", BRIDGE_IP])


def add_address(ip: str) -> None:
    """Give the bridge one more address, for a node."""
    run(["ip", "address", "add", f"{ip}/32", "dev", BRIDGE])


def remove() -> None:
    """Remove everything that `create` and kube-proxy made.

    The firewall was made first and goes last: where it is not, a bridge or a table of these names is somebody else's.
    """
    if attempt(["nft", "list", "table", "inet", TABLE]).returncode != 0:
        return
    if Path(f"/sys/class/net/{BRIDGE}").exists():
        run(["ip", "link", "delete", BRIDGE])
    for family, table in (*PROXY_TABLES, ("inet", TABLE)):
        attempt(["nft", "delete", "table", family, table])


def read_sysctls() -> dict[str, str]:
    """Return the settings of the machine that kubelet is going to change."""
    return {name: _sysctl_file(name).read_text().strip() for name in KUBELET_SYSCTLS}


def write_sysctl(name: str, value: str) -> None:
    """Set one setting of the kernel."""
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
