"""The stores that the tests write to, each running in its own processes.

`hdfs` is a real NameNode with real DataNodes, `s3` is a real S3 server (versitygw), `oss` is a fake that speaks
OSS's protocol, because no OSS server can be had; `azure` is Azure's own emulator, `gcs` a fake as `oss`. `python -m storeservers` starts the first three for work by hand.
"""

from storeservers.azure import AzureServer
from storeservers.gcs import FakeGcs
from storeservers.hdfs import HdfsCluster
from storeservers.oss import FakeOss
from storeservers.processes import Lifetime, ServerFailed
from storeservers.s3 import S3Server

__all__ = ["AzureServer", "FakeGcs", "FakeOss", "HdfsCluster", "Lifetime", "S3Server", "ServerFailed"]
