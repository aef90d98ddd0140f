"""A real HDFS: one NameNode and its DataNodes, from the jars of Maven Central. `hdfs_files` reads and writes its files."""

from __future__ import annotations

import getpass
import json
import time
import urllib.parse
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, Final
from xml.sax.saxutils import escape

from storeservers import cache
from storeservers.hdfs_files import HdfsFiles, WebHdfsError, send
from storeservers.processes import (
    Lifetime,
    ServerFailed,
    ServerProcess,
    free_ports,
    wait_until,
)
from storeservers.servers import Server

POM: Final = Path(__file__).parents[1] / "java" / "hdfs" / "pom.xml"
NAMENODE: Final = "org.apache.hadoop.hdfs.server.namenode.NameNode"
_DATANODE = "org.apache.hadoop.hdfs.server.datanode.DataNode"
JVM: Final = (
    "-Xmx256m",
    "-XX:+UseSerialGC",
    "-XX:TieredStopAtLevel=1",
    "-Djava.net.preferIPv4Stack=true",
    # WebHDFS proxies its classes with cglib; without this option every call fails with status 500.
    "--add-opens=java.base/java.lang=ALL-UNNAMED",
)
_LOG4J = """\
log4j.rootLogger=WARN,stdout
log4j.appender.stdout=org.apache.log4j.ConsoleAppender
log4j.appender.stdout.layout=org.apache.log4j.PatternLayout
log4j.appender.stdout.layout.ConversionPattern=%d{ISO8601} %p %c{2}: %m%n
"""
# How long a test waits on a loaded machine. This has nothing to do with the product's timeouts.
_READY_SECONDS = 120.0


def jars() -> Path:
    """Return the folder with the jars; the first call on a machine downloads them."""
    return cache.jars(POM)


def class_path() -> str:
    """Return the class path with the jars, always in the same order, as a class archive requires."""
    return ":".join(str(jar) for jar in sorted(jars().glob("*.jar")))


@dataclass(frozen=True)
class _DataNode:
    number: int
    port: int
    http_port: int
    ipc_port: int

    @property
    def name(self) -> str:
        return f"datanode-{self.number}"


