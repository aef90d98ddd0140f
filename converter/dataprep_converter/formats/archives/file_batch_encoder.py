"""Encoder for `fileBatch`: DL4J's FileBatch, a zip archive of the raw files, in record order, and a list of their URIs.

    # file_<n>.<the URI's extension, or bin>, n from 0, for each record;    originalUris.txt: the URIs, separated by \\n

DL4J writes the URI list first, but can read it at any position. This encoder writes the list last, so that files can be written before all
URIs are known. The job counts labels, but the format doesn't store them: DL4J derives labels from the URIs.
"""

import re
from collections.abc import Sequence
from typing import Any, Final
from urllib.parse import quote

import pyarrow as pa

from dataprep_api.redaction import unsigned
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
"""The characters that `java.net.URI` doesn't escape in a path."""


class FileBatchEncoder(SingleFile):
    """Encodes one archive (see the module's docstring), and holds its URIs until the end."""

    def __init__(self, output: Output, features: Sequence[FeatureSpec]) -> None:
        options = output.file_batch
        self._content, self._uri = content_and_uri(options, features)
        others = [feature.name for feature in features if feature.name not in (self._content, self._uri) and not feature.label]
        if others:
            raise BadSpec(
                f"fileBatch holds only files and their URIs, so it can't store {', '.join(others)}:"
                " remove all other features from the spec."
            )
        self._base = _base(options.base)
        self._archive = Zip(deflated=options.compression == "Deflate")
        self._uris: list[str] = []

    @staticmethod
    def extension(_output: Output) -> str:
        """Return `zip`."""
        return "zip"

    def encode(self, batch: pa.RecordBatch) -> bytes:
        """Return the archive members of the batch's files. Raises BadData for a record without content or URI."""
        pieces: list[Bytes] = []
        contents: Any = batch.column(self._content)
        for content, uri_or_path in zip(contents, batch.column(self._uri).to_pylist(), strict=True):
            if not content.is_valid or not uri_or_path:
                raise BadData(f"fileBatch: a record has no {self._uri if content.is_valid else self._content}.")
            uri = uri_of(uri_or_path if isinstance(uri_or_path, str) else uri_or_path.decode(), self._base)
            pieces += self._archive.add(f"file_{len(self._uris)}.{_extension(uri)}", [memoryview(content.as_buffer())])
            self._uris.append(uri)
        return b"".join(pieces)

    def close(self) -> bytes:
        """Return the list of URIs and the end of the archive."""
        return b"".join([*self._archive.add(URIS, ["\n".join(self._uris).encode()]), self._archive.end()])


def content_and_uri(options: FileBatchOptions, features: Sequence[FeatureSpec]) -> tuple[str, str]:
    """Return the name of the feature with the files' bytes, and the name of the feature with the files' URIs.

    Raises BadSpec if either feature is missing.
    """
    return (
        _choose_feature(features, options.content, _CONTENTS, option="content"),
        _choose_feature(features, options.uri, _PATHS, option="uri"),
    )


def uri_of(uri_or_path: str, base: str) -> str:
    """Return a URI unchanged. For a path, return the path with the prefix `base`. Characters that a URI can't contain are escaped."""
    return quote(uri_or_path, safe=f"{_PATH_SIGNS}%?#[]") if _SCHEME.match(uri_or_path) else base + quote(uri_or_path, safe=_PATH_SIGNS)


def _base(base: str | None) -> str:
    """Return the prefix for relative paths. If `base` is an absolute path, the prefix is the URI that Java's `File.toURI` returns."""
    if base is None:
        return ""
    base = unsigned(base)
    folder = f"{base.rstrip('/')}/"
    return folder if _SCHEME.match(base) else f"{'file:' if base.startswith('/') else ''}{quote(folder, safe=_PATH_SIGNS)}"


def _extension(uri: str) -> str:
    """Return the part after the last dot of the file's name, or `bin` if there is none, as DL4J does."""
    stem, dot, extension = uri.rpartition("/")[2].rpartition(".")
    del stem
    return extension if dot and extension else "bin"


def _choose_feature(features: Sequence[FeatureSpec], requested_name: str | None, usual: Sequence[str], *, option: str) -> str:
    """Return the name that the option gives or, without the option, the first of the usual names. Only features of the right type count."""
    candidates = [requested_name] if requested_name is not None else usual
    fitting = {f.name for f in features if f.dtype == "bytes" and not f.shape and not f.sequence and (f.text or option == "content")}
    for name in candidates:
        if name in fitting:
            return name
    feature_names = ", ".join(feature.name for feature in features)
    raise BadSpec(
        f"output.fileBatch.{option}: there is no feature named {' or '.join(candidates)} that holds {_OF[option]}; the features are {feature_names}."
    )


_OF: Final = {"content": "bytes", "uri": "text"}
