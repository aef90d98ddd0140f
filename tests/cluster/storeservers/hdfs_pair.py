"""A real HDFS with two NameNodes in one name service. One of the NameNodes is active. To a client, this looks like an HA cluster.

The NameNodes share an edits folder, so there are no JournalNodes. Only the tests trigger a failover, so there is no ZooKeeper.
"""

from __future__ import annotations

import shutil
from collections.abc import Mapping
from pathlib import Path
from typing import Final

from storeservers.hdfs import NAMENODE, HdfsCluster, site_xml
from storeservers.hdfs_files import WebHdfsError
from storeservers.processes import Lifetime, ServerProcess, free_ports, wait_until

_ADMINISTRATION = "org.apache.hadoop.hdfs.tools.DFSHAAdmin"
_PROXY_PROVIDER = "org.apache.hadoop.hdfs.server.namenode.ha.ConfiguredFailoverProxyProvider"
_SECONDS = 120.0

NAME_SERVICE: Final = "pair"


class HdfsPair(HdfsCluster):
    """Two NameNodes, 0 and 1, and one DataNode; 0 is active at first."""

    def __init__(
        self, run_dir: Path, *, host: str = "127.0.0.1", user: str | None = None, lifetime: Lifetime = Lifetime.WITH_STARTER
    ) -> None:
        super().__init__(run_dir, host=host, datanodes=1, user=user, lifetime=lifetime)
        others = free_ports(host, count=2)
        self.ports = (self.port, others[0])
        self._http_ports = (self.http_port, others[1])
        self.active = 0

    @property
    def uri(self) -> str:
        return f"hdfs://{NAME_SERVICE}"

    @property
    def http_address(self) -> str:
        """The address of the active NameNode."""
        return f"{self.host}:{self._http_ports[self.active]}"

    @property
    def standby_http_address(self) -> str:
        """The address of the standby NameNode."""
        return f"{self.host}:{self._http_ports[1 - self.active]}"

    # -- fail-over ----------------------------------------------------------------------------------------------

    def kill(self, number: int) -> None:
        """Kill a NameNode, as a power failure would. If it was active, the other NameNode becomes active."""
        running = self._processes.pop(_name(number), None)
        if running is not None:
            running.kill()
        if number == self.active:
            self.fail_over()

    def fail_over(self) -> None:
        """Make the other NameNode active; the previous one becomes the standby if it is running."""

        def is_done() -> bool:
            # A NameNode that has just started refuses to become active, although it is already the standby.
            self._administrate("-failover", _name(self.active), _name(1 - self.active))
            return self._has_state(1 - self.active, "active")

        wait_until(is_done, seconds=_SECONDS, what=f"{_name(1 - self.active)} is active")
        self._wait_for_active(1 - self.active)

    def start_missing(self) -> None:
        """Restart a killed NameNode as the standby."""
        if _name(1 - self.active) not in self._processes:
            self._launch_one(1 - self.active)
            self._wait_for_state(1 - self.active, "standby")

    def _wait_for_active(self, number: int) -> None:
        self._wait_for_state(number, "active")
        self.active = number
        self._server(number).wait_until(lambda: self._is_operational(datanodes=1), seconds=_SECONDS)

    def _administrate(self, *command: str) -> None:
        self._run_to_end("administration", {}, _ADMINISTRATION, *command)

    # -- servers ------------------------------------------------------------------------------------------------

    def wait_until_ready(self) -> None:
        for number in (0, 1):
            self._wait_for_state(number, "standby")
        self._administrate("-transitionToActive", _name(0))
        self._wait_for_active(0)

    def client_configuration(self, extra: Mapping[str, str] | None = None) -> dict[str, str]:
        return {**super().client_configuration(), "hdfs-site.xml": site_xml({**self._service_settings(), **(extra or {})})}

    def _format(self) -> None:
        super()._format()
        # This does the same as `-bootstrapStandby`, but also works while the first NameNode isn't running.
        shutil.copytree(self._name_folder, self._folder_of(1))

    def _launch_namenode(self) -> None:
        for number in (0, 1):
            self._launch_one(number)

    def _launch_one(self, number: int) -> None:
        self._launch(
            _name(number),
            settings={
                **self._namenode_settings(),
                "dfs.namenode.name.dir": self._folder_of(number).as_uri(),
                "dfs.ha.namenode.id": _name(number),
            },
            main_class=NAMENODE,
        )

    def _folder_of(self, number: int) -> Path:
        return self._name_folder if number == 0 else self.run_dir / "data" / "namenode-1"

    def _common_settings(self) -> dict[str, str]:
        alone = {"dfs.namenode.rpc-address", "dfs.namenode.http-address"}
        return {
            **{key: value for key, value in super()._common_settings().items() if key not in alone},
            **self._service_settings(),
            **{f"dfs.namenode.http-address.{NAME_SERVICE}.{_name(n)}": f"{self.host}:{self._http_ports[n]}" for n in (0, 1)},
            "dfs.namenode.shared.edits.dir": (self.run_dir / "data" / "shared").as_uri(),
            "dfs.ha.fencing.methods": "shell(/bin/true)",
            "dfs.ha.automatic-failover.enabled": "false",
            "dfs.ha.tail-edits.period": "1",
        }

    def _namenode_settings(self) -> dict[str, str]:
        # The id is also needed for formatting, which is done with the first NameNode's settings.
        return {**super()._namenode_settings(), "dfs.ha.namenode.id": _name(0)}

    def _service_settings(self) -> dict[str, str]:
        return {
            "dfs.nameservices": NAME_SERVICE,
            f"dfs.ha.namenodes.{NAME_SERVICE}": f"{_name(0)}, {_name(1)}",
            **{f"dfs.namenode.rpc-address.{NAME_SERVICE}.{_name(n)}": f"{self.host}:{self.ports[n]}" for n in (0, 1)},
            f"dfs.client.failover.proxy.provider.{NAME_SERVICE}": _PROXY_PROVIDER,
        }

    def _wait_for_state(self, number: int, state: str) -> None:
        self._server(number).wait_until(lambda: self._has_state(number, state), seconds=_SECONDS)

    def _has_state(self, number: int, state: str) -> bool:
        try:
            return bool(self._bean("NameNodeStatus", http_address=f"{self.host}:{self._http_ports[number]}")["State"] == state)
        except (OSError, LookupError, WebHdfsError):
            return False

    def _server(self, number: int) -> ServerProcess:
        return self._processes[_name(number)]


def _name(number: int) -> str:
    return f"namenode-{number}"
