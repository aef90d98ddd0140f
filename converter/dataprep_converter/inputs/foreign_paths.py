"""Refuses paths that only another program understands, such as `~/data` in a shell. Here, they would name files or folders that don't
exist."""

import os
import re
from typing import Final

from dataprep_api.suggest import nearest
from dataprep_converter.core.errors import BadSpec
from dataprep_converter.stores import scheme_of
from dataprep_converter.stores.local_paths import path_of
from dataprep_converter.stores.registry import FSSPEC, STORES

_DRIVE: Final = re.compile(r"([A-Za-z]):[\\/](.*)", re.DOTALL)
_VARIABLE: Final = re.compile(r"\$([A-Za-z_]\w*|\{\w+\})(?=/|$)")
_MOST_SIBLINGS: Final = 10_000


def refuse_foreign(uri: str) -> None:
    """Raises BadSpec for a shell, Windows or Databricks path, and for a URI with only one slash after its scheme.

    The error says what to write instead.
    """
    scheme, separator, rest = uri.partition(":/")
    if separator and not rest.startswith("/"):
        if scheme == "dbfs":
            raise BadSpec(f"{uri} is a Databricks path: on Databricks machines, write /dbfs/{rest}.", uri=uri)
        if scheme in STORES or scheme in FSSPEC:
            slashes = "///" if scheme == "file" else "//"
            raise BadSpec(
                f"{uri} has only one slash after {scheme}:, so it would be a local path; write {scheme}:{slashes}{rest}.",
                uri=uri,
            )
    if uri == "~" or uri.startswith("~/"):
        raise BadSpec(f"{uri}: only a shell replaces ~ with a home folder; write {os.path.expanduser(uri)}.", uri=uri)  # noqa: PTH111 - a Path would normalize the text
    if variable := _VARIABLE.match(uri):
        raise BadSpec(
            f"{uri}: only a shell replaces {variable[0]}; write the path itself, or write ${{NAME}} and pass --set params.NAME={variable[0]}.",
            uri=uri,
        )
    if drive := _DRIVE.fullmatch(uri):
        path = drive[2].replace("\\", "/")
        raise BadSpec(f"{uri} is a Windows path; in WSL, write /mnt/{drive[1].lower()}/{path}.", uri=uri)


def absence(uri: str) -> str:
    """Describes which part of a local path doesn't exist: ` (/home/me has no data; did you mean date?)`. Empty for other stores."""
    if scheme_of(uri) not in ("", "file"):
        return ""
    path = os.path.abspath(path_of(uri))  # noqa: PTH100 - links must stay as they are
    missing = ""
    while not os.path.isdir(path):  # noqa: PTH112 - names that aren't UTF-8 are possible
        path, missing = os.path.split(path)
    try:
        siblings = os.listdir(path)[:_MOST_SIBLINGS] if missing else []  # noqa: PTH208 - as above
    except OSError:
        siblings = []
    return f" ({path} has no {missing}{nearest(missing, siblings)})" if missing else ""
