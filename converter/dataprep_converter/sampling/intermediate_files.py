"""Files that a reader makes during planning and that every worker needs, such as the rows of a join.

The files are written to a local temporary folder, and moved below `_dataprep/<run id>` once the run has claimed its output folder. Until
the files are moved, units refer to them by their local paths.
"""

import atexit
import shutil
import tempfile
from functools import partial
from pathlib import Path
from typing import Any, Final

import pyarrow as pa

from dataprep_api import names
from dataprep_converter.core.tensors import pc
from dataprep_converter.inputs.access import Access
from dataprep_converter.sampling.units import UnitTable
from dataprep_converter.stores.publish import write_file

_PIECE: Final = 8 << 20
_arrow: Any = pa  # the stubs lack some functions


class IntermediateFiles:
    """A folder in $TMPDIR. The folder is removed when it is no longer needed, at the latest when this process ends."""

    def __init__(self) -> None:
        self.folder = Path(tempfile.mkdtemp(prefix="dataprep-made-"))
        atexit.register(self.remove)

    def remove(self) -> None:
        """Removes the folder. This method can be called more than once."""
        shutil.rmtree(self.folder, ignore_errors=True)
        atexit.unregister(self.remove)

    def with_stored_uris(self, units: UnitTable, folder_uri: str) -> UnitTable:
        """Returns the units with the URIs that the files will have in the folder `folder_uri`."""
        uris = units.table["uri"].combine_chunks()
        local_prefix = f"{self.folder}/"
        moved = pc.binary_join_element_wise(folder_uri, pc.utf8_slice_codeunits(uris, len(local_prefix), None), "/")
        column = pc.if_else(pc.starts_with(uris, local_prefix), moved, uris)
        return UnitTable(units.table.set_column(units.table.schema.get_field_index("uri"), units.table.schema.field("uri"), column))

    def put(self, folder_uri: str, access: Access) -> None:
        """Writes the missing files, and removes the local folder."""
        store = access.store(folder_uri)
        for file in sorted(self.folder.iterdir()):
            uri = names.join(folder_uri, file.name)
            existing = store.stat(uri)
            if existing is not None and existing.size == file.stat().st_size:
                continue
            with file.open("rb") as source:
                write_file(store, uri, iter(partial(source.read, _PIECE), b""))
        self.remove()
