"""`fileBatch`: DL4J's FileBatch, a zip of raw files and a list of their URIs, in the order of the records.

    # file_<n>.<extension of the URI, or bin>, n from 0, for each record;    originalUris.txt: the URIs with \\n between them

DL4J writes the list first and reads it wherever it is; here it is the last member, because no file has to wait for it. Labels have no place: DL4J
takes them from the URIs, so they are only counted.
"""

import re
from collections.abc import Sequence
from typing import Any, Final
from urllib.parse import quote

import pyarrow as pa

from dataprep_api.shown import unsigned
from dataprep_api.spec import Output
from dataprep_api.spec.formats.file_batch import FileBatchOptions
from dataprep_converter.core.errors import BadData, BadSpec
from dataprep_converter.formats.archives.zip_encoder import Bytes, Zip
from dataprep_converter.formats.encoder import SingleFile
from dataprep_converter.records.feature import FeatureSpec

URIS: Final = "originalUris.txt"
_CONTENTS: Final = ("image/encoded", "content")
_PATHS: Final = ("image/filename", "path")
_SCHEME: Final = re.compile(r"[A-Za-z][A-Za-z0-9+.-]*:")
_PATH_SIGNS: Final = "/-_.!~'()*,;:$&+=@"
"""What `java.net.URI` leaves as it is in a path."""


class FileBatchEncoder(SingleFile):
    """See the module. Holds the URIs of one file."""

    def __init__(self, output: Output, features: Sequence[FeatureSpec]) -> None:
        options = output.file_batch
        self._content, self._uri = content_and_uri(options, features)
        others = [feature.name for feature in features if feature.name not in (self._content, self._uri) and not feature.label]
        if others:
            raise BadSpec(
                f"fileBatch holds files and their URIs, and has no place for {', '.join(others)}: name only the two under features."
            )
        self._base = _base(options.base)
        self._archive = Zip(deflated=options.compression == "Deflate")
        self._uris: list[str] = []

    @staticmethod
    def extension(_output: Output) -> str:
        """`zip`."""
        return "zip"

    def encode(self, batch: pa.RecordBatch) -> bytes:
        """The files of the batch. Raises BadData for a record without content or URI."""
        pieces: list[Bytes] = []
        contents: Any = batch.column(self._content)
        for content, written in zip(contents, batch.column(self._uri).to_pylist(), strict=True):
            if not content.is_valid or not written:
                raise BadData(f"fileBatch: a record has no {self._uri if content.is_valid else self._content}.")
            uri = uri_of(written if isinstance(written, str) else written.decode(), self._base)
            pieces += self._archive.add(f"file_{len(self._uris)}.{_extension(uri)}", [memoryview(content.as_buffer())])
            self._uris.append(uri)
        return b"".join(pieces)

    def close(self) -> bytes:
        """The list of URIs, and the archive's end."""
        return b"".join([*self._archive.add(URIS, ["\n".join(self._uris).encode()]), self._archive.end()])


def content_and_uri(options: FileBatchOptions, features: Sequence[FeatureSpec]) -> tuple[str, str]:
    """Names of the features with the files' bytes and URIs. Raises BadSpec when there are none."""
    return (
        _found(features, options.content, _CONTENTS, option="content"),
        _found(features, options.uri, _PATHS, option="uri"),
    )


def uri_of(written: str, base: str) -> str:
    """A URI as it is; a path below `base`, with what a URI can't hold escaped."""
    return quote(written, safe=f"{_PATH_SIGNS}%?#[]") if _SCHEME.match(written) else base + quote(written, safe=_PATH_SIGNS)


def _base(base: str | None) -> str:
    """The prefix of paths. A path from the root becomes a URI as Java's `File.toURI` writes it."""
    if base is None:
        return ""
    base = unsigned(base)
    folder = f"{base.rstrip('/')}/"
    return folder if _SCHEME.match(base) else f"{'file:' if base.startswith('/') else ''}{quote(folder, safe=_PATH_SIGNS)}"


def _extension(uri: str) -> str:
    """As DL4J's: the part after the last dot of the file's name."""
    stem, dot, extension = uri.rpartition("/")[2].rpartition(".")
    del stem
    return extension if dot and extension else "bin"


def _found(features: Sequence[FeatureSpec], named: str | None, usual: Sequence[str], *, option: str) -> str:
    """The feature that the option names, or the usual one that there is."""
    wanted = [named] if named is not None else usual
    fitting = {f.name for f in features if f.dtype == "bytes" and not f.shape and not f.sequence and (f.text or option == "content")}
    for name in wanted:
        if name in fitting:
            return name
    known = ", ".join(feature.name for feature in features)
    raise BadSpec(f"output.fileBatch.{option}: there is no feature {' or '.join(wanted)} of {_OF[option]}; the features are {known}.")


_OF: Final = {"content": "bytes", "uri": "text"}
