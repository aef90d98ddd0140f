"""The source `wholeFile` makes one record from each file, whatever its type, and leaves the bytes unchanged. The module `files_ahead.py`
reads ahead."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from dataprep_api.spec.sources.whole_file import WholeFileSource
from dataprep_converter.core.tensors import Array, binary, to_arrow
from dataprep_converter.inputs.access import Access
from dataprep_converter.readers import Discovery, Listing
from dataprep_converter.readers.base.files_ahead import FilesReader, Room, Row, binaries
from dataprep_converter.readers.base.listing import input_folders
from dataprep_converter.records.columns import NOT_BY_DEFAULT
from dataprep_converter.sampling.units import Files


@dataclass(frozen=True, slots=True)
class WholeFile:
    """The path and content of a file."""

    path: str
    content: bytes


class WholeFileReader(FilesReader[WholeFile]):
    """See the module. The columns are `content` and, on request, `path` and `size`."""

    default_label: ClassVar[str] = "label"

    @staticmethod
    def discover(source: WholeFileSource, access: Access) -> Discovery:
        """Lists the files. Raises NotFound for a URI without files."""
        return Discovery(_units(source, access))

    def __init__(self, source: WholeFileSource, state: Mapping[str, Any], access: Access) -> None:  # noqa: ARG002 - workers need no settings
        super().__init__(access)

    def schema(self) -> pa.Schema:
        """The columns. `path` is relative to the folder. `path` and `size` are written only if a feature names them."""
        fields: list[pa.Field[Any]] = [
            pa.field("content", pa.large_binary()),
            pa.field("path", pa.string(), metadata=NOT_BY_DEFAULT),
            pa.field("size", pa.int64(), metadata=NOT_BY_DEFAULT),
        ]
        return pa.schema(fields)

    def classes(self) -> dict[str, list[str]]:
        """An empty dict, because files have no labels."""
        return {}

    def examine(self, row: Row, contents: Sequence[bytes]) -> WholeFile:
        """Accepts any contents."""
        (content,) = contents
        return WholeFile(row["path"], content)

    uses_room: ClassVar[bool] = True

    def columns_of_room(self, rows: Sequence[Row], room: Room, offsets: npt.NDArray[np.int64]) -> dict[str, Array]:
        """The columns of the schema."""
        return {
            "content": binary(room, offsets),
            "path": pa.array([row["path"] for row in rows], pa.string()),
            "size": to_arrow(np.diff(offsets)),
        }

    def columns(self, samples: Sequence[WholeFile]) -> dict[str, Array]:
        """The columns of the schema."""
        return {
            "content": binaries([file.content for file in samples]),
            "path": pa.array([file.path for file in samples], pa.string()),
            "size": pa.array([len(file.content) for file in samples], pa.int64()),
        }


def _units(source: WholeFileSource, access: Access) -> Listing[Files]:
    ignored = 0
    for folder_files in input_folders(access, source.uris):
        files = (
            folder_files.only([_is_wanted(name, source.extensions) for name in folder_files.names])
            if source.extensions is not None
            else folder_files
        )
        count = len(files.names)
        ignored += len(folder_files.names) - count
        yield Files(files.root, files.paths, files.uris, list(files.sizes), list(files.pins), [""] * count, [""] * count)
    return {"ignored": ignored}


def _is_wanted(name: str, extensions: Sequence[str]) -> bool:
    stem, _, extension = name.rpartition(".")
    return bool(stem) and extension.lower() in extensions