class HdfsCluster(HdfsFiles, Server):
    """A NameNode and DataNodes on one address.

    By default, the superuser is the user who runs the tests, so clients in the test process may write anywhere. For all other users,
    permissions are checked.
    """

    def __init__(
        self,
        run_dir: Path,
        *,
        host: str = "127.0.0.1",
        datanodes: int = 2,
        user: str | None = None,
        lifetime: Lifetime = Lifetime.WITH_STARTER,
    ) -> None:
        Server.__init__(self, run_dir, host=host, lifetime=lifetime)
        port, http_port, *ports = free_ports(host, count=2 + 3 * datanodes)
        HdfsFiles.__init__(self, host=host, port=port, http_port=http_port, user=user or getpass.getuser())
        self._datanodes = [_DataNode(number, *ports[3 * number : 3 * number + 3]) for number in range(datanodes)]
        self._processes: dict[str, ServerProcess] = {}

    @property
    def processes(self) -> Sequence[ServerProcess]:
        """The running servers."""
        return list(self._processes.values())

    # -- servers ------------------------------------------------------------------------------------------------

    def launch(self) -> None:
        """Format a new NameNode, and start everything without waiting."""
        if not self._name_folder.exists():
            self._format()
        self._launch_namenode()
        for datanode in self._datanodes:
            self._launch_datanode(datanode)

    def wait_until_ready(self) -> None:
        """Wait until the NameNode has left safe mode and all DataNodes have registered."""
        namenode = self._processes["namenode"]
        namenode.wait_until(lambda: self._is_operational(datanodes=len(self._datanodes)), seconds=_READY_SECONDS)

    def stop(self) -> None:
        """Stop all servers. Their data stays in the run folder."""
        while self._processes:
            # The servers can be killed, because no data is written after the tests. An orderly shutdown of a DataNode would take seconds.
            self._processes.popitem()[1].kill()

    def kill_namenode(self) -> None:
        """Kill the NameNode, as a power failure would."""
        self._processes.pop("namenode").kill()

    def start_namenode(self) -> None:
        """Start the NameNode with its old address and data, and wait until all running DataNodes are back.

        This takes about 13 s, because a DataNode sleeps 5 s between its attempts to reach the NameNode.
        """
        self._launch_namenode()
        datanodes = len(self._processes) - 1
        namenode = self._processes["namenode"]
        namenode.wait_until(lambda: self._is_operational(datanodes=datanodes), seconds=_READY_SECONDS)
        # A DataNode counts as live even before it has reported its blocks, but files in unreported blocks can't be read.
        namenode.wait_until(self._is_healthy, seconds=_READY_SECONDS)

    def kill_datanode(self, number: int) -> None:
        """Kill a DataNode, as a power failure would. The NameNode considers it dead after about 16 s."""
        self._processes.pop(self._datanodes[number].name).kill()

    def kill_datanode_while_writing(self, number: int, *, seconds: float = 60) -> set[Path]:
        """Kill a DataNode while it is writing a block.

        To find such a moment, the DataNode is paused again and again, and resumed if it has no unfinished block. Returns the files of its
        unfinished blocks, except those that an earlier kill left behind.
        """
        process = self._processes[self._datanodes[number].name]
        deadline = time.monotonic() + seconds
        left = self._unfinished_blocks(number)
        while True:
            process.pause()
            if begun := self._unfinished_blocks(number) - left:
                self.kill_datanode(number)
                return begun
            process.resume()
            if time.monotonic() > deadline:
                raise ServerFailed(f"nothing was written to {process.name} for {seconds} s")
            time.sleep(0.005)

    def _unfinished_blocks(self, number: int) -> set[Path]:
        found = (self.run_dir / "data" / self._datanodes[number].name).glob("current/BP-*/current/rbw/blk_*")
        return {path for path in found if path.suffix != ".meta"}

    def start_datanode(self, number: int) -> None:
        """Start a DataNode with its old address and data; see `wait_for_live_datanodes`."""
        self._launch_datanode(self._datanodes[number])

    def launch_missing(self) -> None:
        """Restart killed servers with their old addresses and data, without waiting."""
        if "namenode" not in self._processes:
            self._launch_namenode()
        for datanode in self._datanodes:
            if datanode.name not in self._processes:
                self._launch_datanode(datanode)

    def start_missing(self) -> None:
        """Restart killed servers and wait until every DataNode is back with its blocks."""
        self.launch_missing()
        self.wait_until_ready()
        for datanode in self._datanodes:
            # The NameNode might not have noticed that the DataNode was dead, so ask the DataNode itself.
            self._processes[datanode.name].wait_until(partial(self._serves, datanode), seconds=_READY_SECONDS)
        self._processes["namenode"].wait_until(self._is_healthy, seconds=_READY_SECONDS)

    def live_datanodes(self) -> list[str]:
        """Return host and port of each DataNode that the NameNode considers live."""
        return sorted(json.loads(self._bean("NameNodeInfo")["LiveNodes"]))

    def wait_for_live_datanodes(self, count: int, *, seconds: float = _READY_SECONDS) -> None:
        """Wait until the NameNode considers exactly this many DataNodes live."""
        wait_until(
            lambda: len(self.live_datanodes()) == count,
            seconds=seconds,
            what=f"{count} live DataNodes at {self.http_address}",
        )

    # -- clients ------------------------------------------------------------------------------------------------

    def client_configuration(self, extra: Mapping[str, str] | None = None) -> dict[str, str]:
        """Return the contents of core-site.xml and hdfs-site.xml for a client, by file name."""
        return {
            "core-site.xml": site_xml({"fs.defaultFS": self.uri}),
            "hdfs-site.xml": site_xml({"dfs.client.use.datanode.hostname": "true", **(extra or {})}),
        }

    def write_client_configuration(self, folder: Path, extra: Mapping[str, str] | None = None) -> None:
        """Write the client's configuration into a folder, for HADOOP_CONF_DIR."""
        folder.mkdir(parents=True, exist_ok=True)
        for name, content in self.client_configuration(extra).items():
            (folder / name).write_text(content)

    # -- inside -------------------------------------------------------------------------------------------------

    @property
    def _name_folder(self) -> Path:
        return self.run_dir / "data" / "namenode"

    def _format(self) -> None:
        said = self._run_to_end("format", self._namenode_settings(), NAMENODE, "-format", "-nonInteractive", "-force")
        # Formatting exits with 0 even after some failures, so check the result.
        if not (self._name_folder / "current" / "VERSION").exists():
            raise ServerFailed(f"The NameNode could not be formatted:\n{said}")

    def _run_to_end(self, name: str, settings: Mapping[str, str], *command: str) -> str:
        """Runs a Hadoop program to completion; returns the end of its output."""
        process = ServerProcess.start(
            name,
            [*self._java(name, settings), *command],
            log=self.run_dir / "logs" / f"{name}.log",
            environment={"HADOOP_USER_NAME": self.user},
            lifetime=Lifetime.WITH_STARTER,
            awaited=True,
        )
        wait_until(lambda: not process.running, seconds=_READY_SECONDS, what=f"the end of {' '.join(command)}")
        return process.last_words()

    def _launch_namenode(self) -> None:
        self._launch("namenode", settings=self._namenode_settings(), main_class=NAMENODE)

    def _launch_datanode(self, datanode: _DataNode) -> None:
        self._launch(datanode.name, settings=self._datanode_settings(datanode), main_class=_DATANODE)

    def _launch(self, name: str, *, settings: Mapping[str, str], main_class: str) -> None:
        self._processes[name] = ServerProcess.start(
            name,
            [*self._java(name, settings), main_class],
            log=self.run_dir / "logs" / f"{name}.log",
            environment={"HADOOP_USER_NAME": self.user},
            lifetime=self._lifetime,
        )

    def _java(self, name: str, settings: Mapping[str, str]) -> list[str]:
        configuration = self.run_dir / "conf" / name
        # The servers refuse to start without these folders on the class path, and the jars don't contain them.
        for web_application in ("hdfs", "datanode"):
            (configuration / "webapps" / web_application).mkdir(parents=True, exist_ok=True)
        (configuration / "log4j.properties").write_text(_LOG4J)
        (configuration / "core-site.xml").write_text(site_xml(self._core_settings()))
        (configuration / "hdfs-site.xml").write_text(site_xml({**self._common_settings(), **settings}))
        # Jetty unpacks its files there, and removes them only on a clean exit.
        temporary = self.run_dir / "tmp"
        temporary.mkdir(exist_ok=True)
        options = [*JVM, *self._shared_classes(), f"-Djava.io.tmpdir={temporary}", *self._jvm_options()]
        return ["java", *options, "-cp", f"{class_path()}:{configuration}"]

    def _jvm_options(self) -> Sequence[str]:
        return ()

    def _shared_classes(self) -> Sequence[str]:
        from storeservers import hdfs_classes  # imported here, because `hdfs_classes` itself imports this module

        return [f"-XX:SharedArchiveFile={hdfs_classes.archive()}"]

    def _core_settings(self) -> dict[str, str]:
        return {"fs.defaultFS": self.uri}

    def _common_settings(self) -> dict[str, str]:
        return {
            "dfs.namenode.rpc-address": f"{self.host}:{self.port}",
            "dfs.namenode.http-address": self.http_address,
            "dfs.replication": str(len(self._datanodes)),
            "dfs.permissions.enabled": "true",
            # With these settings, a DataNode is considered dead after 2 rechecks of 3 s and 10 heartbeats of 1 s. By default, this takes
            # ten minutes.
            "dfs.heartbeat.interval": "1",
        }

    def _namenode_settings(self) -> dict[str, str]:
        return {
            "dfs.namenode.name.dir": self._name_folder.as_uri(),
            "dfs.namenode.heartbeat.recheck-interval": "3000",
            "dfs.namenode.datanode.registration.ip-hostname-check": "false",
            "dfs.namenode.safemode.extension": "0",
            "dfs.namenode.safemode.min.datanodes": "1",
            # By default, the thread that deletes blocks wakes up a hundred times a second. This is a third of an idle NameNode's work.
            "dfs.namenode.block.deletion.unlock.interval.ms": "1000",
        }

    def _datanode_settings(self, datanode: _DataNode) -> dict[str, str]:
        return {
            "dfs.datanode.data.dir": (self.run_dir / "data" / datanode.name).as_uri(),
            "dfs.datanode.address": f"{self.host}:{datanode.port}",
            "dfs.datanode.http.address": f"{self.host}:{datanode.http_port}",
            "dfs.datanode.ipc.address": f"{self.host}:{datanode.ipc_port}",
            "dfs.datanode.hostname": self.host,
        }

    def _is_operational(self, *, datanodes: int) -> bool:
        try:
            state = self._bean("FSNamesystemState")
        except (OSError, LookupError, WebHdfsError):
            return False
        alive: int = state["NumLiveDataNodes"]
        return alive >= datanodes and state["FSState"] == "Operational"

    def _serves(self, datanode: _DataNode) -> bool:
        try:
            info = self._bean("DataNodeInfo", service="DataNode", http_address=f"{self.host}:{datanode.http_port}")
            return '"RUNNING"' in info["BPServiceActorInfo"]
        except (OSError, LookupError, WebHdfsError):
            return False

    def _is_healthy(self) -> bool:
        query = urllib.parse.urlencode({"ugi": self.user, "path": "/"})
        verdict = send("GET", f"http://{self.http_address}/fsck?{query}")
        return b"is HEALTHY" in verdict

    # Any: the server's JSON, of which each caller picks known fields.
    def _bean(self, name: str, *, service: str = "NameNode", http_address: str | None = None) -> dict[str, Any]:
        query = urllib.parse.urlencode({"qry": f"Hadoop:service={service},name={name}"})
        answer = send("GET", f"http://{http_address or self.http_address}/jmx?{query}")
        bean: dict[str, Any] = json.loads(answer)["beans"][0]
        return bean


def site_xml(settings: Mapping[str, str]) -> str:
    """Return settings as the content of a Hadoop -site.xml file."""
    properties = "".join(
        f"  <property><name>{escape(name)}</name><value>{escape(value)}</value></property>\n" for name, value in settings.items()
    )
    return f'<?xml version="1.0"?>\n<configuration>\n{properties}</configuration>\n'
