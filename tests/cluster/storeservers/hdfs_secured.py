"""A real HDFS that requires Kerberos tickets."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from storeservers.hdfs import HdfsCluster
from storeservers.kdc import REALM, Kdc
from storeservers.processes import Lifetime

_HOST = "localhost"
"""Service principals contain host names, not addresses."""


class SecuredHdfs(HdfsCluster):
    """A NameNode and a DataNode in the realm of a running KDC. WebHDFS requires a ticket too, so methods such as `ls` fail."""

    def __init__(self, run_dir: Path, kdc: Kdc, *, lifetime: Lifetime = Lifetime.WITH_STARTER) -> None:
        super().__init__(run_dir, host=_HOST, datanodes=1, user="hdfs", lifetime=lifetime)
        self._kdc = kdc
        self.service = f"hdfs/{_HOST}@{REALM}"
        """The principal of the servers, which is the superuser."""
        self.keytab = kdc.keytab(f"hdfs/{_HOST}", f"HTTP/{_HOST}")

    def _jvm_options(self) -> Sequence[str]:
        return (f"-Djava.security.krb5.conf={self._kdc.krb5_conf}",)

    def _core_settings(self) -> dict[str, str]:
        return {**super()._core_settings(), "hadoop.security.authentication": "kerberos", "hadoop.security.authorization": "true"}

    def _common_settings(self) -> dict[str, str]:
        return {
            **super()._common_settings(),
            "dfs.block.access.token.enable": "true",
            "dfs.data.transfer.protection": "authentication",
            "dfs.http.policy": "HTTP_ONLY",
            # Without HTTPS, Hadoop requires ports below 1024 as a protection from rogue DataNodes. These servers use other ports.
            "ignore.secure.ports.for.testing": "true",
            "dfs.namenode.kerberos.principal": self.service,
            "dfs.namenode.keytab.file": str(self.keytab),
            "dfs.datanode.kerberos.principal": self.service,
            "dfs.datanode.keytab.file": str(self.keytab),
            "dfs.web.authentication.kerberos.principal": f"HTTP/{_HOST}@{REALM}",
            "dfs.web.authentication.kerberos.keytab": str(self.keytab),
        }
