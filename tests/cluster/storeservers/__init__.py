"""The stores that the tests write to, each in its own processes.

`hdfs` is a real NameNode with real DataNodes, `s3` is a real S3 server (versitygw), and `azure` is Azure's own emulator. `oss` and `gcs`
are fakes that implement the services' protocols, because there is no real server that could run here. For manual work, `python -m
storeservers` starts `hdfs`, `s3` and `oss`.
"""

from storeservers.azure import AzureServer
from storeservers.gcs import FakeGcs
from storeservers.hdfs import HdfsCluster
from storeservers.oss import FakeOss
from storeservers.processes import Lifetime, ServerFailed
from storeservers.s3 import S3Server

__all__ = ["AzureServer", "FakeGcs", "FakeOss", "HdfsCluster", "Lifetime", "S3Server", "ServerFailed"]
