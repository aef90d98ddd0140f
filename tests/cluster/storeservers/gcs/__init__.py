"""A fake of Google Cloud Storage, named as one: the part of its XML API that stores ask for, with tokens and rights.

service   what it answers, in a process of its own
fake      the tests' end: starts the process, makes buckets and tokens, looks at what was written

Written from the documentation and never compared with the real service. As there, a multipart upload takes no condition.
"""

from storeservers.gcs.fake import FakeGcs

__all__ = ["FakeGcs"]
