"""A real MIT Kerberos KDC on loopback with its own realm."""

from __future__ import annotations

import shutil
import subprocess
from collections.abc import Mapping
from pathlib import Path
from typing import Final

from storeservers.processes import Lifetime, ServerFailed
from storeservers.servers import OneServer

REALM: Final = "DATAPREP.TEST"

_PROGRAMS = ("krb5kdc", "kdb5_util", "kadmin.local")
_SYSTEM_FOLDERS = "/usr/sbin:/usr/local/sbin"


class Kdc(OneServer):
    """A KDC. `keytab` creates principals and exports their keys."""

    name = "kdc"

    def __init__(self, run_dir: Path, *, host: str = "127.0.0.1", lifetime: Lifetime = Lifetime.WITH_STARTER) -> None:
        super().__init__(run_dir, host=host, lifetime=lifetime)

    @property
    def krb5_conf(self) -> Path:
        """The krb5.conf that clients need to find this KDC."""
        return self.run_dir / "krb5.conf"

    def launch(self) -> None:
        """Create the realm on the first start, and start the KDC without waiting."""
        missing = [name for name in _PROGRAMS if _program(name) is None]
        if missing:
            raise ServerFailed(f"A KDC needs {', '.join(missing)}: apt-get install krb5-kdc krb5-admin-server.")
        (self.run_dir / "keytabs").mkdir(parents=True, exist_ok=True)
        self.krb5_conf.write_text(self.client_configuration())
        (self.run_dir / "kdc.conf").write_text(self._server_configuration())
        if not (self.run_dir / "principal").exists():
            self._run("kdb5_util", "create", "-s", "-r", REALM, "-P", "of the tests")
        self._launch([str(_program("krb5kdc")), "-n"], environment=self._environment())

    def keytab(self, *principals: str) -> Path:
        """Create principals such as `alice` or `hdfs/localhost`, and a keytab with their keys."""
        file = self.run_dir / "keytabs" / f"{'-'.join(principals).replace('/', '_')}.keytab"
        for principal in principals:
            self._run("kadmin.local", "-r", REALM, "add_principal", "-randkey", principal)
            self._run("kadmin.local", "-r", REALM, "ktadd", "-norandkey", "-k", str(file), principal)
        return file

    def change_key(self, principal: str) -> None:
        """Give a principal a new key, which invalidates its keytabs."""
        self._run("kadmin.local", "-r", REALM, "change_password", "-randkey", principal)

    def client_configuration(self, *, port: int | None = None) -> str:
        """The text of a krb5.conf, optionally for another port of the KDC."""
        return (
            f"[libdefaults]\n default_realm = {REALM}\n rdns = false\n dns_canonicalize_hostname = false\n"
            f" dns_lookup_kdc = false\n udp_preference_limit = 1\n"
            f"[realms]\n {REALM} = {{\n  kdc = {self.host}:{port or self.port}\n }}\n"
            f"[domain_realm]\n localhost = {REALM}\n"
        )

    def _server_configuration(self) -> str:
        return (
            f"[kdcdefaults]\n kdc_listen = {self.host}:{self.port}\n kdc_tcp_listen = {self.host}:{self.port}\n"
            f"[realms]\n {REALM} = {{\n  database_name = {self.run_dir}/principal\n  key_stash_file = {self.run_dir}/stash\n"
            f"  acl_file = {self.run_dir}/acl\n }}\n"
        )

    def _environment(self) -> Mapping[str, str]:
        return {"KRB5_CONFIG": str(self.krb5_conf), "KRB5_KDC_PROFILE": str(self.run_dir / "kdc.conf")}

    def _run(self, program: str, *arguments: str) -> None:
        done = subprocess.run(  # programs of Kerberos
            [str(_program(program)), *arguments], env=dict(self._environment()), capture_output=True, text=True, check=False
        )
        if done.returncode != 0:
            raise ServerFailed(f"{program} {' '.join(arguments)} ended with {done.returncode}: {done.stderr}")


def _program(name: str) -> str | None:
    return shutil.which(name) or shutil.which(name, path=_SYSTEM_FOLDERS)
