"""A fake of OSS: the protocol with signatures, rights and faults, in its own process.

operations   maps requests to operations and the rights they need
signatures   authenticates requests
service      implements the operations
shelf        storage on disk
listing      pages of listings
documents    XML
server       HTTP
controls     lets tests control the running fake
fake         the tests' side: starts the process and uses the controls
"""

from storeservers.oss.controls import Fault, LoggedRequest
from storeservers.oss.fake import FakeOss, OssEntry, OssUpload
from storeservers.oss.signatures import AccessKey

__all__ = ["AccessKey", "FakeOss", "Fault", "LoggedRequest", "OssEntry", "OssUpload"]
