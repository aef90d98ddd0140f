"""A fake of MaxCompute, which runs on a thread of the test process. It implements the protocols of tables and of the tunnel, with
signatures and access rights.

It supports what pyodps needs to read and write tables, and has never been compared with the real service.

signatures   authenticates requests
wire         the tunnel's encoding of rows: Arrow messages with checksums
warehouse    tables, partitions and sessions
server       HTTP
fake         the tests' side: starts the server, makes tables, ends sessions
"""

from storeservers.odps.fake import FakeMaxCompute
from storeservers.odps.signatures import AccessKey
from storeservers.odps.warehouse import Rows, rows_of

__all__ = ["AccessKey", "FakeMaxCompute", "Rows", "rows_of"]
