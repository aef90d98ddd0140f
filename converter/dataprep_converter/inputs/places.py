"""Places: the files and folders that URIs name. Places are derived from the URIs alone, without a query to a store.

Two URIs may name the same place.

Places are compared to make sure that a job doesn't write to a folder that it reads. If it is uncertain whether two places are the same,
they count as the same. Paths are compared both as written and percent-decoded. Double slashes, `.` and `..` are resolved as in a local
path, although an object store's keys can contain them.
"""

import os
import re
import socket
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cache, lru_cache
from pathlib import Path
from typing import Final
from urllib.parse import unquote, urlsplit

from dataprep_converter.core.errors import BadSpec
from dataprep_converter.inputs import maxcompute
from dataprep_converter.inputs.access import Access
from dataprep_converter.stores import StoreSettings, scheme_of
from dataprep_converter.stores.hdfs import hadoop_configuration
from dataprep_converter.stores.local_paths import path_of

_MOUNTS: Final = Path("/proc/self/mountinfo")
_ESCAPED: Final = re.compile(r"\\([0-7]{3})")
_SHARE: Final = re.compile(r"(?://)?(?P<host>\[[^\]]+\]|[^/:\[\]]+)(?::(?=/)|(?=/))(?P<path>/.*)")
_S3_PORTS: Final = {"http": "80", "https": "443"}
_NAME_NODE_PORT: Final = "8020"
_DEFAULT_BRANCH: Final = re.compile("@main(?=/|$)")
"""The branch of a Hub repository that an address without a revision refers to."""
_WEB_WAYS: Final = ("webhdfs", "swebhdfs")

Steps = tuple[str, ...]
"""The components of a path."""


@dataclass(frozen=True)
class Root:
    """One of the names of a store."""

    family: str
    host: str = ""
    way: str = ""
    """The protocol, for stores with several protocols. Ports of different protocols can't be compared."""
    port: str = ""

    def is_same(self, other: "Root") -> bool:
        """Returns whether both names refer to the same store."""
        if self.family != other.family or (self.way == other.way and self.port != other.port):
            return False
        return self.host == other.host or (
            bool(self.host and other.host) and not addresses_of(self.host).isdisjoint(addresses_of(other.host))
        )


@dataclass(frozen=True)
class Place:
    """A file or a folder, with all its names."""

    names: Sequence[tuple[Root, Steps]]
    lineage: Sequence[tuple[tuple[int, int] | None, str]] = ()
    """For a local path: (device and inode numbers, name) of the path and of each folder above it.

    The numbers are None for a folder that doesn't exist.
    """

    def path_of(self, other: "Place") -> Steps | None:
        """Returns the relative path of `other` if `other` is below this place, an empty path if both are the same place, or else None."""
        for root, steps in self.names:
            for other_root, path in other.names:
                if path[: len(steps)] == steps and root.is_same(other_root):
                    return path[len(steps) :]
        own = self.lineage[0][0] if self.lineage else None
        if own is not None:
            for up, (identity, _) in enumerate(other.lineage):
                if identity == own:
                    return tuple(name for _, name in reversed(other.lineage[:up]))
        return None


def place_of(uri: str, access: Access) -> Place | None:
    """Returns the place that a URI names, or None for HTTP, which can't be written to."""
    scheme = scheme_of(uri)
    if scheme in ("", "file"):
        return _local_place(path_of(uri))
    authority, _, path = uri.partition("://")[2].partition("/")
    if scheme == maxcompute.SCHEME:
        project, *tables = uri.partition("://")[2].rstrip("/").split("/")
        _, table, *partition = tables if len(tables) > 1 else ("", "")
        if not table or any("=" not in key for key in partition):
            raise BadSpec(f"{uri} names no table: write odps://PROJECT/tables/TABLE, and KEY=VALUE for each level of a partition.", uri=uri)
        keys = tuple("{}={}".format(*(part.strip("'\"") for part in key.split("=", 1))) for key in partition)
        return Place([(Root(scheme), (project.lower(), table.lower(), *keys))])
    if scheme in ("http", "https"):
        return None
    if scheme in ("hdfs", *_WEB_WAYS):
        return _place_at(_name_nodes(uri, scheme, authority, access), (), path)
    if scheme in ("abfs", "abfss"):
        container, _, host = authority.lower().rpartition("@") if "@" in authority else (authority.lower(), "", "")
        account = host.partition(".")[0] or os.environ.get("AZURE_STORAGE_ACCOUNT_NAME") or os.environ.get("AZURE_STORAGE_ACCOUNT") or ""
        return _place_at([Root(f"azure {account}")], (container,), path)
    if scheme == "hf":
        path = _DEFAULT_BRANCH.sub("", path)
    root = _endpoint(access.settings_of(uri)) if scheme == "s3" else Root(scheme)
    return _place_at([root], (authority.lower(),), path)


