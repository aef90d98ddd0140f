"""Names of the columns that `output.provenance` adds."""

from typing import Final

UID: Final = "_uid"


SOURCE: Final = "_source"
