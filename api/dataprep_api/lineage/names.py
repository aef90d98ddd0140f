"""Names of data sets, by OpenLineage's naming conventions: a namespace, which is the data source, and a name within this namespace.

MaxCompute and OSS aren't in the conventions. Their names follow the conventions for other warehouses and object stores.
"""

import os
import re
from dataclasses import dataclass
from typing import Final
from urllib.parse import urlsplit

_OBJECT_STORES: Final = ("s3", "oss", "gs", "abfss", "hf")
"""Schemes of stores without folders. Names in these stores don't begin with a slash."""
_CANONICAL: Final = {"s3a": "s3", "s3n": "s3", "abfs": "abfss", "postgresql": "postgres"}
_POSTGRES_PORT: Final = 5432
_WITH_CONTAINER: Final = "abfss"
"""The scheme whose authority is `container@account`. In the authorities of all other schemes, the part before the @ is a user."""
_GLOB: Final = re.compile(r"[*?\[]")


@dataclass(frozen=True)
class DataSetName:
    """The name of a data set."""

    namespace: str
    name: str


def data_set_name(uri: str) -> DataSetName:
    """Return the name of the data set at a URI. For a pattern such as `s3://bucket/day/*.csv`, the name is the folder (`day`).

    Users and queries are left out, so the name contains no passwords or signatures.
    """
    scheme, mark, rest = uri.partition("://")
    if not mark or scheme == "file":
        path = os.path.abspath(_before_pattern(rest if mark else uri))  # noqa: PTH100 - links must stay as they are
        return DataSetName("file", path)
    scheme = _CANONICAL.get(scheme.lower(), scheme.lower())
    authority, slash, path = (
        re.split(r"[?#]", rest, maxsplit=1)[0].partition("/") if scheme in ("http", "https", "postgres") else rest.partition("/")
    )
    if scheme != _WITH_CONTAINER:
        authority = authority.rpartition("@")[2]
    if scheme == "odps":
        return DataSetName(f"odps://{authority}", path.removeprefix("tables/").partition("/")[0] or "/")
    if scheme == "postgres":
        port = "" if urlsplit(f"//{authority}").port else f":{_POSTGRES_PORT}"
        return DataSetName(f"postgres://{authority}{port}", path or "/")
    path = _before_pattern(path) if scheme not in ("http", "https") else path.rstrip("/")
    namespace = f"{scheme}://{authority}" if authority else scheme
    return DataSetName(namespace, path or "/" if scheme in _OBJECT_STORES else f"{slash}{path}" or "/")


def _before_pattern(path: str) -> str:
    """Return the path without a trailing slash and without the parts that contain a pattern."""
    pattern = _GLOB.search(path)
    if pattern is None:
        return path.rstrip("/") or path[:1]
    return path[: pattern.start()].rpartition("/")[0]
