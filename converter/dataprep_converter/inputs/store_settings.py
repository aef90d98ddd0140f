"""Store settings: entries of `spec.stores`, completed with their Secrets and ConfigMaps.

In a pod, the operator mounts Secrets and ConfigMaps as folders with a file for each key. The Secret of the i-th entry is in
`<mounts>/secrets/<i>/`, and the entry's ConfigMap is in `<mounts>/hadoop/<i>/`. An entry for HDFS has a principal and a keytab instead of
an access key. Outside a pod, there are no mounts: an entry has only the values from the spec, and the clients take credentials from
environment variables.
"""

import os
from collections.abc import Mapping, Sequence
from collections.abc import Set as AbstractSet
from pathlib import Path
from typing import Final

from dataprep_api import spec
from dataprep_api.resources.job import DataPrepJob
from dataprep_converter.core.errors import BadSpec
from dataprep_converter.inputs.access import Access
from dataprep_converter.stores import StoreSettings, scheme_of

MOUNTS_VARIABLE: Final = "DATAPREP_MOUNTS"
_KEYS: Final = (("accessKeyId", "accessKeySecret"),)
_AZURE: Final = (("accountKey",), ("sasToken",), ("tenantId", "clientId", "clientSecret"))
SECRET_KEYS: Final[Mapping[str, Sequence[Sequence[str]]]] = {
    "abfs": _AZURE,
    "abfss": _AZURE,
    "gs": (("serviceAccountKey",),),
    "hf": (("token",),),
    "webhdfs": (("delegationToken",),),
    "swebhdfs": (("delegationToken",),),
    **dict.fromkeys(("ftp", "sftp", "ssh", "smb", "webdav"), (("username", "password"),)),
}
"""Maps a scheme to sets of keys. A Secret for the scheme must have all keys of at least one of these sets. For schemes not listed here, the
only set is `_KEYS`."""
_OPTIONAL: Final = "securityToken"
_KERBEROS: Final = (("principal", "keytab"),)
"""The keys for HDFS. The keytab is a file, not text."""
_HADOOP_FILES: Final = ("core-site.xml", "hdfs-site.xml")


def mounts_of_this_pod() -> str | None:
    """Returns the folder of the mounts, or None outside a pod."""
    return os.environ.get(MOUNTS_VARIABLE) or None


def access_of(job: DataPrepJob) -> Access:
    """Returns access to the stores that the job configures. Uses the credentials of this process."""
    return Access(settings_for(job.spec.stores, os.environ.get(MOUNTS_VARIABLE)))


def settings_for(stores: Sequence[spec.Store] | None, mounts: str | None) -> list[StoreSettings]:
    """Returns the settings of each entry, in order. Raises BadSpec, naming the missing keys, if a Secret or ConfigMap lacks keys."""
    return [_settings(store, index, None if mounts is None else Path(mounts)) for index, store in enumerate(stores or [])]


def _settings(store: spec.Store, index: int, mounts: Path | None) -> StoreSettings:
    credentials: dict[str, str] = {}
    principal: str | None = None
    keytab: str | None = None
    hadoop_conf: str | None = None
    if mounts is not None and store.secret_ref is not None:
        folder = mounts / "secrets" / str(index)
        scheme = scheme_of(store.uri_prefix)
        if scheme == "hdfs":
            principal, keytab = _kerberos(folder, store.secret_ref.name)
        else:
            credentials = _credentials(folder, store.secret_ref.name, SECRET_KEYS.get(scheme, _KEYS))
    if mounts is not None and store.config_map_ref is not None:
        hadoop_conf = _hadoop_conf(mounts / "hadoop" / str(index), store.config_map_ref.name)
    return StoreSettings(
        uri_prefix=store.uri_prefix,
        endpoint=store.endpoint,
        tunnel_endpoint=store.tunnel_endpoint,
        region=store.region,
        path_style=store.path_style,
        user=store.user,
        anonymous=store.anonymous,
        credentials=credentials,
        hadoop_conf=hadoop_conf,
        server_side_encryption=store.server_side_encryption,
        kms_key_id=store.kms_key_id,
        principal=principal,
        keytab=keytab,
        requests_per_second=store.requests_per_second,
        entry=str(index),
    )


def _credentials(folder: Path, secret: str, alternatives: Sequence[Sequence[str]]) -> dict[str, str]:
    keys_present = _names(folder)
    relevant = {*(key for keys in alternatives for key in keys), _OPTIONAL} & keys_present
    # Values in Secrets made with `kubectl create secret --from-file` often end in a newline, which is never part of a credential.
    values = {key: value for key in sorted(relevant) if (value := (folder / key).read_text().strip())}
    _require(alternatives, values, keys_present, secret)
    return values


def _kerberos(folder: Path, secret: str) -> tuple[str, str]:
    """Returns the principal, and the path of its keytab."""
    keys_present = _names(folder)
    principal = (folder / "principal").read_text().strip() if "principal" in keys_present else ""
    keytab = str(folder / "keytab") if "keytab" in keys_present else ""
    _require(_KERBEROS, {key: value for key, value in (("principal", principal), ("keytab", keytab)) if value}, keys_present, secret)
    return principal, keytab


def _names(folder: Path) -> set[str]:
    return {file.name for file in folder.iterdir() if not file.name.startswith(".")} if folder.is_dir() else set()


def _require(alternatives: Sequence[Sequence[str]], values: Mapping[str, str], keys_present: AbstractSet[str], secret: str) -> None:
    if any(values.keys() >= set(keys) for keys in alternatives):
        return
    sets = ", or ".join(" and ".join(filter(None, (", ".join(keys[:-1]), keys[-1]))) for keys in alternatives)
    missing = ", ".join(key for key in alternatives[0] if key not in values)
    raise BadSpec(
        f"Secret {secret} must have the key{'s' if len(alternatives) > 1 or len(alternatives[0]) > 1 else ''} {sets}; "
        f"missing: {missing}; it has: {', '.join(sorted(keys_present)) or 'nothing'}."
    )


def _hadoop_conf(folder: Path, config_map: str) -> str:
    if not any((folder / name).is_file() for name in _HADOOP_FILES):
        raise BadSpec(f"ConfigMap {config_map} must have the key core-site.xml or hdfs-site.xml; it has neither.")
    return str(folder)
