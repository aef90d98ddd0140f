"""A fake of Google Cloud Storage: the part of its XML API that the stores use, with tokens and access rights.

service   the server, in its own process
fake      the tests' side: starts the server, makes buckets and tokens, inspects what was written

Written from the documentation and never compared with the real service. As in the real service, multipart uploads can't have preconditions.
"""

from storeservers.gcs.fake import FakeGcs

__all__ = ["FakeGcs"]
