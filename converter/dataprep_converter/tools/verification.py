"""Verifies a finished data set: reads all of it and compares it with its manifest.

Every byte of each shard is read once. While reading, `verify` checks the format's framing and CRCs, the number of records, the size and the
SHA-256. A matching digest proves that the encoder wrote exactly these bytes. So by default, only a few evenly spaced records of each file
are parsed and compared with the features.

Checking only the framing isn't enough: a TFRecord file that was cut between two records can be read without an error, and a flipped bit in
a RecordIO file may leave the frames intact.
"""

import hashlib
from bisect import bisect_left
from collections.abc import Collection, Generator, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import closing
from dataclasses import dataclass
from threading import Event
from typing import Any, Final

import numpy as np

from dataprep_api.dataset.report import Manifest, ManifestFile
from dataprep_converter.core.errors import BrokenRecord, NotFound, NotWhole
from dataprep_converter.dataset import crosscheck
from dataprep_converter.dataset.crosscheck import Fault
from dataprep_converter.dataset.expected_files import Differences, ExpectedFiles
from dataprep_converter.dataset.listing import missing_data_set
from dataprep_converter.dataset.output_folder import OutputFolder
from dataprep_converter.dataset.script_files import is_read
from dataprep_converter.formats import values
from dataprep_converter.formats.decoder import Decoder, ReadsBlocks
from dataprep_converter.formats.registry import by_feature, decoder
from dataprep_converter.inputs.access import Access
from dataprep_converter.runtime.ahead import mapped_ahead

PARSED_RECORDS: Final = 64
"""Number of records parsed per file, including the first and the last record."""

_FILES_AT_ONCE = 4


def verify(uri: str, access: Access, *, expect: str | None = None, every_record: bool = False) -> Manifest:
    """Returns the manifest of the data set if every byte matches it.

    Raises NotWhole with the file and offset of the first fault, and NotFound if there is no finished data set. `expect` is either the
    manifest's SHA-256, or the files' digest that is stored in the manifest. If `every_record` is set, all records are parsed.
    """
    verification = Verification(uri, access, expect=expect)
    with closing(verification.faults(every_record=every_record)) as faults:
        first = next(faults, None)
    if first is not None:
        raise NotWhole(f"{uri}: {first.text}.")
    return verification.manifest


class Verification:
    """Verifies a finished data set. The constructor raises the same errors as `verify` if there is no manifest to compare with."""

    def __init__(self, uri: str, access: Access, *, expect: str | None = None) -> None:
        folder = OutputFolder(uri, access)
        self._access = access
        success = folder.success()
        if success is None:
            raise missing_data_set(uri, access)
        self._success = success
        self.manifest = folder.manifest(success)
        self.folder = folder.of_run(self.manifest.run_id)
        if expect is not None and expect.lower() not in (success.sha256, self.manifest.digest):
            raise NotWhole(
                f"{uri} is not the expected data set: manifest {success.sha256}, digest {self.manifest.digest}, expected {expect}."
            )

    def faults(self, *, every_record: bool = False) -> Generator[Fault]:
        """Yields the faults of the files, at most one fault per file. The shards are in the order of the manifest."""
        expected = ExpectedFiles.of_manifest(self.manifest)
        differences = expected.compared(self.folder.visible())
        yield from _listing_faults(expected, differences)
        yield from _shard_faults(self.manifest, self.folder, self._access, expected, differences, every_record=every_record)
        yield from metadata_faults(self.manifest, self.folder)
        yield from crosscheck.faults(self.manifest, self._success, self.folder, self._access)


def _shard_faults(
    manifest: Manifest, folder: OutputFolder, access: Access, expected: ExpectedFiles, found: Differences, *, every_record: bool
) -> Iterator[Fault]:
    """Yields the faults of the listed shards and their companions."""
    stop = Event()
    missing = {expected.path(number) for number in found.missing}
    sizes = {expected.path(number): size for number, size in found.sizes.items()}
    check = _ShardCheck(manifest, folder, access, every_record, stop, missing, sizes)
    with closing(mapped_ahead(check.fault, manifest.files, most=_FILES_AT_ONCE)) as faults:
        try:
            yield from (fault for fault in faults if fault is not None)
        finally:
            # Don't wait for the remaining files after the first fault or Ctrl-C.
            stop.set()


def metadata_faults(manifest: Manifest, folder: OutputFolder) -> Iterator[Fault]:
    """Yields the faults of the metadata files."""
    for file in manifest.metadata:
        content = folder.read(file.file)
        if content is None:
            yield Fault(file.file, f"{file.file} is missing")
        elif (sha256 := hashlib.sha256(content).hexdigest()) != file.sha256:
            yield Fault(file.file, f"{file.file} has SHA-256 {sha256} instead of {file.sha256}")


