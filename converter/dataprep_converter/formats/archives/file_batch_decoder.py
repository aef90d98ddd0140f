"""Decoder for `fileBatch`: extracts the stored files and their URIs. The decoder holds the complete archive in memory."""

from collections.abc import Iterable, Iterator
from typing import Any

from dataprep_api.dataset.report import Manifest
from dataprep_api.spec.formats.file_batch import FileBatchOptions
from dataprep_converter.core.errors import BrokenRecord
from dataprep_converter.formats.archives.file_batch_encoder import URIS, content_and_uri
from dataprep_converter.formats.archives.zip_decoder import VerifiedMember, members
from dataprep_converter.records.feature import FeatureSpec


class FileBatchDecoder:
    """Decodes each record to a (URI, content) pair."""

    def __init__(self, manifest: Manifest) -> None:
        features = [FeatureSpec(**description | {"shape": tuple(description["shape"])}) for description in manifest.features]
        options = FileBatchOptions.model_validate(manifest.content["output"].get("fileBatch") or {})
        self._content, self._uri = content_and_uri(options, features)
        self._labels = [feature.name for feature in features if feature.label]

    def read(self, pieces: Iterable[bytes]) -> Iterator[tuple[int, tuple[bytes, bytes]]]:
        """Yield the stored files. A file whose URI can't be read gets an empty URI."""
        archive_members, fault = members(pieces)
        uris = _uris(archive_members)
        files = archive_members[:-1] if uris is not None else archive_members
        if uris is not None and len(uris) != len(files) and fault is None:
            fault = BrokenRecord(f"{URIS} has {len(uris)} lines for {len(files)} files", offset=archive_members[-1].offset)
        for number, file in enumerate(files):
            if not file.name.startswith(f"file_{number}."):
                raise BrokenRecord(f"expected file_{number}, got {file.name}", offset=file.offset)
            yield file.offset, (uris[number] if uris is not None and number < len(uris) else b"", file.content)
        if fault is None and uris is None:
            fault = BrokenRecord(f"the archive has no {URIS}", offset=archive_members[-1].offset if archive_members else 0)
        if fault is not None:
            raise fault

    def parse(self, record: tuple[bytes, bytes]) -> dict[str, Any]:
        """Return the values, keyed by feature. A label has no value, because labels aren't stored."""
        uri, content = record
        return {self._content: [content], self._uri: [uri], **{label: [] for label in self._labels}}


def _uris(archive_members: list[VerifiedMember]) -> list[bytes] | None:
    """Return the lines of the URI list, which is the archive's last member, or None if the list is missing."""
    if not archive_members or archive_members[-1].name != URIS:
        return None
    content = archive_members[-1].content
    return content.split(b"\n") if content else []
