"""Reads the Hadoop configuration, `core-site.xml` and `hdfs-site.xml`, without an HDFS client.

The configuration is used only to resolve names.
"""

import os
from collections.abc import Mapping
from pathlib import Path
from xml.etree import ElementTree as ET

from dataprep_converter.core.errors import BadSpec


def configuration(folder: str | None) -> Mapping[str, str]:
    """Returns the names and values of the properties in a folder's configuration files.

    If no folder is given, takes the folder from the environment variables that hdfs-native also reads.
    """
    home = os.environ.get("HADOOP_HOME")
    folder = folder or os.environ.get("HADOOP_CONF_DIR") or (home and f"{home}/etc/hadoop")
    values: dict[str, str] = {}
    for name in ("core-site.xml", "hdfs-site.xml"):
        file = Path(folder or "", name)
        if not folder or not file.is_file():
            continue
        try:
            root = ET.parse(file).getroot()  # noqa: S314 - the user's own configuration
        except ET.ParseError as exc:
            raise BadSpec(f"{name} of the Hadoop configuration is not XML: {exc}.") from exc
        for element in root.iter("property"):
            values[(element.findtext("name") or "").strip()] = (element.findtext("value") or "").strip()
    return values


def name_nodes(authority: str, settings: Mapping[str, str]) -> list[str]:
    """Returns host and port of each NameNode of a name service, or an empty list if the authority is not a name service."""
    names = settings.get(f"dfs.ha.namenodes.{authority}", "")
    keys = [f"dfs.namenode.rpc-address.{authority}.{name.strip()}" for name in names.split(",") if name.strip()]
    return [settings[key] for key in keys if key in settings]
