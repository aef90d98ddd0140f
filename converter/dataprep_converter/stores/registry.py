"""Finds the store class for a URI's scheme."""

from collections.abc import Mapping
from pkgutil import resolve_name
from typing import Final

from dataprep_api.suggest import nearest
from dataprep_converter.core.errors import BadSpec
from dataprep_converter.stores import Store

STORES: Final[Mapping[str, str]] = {
    "": "dataprep_converter.stores.files:FileStore",
    "file": "dataprep_converter.stores.files:FileStore",
    "hdfs": "dataprep_converter.stores.hdfs.hdfs:HdfsStore",
    "webhdfs": "dataprep_converter.stores.hdfs.webhdfs:WebHdfsStore",
    "swebhdfs": "dataprep_converter.stores.hdfs.webhdfs:WebHdfsStore",
    "s3": "dataprep_converter.stores.objects.s3:S3Store",
    "oss": "dataprep_converter.stores.objects.oss:OssStore",
    "gs": "dataprep_converter.stores.objects.gcs:GcsStore",
    "abfs": "dataprep_converter.stores.objects.azure:AzureStore",
    "abfss": "dataprep_converter.stores.objects.azure:AzureStore",
    "http": "dataprep_converter.stores.http:HttpStore",
    "https": "dataprep_converter.stores.http:HttpStore",
}
"""Maps each scheme to its store class. To add a store, add one line here and one file."""


PACED: Final = ("s3", "oss", "gs", "abfs", "abfss", "http", "https", "webhdfs", "swebhdfs")
"""Schemes whose stores pace their requests (see `runtime.request_budget`)."""


ANONYMOUS: Final = ("s3", "oss", "gs", "abfs", "abfss", "hf", "ftp")
"""Schemes whose stores send no credentials if the settings are `anonymous`."""


NO_CREDENTIALS: Final = ("", "file", "http", "https")
"""Schemes whose stores have no credentials to send."""


EXTRAS: Final[Mapping[str, str]] = {"abfs": "azure", "abfss": "azure", "gs": "gcs"}
"""Maps a scheme to the extra to install, if the extra's name differs from the scheme."""


FSSPEC: Final = (
    "ftp",
    "sftp",
    "ssh",
    "smb",
    "webdav",
    "hf",
    "git",
    "github",
    "gist",
    "dropbox",
    "box",
    "gdrive",
    "dbfs",
    "lakefs",
    "oci",
    "ocilake",
    "tos",
    "root",
)
"""Schemes that are read through fsspec, because we have no stores for them.

Aliases of our schemes, and schemes that wrap other schemes, are left out.
"""


READ_ONLY: Final = ("http", "https", *(scheme for scheme in FSSPEC if scheme != "hf"))
"""Schemes that can only be sources."""


_OTHER_NAMES: Final[Mapping[str, str]] = {
    "s3a": "s3", "s3n": "s3", "gcs": "gs", "az": "abfs", "adl": "abfss", "wasb": "abfs", "wasbs": "abfss", "nfs": "a mounted path, not nfs",
}  # fmt: skip
"""Maps schemes that other programs use for the same stores to our schemes."""


def store_class(scheme: str) -> type[Store]:
    """Returns the store class for a scheme.

    Raises BadSpec for an unknown scheme; the message lists the known schemes. Also raises BadSpec if the scheme's client is not installed;
    the message names the extra to install.
    """
    if scheme == "hf":
        from dataprep_converter.stores.hub import HubStore

        return HubStore
    if scheme in FSSPEC:
        # Not imported at the top, because fsspec is slow to import and most commands don't need it.
        from dataprep_converter.stores.fsspec_store import FsspecStore

        return FsspecStore
    if scheme not in STORES:
        schemes = ", ".join(f"{name}://" for name in STORES if name)
        hint = f"; write {_OTHER_NAMES[scheme]}:// instead" if scheme in _OTHER_NAMES else nearest(scheme, STORES)
        raise BadSpec(f"No store for {scheme}://{hint} (known: {schemes}, or a path)")
    try:
        store: type[Store] = resolve_name(STORES[scheme])
    except ModuleNotFoundError as exc:
        raise BadSpec(f"{scheme}:// needs the client {exc.name}: pip install 'dataprep-operator[{EXTRAS.get(scheme, scheme)}]'.") from exc
    return store
