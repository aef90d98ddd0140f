"""The cluster from a shell: `python -m kubecluster build | packages | up | status | kubeconfig | smoke | down`."""

import argparse
import sys
from pathlib import Path

from kubecluster import binaries, choice, local, packages, smoke, state
from kubecluster.cluster import Cluster
from kubecluster.errors import ClusterError, ClusterUnavailable
from kubecluster.progress import report, show


def main() -> int:
    """Run one command and return the exit status."""
    arguments = _parser().parse_args()
    try:
        return _run(arguments)
    except ClusterError as exc:
        report(f"{type(exc).__name__}: {exc}")
        return 1


def _run(arguments: argparse.Namespace) -> int:
    if arguments.command == "build":
        binaries.build(arguments.only or tuple(binaries.PROGRAMS))
    elif arguments.command == "packages":
        packages.install()
    elif arguments.command == "up":
        cluster = choice.up()
        for image in arguments.image:
            name, _, archive = image.partition("=")
            cluster.load_image(Path(archive), name)
        show(f"export KUBECONFIG={cluster.kubeconfig}")
    elif arguments.command == "down":
        _down()
    elif arguments.command == "kubeconfig":
        show(str(_running().kubeconfig))
    elif arguments.command == "status":
        _print_status(_running())
    elif arguments.command == "smoke":
        smoke.check(choice.up())
    return 0


def _down() -> None:
    if (cluster := choice.attach()) is not None:
        cluster.down()
    # After a crash, no cluster is running, but the remains of the crashed cluster still have to be removed.
    local.down()


def _running() -> Cluster:
    cluster = choice.attach()
    if cluster is None:
        raise ClusterUnavailable("No cluster is running: start one with `python -m kubecluster up`.")
    return cluster


def _print_status(cluster: Cluster) -> None:
    show(f"kubeconfig  {cluster.kubeconfig}\nbridge ip   {cluster.bridge_ip}\nlogs        {cluster.logs}")
    if (written := state.read()) is not None:
        for name, daemon in written.daemons.items():
            show(f"{name:24} pid {daemon.pid:7} {'running' if daemon.alive() else 'DEAD'}")
    show(cluster.kubectl("get", "nodes", "--output=wide"))


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m kubecluster", description=__doc__)
    commands = parser.add_subparsers(dest="command", required=True)
    build = commands.add_parser("build", help="build the programs of the cluster into the cache")
    build.add_argument("--only", action="append", choices=sorted(binaries.PROGRAMS), help="build this program only; may be repeated")
    commands.add_parser("packages", help="install the Debian packages that are missing")
    up = commands.add_parser("up", help="start a cluster, or find the running one")
    up.add_argument(
        "--image", action="append", default=[], metavar="NAME=ARCHIVE", help="load a docker-archive under this name; may be repeated"
    )
    commands.add_parser("status", help="show what runs")
    commands.add_parser("kubeconfig", help="print the path of the kubeconfig")
    commands.add_parser("smoke", help="run a restricted Indexed Job and check what it sees; starts a cluster if none runs")
    commands.add_parser("down", help="stop the cluster, or clean up after a crash")
    return parser


if __name__ == "__main__":
    sys.exit(main())
