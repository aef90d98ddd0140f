"""A fake of OSS, named as one: it speaks the protocol, with signatures, rights and faults, from a process of its own.

operations   which operation a request is, and the right that it needs
signatures   who signed it
service      what it answers
shelf        what is kept on disk
listing      one page of a listing
documents    the XML around all that
server       the HTTP around all that
controls     what tests turn on the running fake
fake         the tests' end: starts the process, turns the controls
"""

from storeservers.oss.controls import Fault, LoggedRequest
from storeservers.oss.fake import FakeOss, OssEntry, OssUpload
from storeservers.oss.signatures import AccessKey

__all__ = ["AccessKey", "FakeOss", "Fault", "LoggedRequest", "OssEntry", "OssUpload"]
