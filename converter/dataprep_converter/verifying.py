"""Verifying: everything of a finished data set read again and held against its manifest.

A TFRecord file cut between two records reads without an error; so counts, sizes and digests are checked beside the CRCs.
"""

import hashlib
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from threading import Event

from dataprep_api.report import Manifest, ManifestFile
from dataprep_converter import committing
from dataprep_converter.access import Access
from dataprep_converter.decoders import BrokenRecord, decoder
from dataprep_converter.errors import NotFound, NotWhole
from dataprep_converter.output_folder import OutputFolder

_FILES_AT_ONCE = 4


def verify(uri: str, access: Access, *, expect: str | None = None) -> Manifest:
    """The manifest of the data set, when every byte agrees with it.

    Raises NotWhole naming file and offset of the first fault, and NotFound when there is no finished data set.
    `expect` is the manifest's SHA-256 or its digest over the files.
    """
    folder = OutputFolder(uri, access, run_id="")
    success = folder.success()
    if success is None:
        raise NotFound(f"{uri} has no _SUCCESS: there is no finished data set.", uri=uri)
    manifest = folder.manifest(success)
    if expect is not None and expect.lower() not in (success.sha256, manifest.digest):
        raise NotWhole(f"{uri} is not the expected data set: manifest {success.sha256}, digest {manifest.digest}, expected {expect}.")
    fault = committing.listing_fault(manifest, folder)
    if fault is not None:
        raise NotWhole(f"{uri}: {_with_offset(fault, manifest, folder, access)}.")
    stop = Event()
    with ThreadPoolExecutor(_FILES_AT_ONCE, thread_name_prefix="verify") as threads:
        try:
            for found in threads.map(lambda file: _fault(file, manifest, folder, access, stop), manifest.files):
                if found is not None:
                    raise NotWhole(f"{uri}: {found}.")
        finally:
            # The first fault, and Ctrl-C, don't wait for the files behind it.
            stop.set()
            threads.shutdown(cancel_futures=True)
    return manifest


class _StoppedError(Exception):
    """Nobody waits for this file any more."""


def _fault(file: ManifestFile, manifest: Manifest, folder: OutputFolder, access: Access, stop: Event) -> str | None:
    """The first fault of one file: a broken record with its offset, else a wrong count or digest. None when it is whole."""
    uri = folder.at(file.file)
    digest = hashlib.sha256()
    count = 0
    try:
        with access.store(uri).open(uri) as source:
            for _ in decoder(manifest).read(_hashed(source.stream(), digest, stop)):
                count += 1
    except BrokenRecord as exc:
        return f"{file.file}: {exc}"
    if count != file.records:
        return f"{file.file} has {count} records instead of {file.records}"
    if digest.hexdigest() != file.sha256:
        return f"{file.file} has SHA-256 {digest.hexdigest()} instead of {file.sha256}"
    for companion in file.companions:
        found = hashlib.sha256(access.store(uri).get(folder.at(companion.file))).hexdigest()
        if found != companion.sha256:
            return f"{companion.file} has SHA-256 {found} instead of {companion.sha256}"
    return None


def _hashed(pieces: Iterator[bytes], digest: "hashlib._Hash", stop: Event) -> Iterator[bytes]:
    for piece in pieces:
        if stop.is_set():
            raise _StoppedError
        digest.update(piece)
        yield piece


def _with_offset(fault: str, manifest: Manifest, folder: OutputFolder, access: Access) -> str:
    """A file of the wrong size is read as far as it goes, so that the message says where it breaks."""
    for file in manifest.files:
        if fault.startswith(f"{file.file} has "):
            inside = _fault(file, manifest, folder, access, Event())
            return f"{fault}; {inside}" if inside else fault
    return fault