def _listing_faults(expected: ExpectedFiles, found: Differences) -> Iterator[Fault]:
    """Yields the shards and companions that are missing, and the files that don't belong to the data set."""
    for number in found.missing:
        if expected.shard(number) >= 0:  # metadata files are read later
            yield Fault(expected.path(number), f"{expected.path(number)} is missing")
    for path in found.foreign:
        yield Fault(path, f"{path} does not belong to this data set")


class _CancelledError(Exception):
    """Stops the check of a file if its result is no longer needed."""


@dataclass(frozen=True)
class _ShardCheck:
    """Checks individual shards."""

    manifest: Manifest
    folder: OutputFolder
    access: Access
    every_record: bool
    stop: Event
    missing: Collection[str]
    """The files that the store doesn't list."""
    sizes: Mapping[str, int]
    """The files whose size in the store's listing differs from the size in the manifest, mapped to their size in the listing."""

    def fault(self, file: ManifestFile) -> Fault | None:
        """Returns the first fault of a listed file, or None if it has no fault or isn't listed.

        A fault is one of these: a broken record (with its offset), a wrong size, count, schema or digest, or a companion file with wrong
        content.
        """
        if file.file in self.missing:
            return None
        fault = self._read(file)
        if file.file in self.sizes:
            size = f"{file.file} has {self.sizes[file.file]} bytes instead of {file.size}"
            return Fault(file.file, f"{size}; {fault}" if fault else size)
        if fault is not None:
            return Fault(file.file, fault)
        for companion in file.companions:
            content = self.folder.read(companion.file) or b""
            sha256 = hashlib.sha256(content).hexdigest()
            if sha256 != companion.sha256:
                return Fault(companion.file, f"{companion.file} has SHA-256 {sha256} instead of {companion.sha256}")
        return None

    def _read(self, file: ManifestFile) -> str | None:
        uri = self.folder.at(file.file)
        digest = hashlib.sha256()
        format_ = decoder(self.manifest)
        numbers: Sequence[int] = range(file.records) if self.every_record else _evenly_spaced(file.records)
        count = 0
        schema: str | None = None
        try:
            with self.access.store(uri).open(uri) as source, ThreadPoolExecutor(1, thread_name_prefix="digest") as hasher:
                pieces = _digest_pieces(source.stream(), digest, hasher, self.stop)
                for offset, record in _records(format_, pieces, numbers) if is_read(file.file, self.manifest) else ():
                    # A script's records can have any content, because a script declares no features.
                    if record is not None and schema is None and self.manifest.features:
                        schema = _schema_fault(format_, self.manifest, offset, record)
                    count += 1 if record is not None else offset
                for _ in pieces:
                    pass  # read to the end, because the digest also covers bytes that the decoder leaves unread
        except BrokenRecord as exc:
            return f"{file.file}: {exc}"
        except NotFound:
            return f"{file.file} is missing"
        if count != file.records:
            return f"{file.file} has {count} records instead of {file.records}"
        if digest.hexdigest() != file.sha256:
            return f"{file.file} has SHA-256 {digest.hexdigest()} instead of {file.sha256}"
        return f"{file.file}: {schema}" if schema else None


def _evenly_spaced(records: int) -> list[int]:
    """Returns evenly spaced record numbers, from the first to the last."""
    return [int(number) for number in np.linspace(0, records - 1, min(records, PARSED_RECORDS), dtype=np.int64)]


def _records(format_: Decoder, pieces: Iterable[bytes], numbers: Sequence[int]) -> Iterator[tuple[int, Any]]:
    """Yields (offset, record) for each record whose number is in `numbers`. The other records are only counted, in (count, None) pairs."""
    if not isinstance(format_, ReadsBlocks):
        among = numbers if isinstance(numbers, range) else set(numbers)
        for number, (offset, record) in enumerate(format_.read(pieces)):
            yield (offset, record) if number in among else (1, None)
        return
    first = 0
    for block in format_.blocks(pieces):
        in_block = numbers[bisect_left(numbers, first) : bisect_left(numbers, first + len(block))]
        for number in in_block:
            yield block.offset_of(number - first), block.record(number - first)
        yield len(block) - len(in_block), None
        first += len(block)


def _schema_fault(format_: Decoder, manifest: Manifest, offset: int, record: Any) -> str | None:
    try:
        fault = values.fault(manifest.features, by_feature(format_, record, manifest.features))
    except NotWhole as exc:
        fault = str(exc).rstrip(".")
    return f"in the record at offset {offset} {fault}" if fault else None


def _digest_pieces(pieces: Iterator[bytes], digest: "hashlib._Hash", hasher: ThreadPoolExecutor, stop: Event) -> Iterator[bytes]:
    """Yields the pieces, and digests each piece in another thread. The digest may be one piece behind the yielded pieces."""
    behind: Future[None] | None = None
    for piece in pieces:
        if stop.is_set():
            raise _CancelledError
        if behind is not None:
            behind.result()
        behind = hasher.submit(digest.update, piece)
        yield piece
    if behind is not None:
        behind.result()
