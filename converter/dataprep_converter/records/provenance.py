"""Names of the columns of `output.provenance`."""

from typing import Final

UID: Final = "_uid"


SOURCE: Final = "_source"