def real_path(uri: str) -> str:
    """Returns the path that a path or `file://` URI names, with symbolic links resolved."""
    return os.path.realpath(path_of(uri))


@cache
def addresses_of(host: str) -> frozenset[str]:
    """Returns a host's IP addresses and its name."""
    try:
        return frozenset({host, *(str(info[4][0]) for info in socket.getaddrinfo(host, None))})
    except (OSError, UnicodeError):
        return frozenset({host})


@dataclass(frozen=True)
class Mount:
    """A line of `/proc/self/mountinfo`."""

    at: str
    names: Sequence[tuple[Root, Steps]]
    """The names of the mounted folder."""


@lru_cache(maxsize=1)  # A job looks up several places, and the mounts rarely change between two look-ups.
def mounts(text: str) -> Sequence[Mount]:
    """Parses the text of `/proc/self/mountinfo`."""
    parsed = []
    for line in text.splitlines():
        words = [_ESCAPED.sub(lambda code: chr(int(code[1], 8)), word) for word in line.split(" ")]
        if "-" not in words[6:]:
            continue
        source = words[words.index("-", 6) + 2]
        names = [(Root("mount", words[2]), _steps(words[3]))]
        if (share := _SHARE.fullmatch(source)) is not None:
            names.append((Root("share", share["host"].lower()), _steps(f"{share['path']}/{words[3]}")))
        parsed.append(Mount(words[4], names))
    return parsed


def names_by_mount(path: str, table: Sequence[Mount]) -> Iterator[tuple[Root, Steps]]:
    """Yields the names that a path has within its own file system, according to the mount table.

    The path must contain no symbolic links.
    """
    steps = _steps(path)
    best: Mount | None = None
    for mount in table:
        at = _steps(mount.at)
        if steps[: len(at)] == at and (best is None or len(at) >= len(_steps(best.at))):
            best = mount
    if best is not None:
        for root, above in best.names:
            yield root, (*above, *steps[len(_steps(best.at)) :])


def _local_place(path: str) -> Place:
    real = os.path.realpath(path)
    names = [(Root("file"), _steps(real))]
    if _MOUNTS.exists():
        names += names_by_mount(real, mounts(_MOUNTS.read_text("utf-8", "surrogateescape")))
    lineage: list[tuple[tuple[int, int] | None, str]] = []
    for ancestor in (Path(real), *Path(real).parents):
        try:
            status = ancestor.stat()
        except OSError:
            lineage.append((None, ancestor.name))
        else:
            lineage.append(((status.st_dev, status.st_ino), ancestor.name))
    return Place(names, lineage)


def _place_at(roots: Sequence[Root], above: Steps, path: str) -> Place:
    """Returns the place of a path. The place is named twice: by the path as written, and by the percent-decoded path."""
    return Place([(root, (*above, *steps)) for root in roots for steps in dict.fromkeys((_steps(path), _steps(unquote(path))))])


def _steps(path: str) -> Steps:
    steps: list[str] = []
    for step in path.split("/"):
        if step == ".." and steps:
            steps.pop()
        elif step not in ("", ".", ".."):
            steps.append(step)
    return tuple(steps)


def _name_nodes(uri: str, scheme: str, authority: str, access: Access) -> list[Root]:
    """Returns all NameNodes that a URI names."""
    if scheme in _WEB_WAYS:
        host, port = _host_and_port(authority)
        return [Root("hdfs", host, way=scheme, port=port)]
    settings = hadoop_configuration.configuration(access.settings_of(uri).hadoop_conf)
    if not authority:
        authority = settings.get("fs.defaultFS", "").partition("://")[2].partition("/")[0]
    nodes = hadoop_configuration.name_nodes(authority, settings) or [authority]
    return [Root("hdfs", host, way=scheme, port=port or _NAME_NODE_PORT) for host, port in map(_host_and_port, nodes)]


def _endpoint(settings: StoreSettings) -> Root:
    """Returns the service behind an S3 endpoint: Amazon S3, OSS, Cloud Storage, or the endpoint's own host."""
    endpoint = settings.endpoint or os.environ.get("AWS_ENDPOINT_URL_S3") or os.environ.get("AWS_ENDPOINT_URL")
    if endpoint is None:
        return Root("s3")
    parts = urlsplit(endpoint if "://" in endpoint else f"https://{endpoint}")
    host = (parts.hostname or "").lower()
    if host.endswith((".amazonaws.com", ".amazonaws.com.cn")):
        return Root("s3")
    if host.endswith(".aliyuncs.com"):
        return Root("oss")
    if host == "storage.googleapis.com":
        return Root("gs")
    return Root("s3", host, port=str(parts.port or _S3_PORTS.get(parts.scheme.lower(), "")))


def _host_and_port(authority: str) -> tuple[str, str]:
    host, _, port = authority.lower().rpartition("@")[2].rpartition(":")
    return (host.strip("[]"), port) if host and port.isdecimal() else (authority.lower().strip("[]"), "")
