"""A fake of MaxCompute, named as one: it speaks the protocol of tables and of the tunnel, with signatures and rights, on a thread of the test.

It answers what pyodps asks for when it reads and writes tables, and has never been compared with the real service.

signatures   who signed a request
wire         rows as the tunnel sends them: Arrow messages with checksums
warehouse    tables, partitions and sessions
server       the HTTP around all that
fake         the tests' end: starts the server, makes tables, ends sessions
"""

from storeservers.odps.fake import FakeMaxCompute
from storeservers.odps.signatures import AccessKey
from storeservers.odps.warehouse import Rows, rows_of

__all__ = ["AccessKey", "FakeMaxCompute", "Rows", "rows_of"]
