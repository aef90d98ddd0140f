"""Store settings: entries of `spec.stores` with their Secrets and ConfigMaps read, in a pod or on a laptop.

In a pod the operator mounts, for the i-th entry, the Secret's keys as files in `<mounts>/secrets/<i>/` and the ConfigMap's in
`<mounts>/hadoop/<i>/`. An entry of HDFS has a principal and a keytab instead of an access key. Without mounts an entry has only what the spec says, and the clients take credentials from the
environment's own variables.
"""

import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Final

from dataprep_api import spec
from dataprep_converter.errors import BadSpec
from dataprep_converter.stores import StoreSettings, scheme_of

MOUNTS_VARIABLE: Final = "DATAPREP_MOUNTS"
SECRET_KEYS: Final = ("accessKeyId", "accessKeySecret", "securityToken")
KERBEROS_KEYS: Final = ("principal", "keytab")
_HADOOP_FILES: Final = ("core-site.xml", "hdfs-site.xml")


def mounts_of_this_pod() -> str | None:
    """The folder of the mounts, None outside a pod."""
    return os.environ.get(MOUNTS_VARIABLE) or None


def settings_for(stores: Sequence[spec.Store] | None, mounts: str | None) -> list[StoreSettings]:
    """One StoreSettings for each entry, in order. Raises BadSpec naming the Secret or ConfigMap and what it lacks."""
    return [_settings(store, index, None if mounts is None else Path(mounts)) for index, store in enumerate(stores or [])]


def _settings(store: spec.Store, index: int, mounts: Path | None) -> StoreSettings:
    credentials: dict[str, str] = {}
    principal: str | None = None
    keytab: str | None = None
    hadoop_conf: str | None = None
    if mounts is not None and store.secret_ref is not None:
        folder = mounts / "secrets" / str(index)
        if scheme_of(store.uri_prefix) == "hdfs":
            principal, keytab = _kerberos(folder, store.secret_ref.name)
        else:
            credentials = _credentials(folder, store.secret_ref.name)
    if mounts is not None and store.config_map_ref is not None:
        hadoop_conf = _hadoop_conf(mounts / "hadoop" / str(index), store.config_map_ref.name)
    return StoreSettings(
        uri_prefix=store.uri_prefix,
        endpoint=store.endpoint,
        tunnel_endpoint=store.tunnel_endpoint,
        region=store.region,
        path_style=store.path_style,
        user=store.user,
        credentials=credentials,
        hadoop_conf=hadoop_conf,
        principal=principal,
        keytab=keytab,
    )


def _credentials(folder: Path, secret: str) -> dict[str, str]:
    # Secrets made with `kubectl create secret --from-file` end in a newline; no key of any store does.
    found = {key: (folder / key).read_text().strip() for key in SECRET_KEYS if (folder / key).is_file()}
    _require(SECRET_KEYS[:2], found, folder, secret)
    return {key: value for key, value in found.items() if value}


def _kerberos(folder: Path, secret: str) -> tuple[str, str]:
    """The principal, and the file of its keys."""
    principal, keytab = (folder / key for key in KERBEROS_KEYS)
    found = {"principal": principal.read_text().strip() if principal.is_file() else "", "keytab": str(keytab) if keytab.is_file() else ""}
    _require(KERBEROS_KEYS, found, folder, secret)
    return found["principal"], found["keytab"]


def _require(keys: Sequence[str], found: Mapping[str, str], folder: Path, secret: str) -> None:
    missing = [key for key in keys if not found.get(key)]
    if missing:
        there = ", ".join(sorted(each.name for each in folder.iterdir() if not each.name.startswith("."))) if folder.is_dir() else "nothing"
        raise BadSpec(f"Secret {secret} must have the keys {' and '.join(keys)}; missing: {', '.join(missing)}; it has: {there}.")


def _hadoop_conf(folder: Path, config_map: str) -> str:
    if not any((folder / name).is_file() for name in _HADOOP_FILES):
        raise BadSpec(f"ConfigMap {config_map} must have the key core-site.xml or hdfs-site.xml; it has neither.")
    return str(folder)
