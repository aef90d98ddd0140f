"""Buckets, objects and uploads on disk. Each object consists of a file with its content and a small JSON document that names the file.

An object is replaced by renaming its document. So even after a kill, every object is complete: either the old object or the new one.

    <root>/<bucket>/bucket.json
    <root>/<bucket>/objects/<sha-256 of the key>.json          the object
    <root>/<bucket>/uploads/<upload id>/upload.json, <n>.json  the upload, its parts
    <root>/<bucket>/content/<unique>                           the content of objects and parts
"""

from __future__ import annotations

import hashlib
import itertools
import json
import shutil
import threading
import time
import uuid
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, BinaryIO

from storeservers.oss.crc64 import crc64
from storeservers.oss.errors import OssError, file_already_exists, no_such_bucket, no_such_key, no_such_upload

_PIECE_BYTES = 1 << 20
_SMALLEST_PART_BYTES = 100 * 1024


@dataclass(frozen=True)
class Content:
    """Bytes that have been received completely."""

    name: str
    """The name of the file in the bucket's content folder."""
    size: int
    md5: str
    crc64: int


@dataclass(frozen=True)
class StoredObject:
    """An object that is visible to clients."""

    key: str
    content: Content
    etag: str
    kind: str
    last_modified: float
    headers: Mapping[str, str]
    """Headers that are returned with the object: its type and the user's metadata."""


@dataclass(frozen=True)
class Part:
    """A part of an upload. A part that is sent again replaces the earlier one."""

    number: int
    content: Content
    last_modified: float


@dataclass
class Upload:
    """An unfinished multipart upload."""

    upload_id: str
    key: str
    initiated: float
    headers: Mapping[str, str]
    parts: dict[int, Part] = field(default_factory=dict)


@dataclass
class Bucket:
    """A bucket and its contents."""

    name: str
    created: float
    versioning: str | None
    objects: dict[str, StoredObject] = field(default_factory=dict)
    uploads: dict[str, Upload] = field(default_factory=dict)


class Shelf:
    """All buckets of the server. Thread-safe."""

    def __init__(self, root: Path) -> None:
        self._root = root
        self._lock = threading.RLock()
        self._buckets: dict[str, Bucket] = {}
        self._sorted_keys: dict[str, list[str]] = {}
        root.mkdir(parents=True, exist_ok=True)
        for document in root.glob("*/bucket.json"):
            bucket = self._loaded(document.parent)
            self._buckets[bucket.name] = bucket

    # -- buckets ------------------------------------------------------------------------------------------------

    def make_bucket(self, name: str, *, versioning: str | None) -> None:
        """Create a bucket, or change the versioning of an existing one."""
        with self._lock:
            bucket = self._buckets.setdefault(name, Bucket(name, created=time.time(), versioning=versioning))
            bucket.versioning = versioning
            for folder in ("objects", "uploads", "content"):
                (self._root / name / folder).mkdir(parents=True, exist_ok=True)
            _write(
                self._root / name / "bucket.json",
                {"name": name, "created": bucket.created, "versioning": bucket.versioning},
            )

    def bucket(self, name: str) -> Bucket:
        """Return an existing bucket."""
        with self._lock:
            if name not in self._buckets:
                raise no_such_bucket(name)
            return self._buckets[name]

    # -- objects ------------------------------------------------------------------------------------------------

    def keys(self, bucket: str) -> Sequence[str]:
        """Return all keys of a bucket, sorted."""
        with self._lock:
            found = self.bucket(bucket)
            if bucket not in self._sorted_keys:
                # OSS sorts keys by their UTF-8 bytes. Python sorts strings by code point, which gives the same order.
                self._sorted_keys[bucket] = sorted(found.objects)
            return self._sorted_keys[bucket]

    def stat(self, bucket: str, key: str) -> StoredObject:
        """Return an object."""
        with self._lock:
            found = self.bucket(bucket).objects.get(key)
        if found is None:
            raise no_such_key(key)
        return found

    def stats(self, bucket: str, keys: Iterable[str]) -> list[StoredObject]:
        """Return the objects with these keys, except those that don't exist."""
        with self._lock:
            objects = self.bucket(bucket).objects
            return [objects[key] for key in keys if key in objects]

    def open(self, bucket: str, key: str) -> tuple[StoredObject, BinaryIO]:
        """Return an object and its content, which stays readable if the object is replaced or deleted later."""
        with self._lock:
            stored = self.stat(bucket, key)
            return stored, (self._root / bucket / "content" / stored.content.name).open("rb")

    def check_may_put(self, bucket: str, key: str, *, overwrite: bool) -> None:
        """Fail if the object exists and must not be replaced."""
        with self._lock:
            found = self.bucket(bucket)
            # According to OSS's documentation, the header that forbids overwriting has no effect with versioning enabled or suspended.
            if not overwrite and key in found.objects and found.versioning is None:
                raise file_already_exists()

    def put(
        self,
        bucket: str,
        key: str,
        content: Content,
        *,
        headers: Mapping[str, str],
        overwrite: bool,
    ) -> StoredObject:
        """Make received content visible under a key."""
        stored = StoredObject(
            key=key,
            content=content,
            etag=content.md5,
            kind="Normal",
            last_modified=time.time(),
            headers=headers,
        )
        with self._lock:
            self._put(bucket, stored, overwrite=overwrite)
        return stored

    def delete(self, bucket: str, key: str) -> None:
        """Delete an object, if it exists."""
        with self._lock:
            replaced = self.bucket(bucket).objects.pop(key, None)
            if replaced is not None:
                self._sorted_keys.pop(bucket, None)
                self._document_of(bucket, key).unlink()
                self.discard(bucket, replaced.content)

    # -- contents -----------------------------------------------------------------------------------------------

    @contextmanager
    def received(self, bucket: str, pieces: Iterator[bytes]) -> Iterator[Content]:
        """Store a stream and yield it; discard it if the block fails."""
        name = uuid.uuid4().hex
        path = self._root / self.bucket(bucket).name / "content" / name
        try:
            yield _receive(path, pieces)
        except BaseException:
            path.unlink(missing_ok=True)
            raise

    def discard(self, bucket: str, content: Content) -> None:
        """Delete content that is no longer referenced."""
        (self._root / bucket / "content" / content.name).unlink(missing_ok=True)

    # -- uploads ------------------------------------------------------------------------------------------------

    def begin_upload(self, bucket: str, key: str, *, headers: Mapping[str, str]) -> Upload:
        """Begin a multipart upload."""
        upload = Upload(upload_id=uuid.uuid4().hex.upper(), key=key, initiated=time.time(), headers=headers)
        with self._lock:
            self.bucket(bucket).uploads[upload.upload_id] = upload
            folder = self._root / bucket / "uploads" / upload.upload_id
            folder.mkdir()
            _write(folder / "upload.json", {"key": key, "initiated": upload.initiated, "headers": dict(headers)})
        return upload

    def upload(self, bucket: str, key: str, upload_id: str) -> Upload:
        """Return an unfinished upload."""
        with self._lock:
            found = self.bucket(bucket).uploads.get(upload_id)
        if found is None or found.key != key:
            raise no_such_upload(upload_id)
        return found

    def put_part(self, bucket: str, key: str, upload_id: str, *, number: int, content: Content) -> Part:
        """Add a received part to an upload."""
        part = Part(number=number, content=content, last_modified=time.time())
        with self._lock:
            # The upload might have been aborted while the part was being received.
            upload = self.upload(bucket, key, upload_id)
            _write(self._root / bucket / "uploads" / upload_id / f"{number}.json", asdict(part))
            replaced = upload.parts.get(number)
            upload.parts[number] = part
        if replaced is not None:
            self.discard(bucket, replaced.content)
        return part

    def complete_upload(
        self,
        bucket: str,
        key: str,
        upload_id: str,
        *,
        asked: Sequence[tuple[int, str]] | None,
        overwrite: bool,
    ) -> StoredObject:
        """Create an object from the `asked` parts, given by number and ETag. None stands for all existing parts."""
        with self._lock:
            upload = self.upload(bucket, key, upload_id)
            parts = [upload.parts[number] for number in sorted(upload.parts)] if asked is None else _asked(upload, asked)
            self.check_may_put(bucket, key, overwrite=overwrite)
        _check_sizes(parts)
        digests = b"".join(bytes.fromhex(part.content.md5) for part in parts)
        with self.received(bucket, self._pieces_of(bucket, parts)) as content, self._lock:
            self.upload(bucket, key, upload_id)
            stored = StoredObject(
                key=key,
                content=content,
                etag=f"{_md5(digests)}-{len(parts)}",
                kind="Multipart",
                last_modified=time.time(),
                headers=upload.headers,
            )
            self._put(bucket, stored, overwrite=overwrite)
            self._end_upload(bucket, upload_id)
        return stored

    def abort_upload(self, bucket: str, key: str, upload_id: str) -> None:
        """End an upload and discard its parts."""
        with self._lock:
            self.upload(bucket, key, upload_id)
            self._end_upload(bucket, upload_id)

    # -- inside -------------------------------------------------------------------------------------------------

    def _put(self, bucket: str, stored: StoredObject, *, overwrite: bool) -> None:
        self.check_may_put(bucket, stored.key, overwrite=overwrite)
        _write(self._document_of(bucket, stored.key), asdict(stored))
        objects = self.bucket(bucket).objects
        replaced = objects.get(stored.key)
        objects[stored.key] = stored
        if replaced is None:
            self._sorted_keys.pop(bucket, None)
        else:
            self.discard(bucket, replaced.content)

    def _end_upload(self, bucket: str, upload_id: str) -> None:
        upload = self.bucket(bucket).uploads.pop(upload_id)
        shutil.rmtree(self._root / bucket / "uploads" / upload_id)
        for part in upload.parts.values():
            self.discard(bucket, part.content)

    def _pieces_of(self, bucket: str, parts: Iterable[Part]) -> Iterator[bytes]:
        for part in parts:
            with (self._root / bucket / "content" / part.content.name).open("rb") as file:
                while piece := file.read(_PIECE_BYTES):
                    yield piece

    def _document_of(self, bucket: str, key: str) -> Path:
        return self._root / bucket / "objects" / f"{hashlib.sha256(key.encode()).hexdigest()}.json"

    def _loaded(self, folder: Path) -> Bucket:
        bucket = Bucket(**json.loads((folder / "bucket.json").read_text()))
        for document in folder.glob("objects/*.json"):
            stored = _object(json.loads(document.read_text()))
            bucket.objects[stored.key] = stored
        for document in folder.glob("uploads/*/upload.json"):
            upload = Upload(upload_id=document.parent.name, **json.loads(document.read_text()))
            for each in document.parent.glob("[0-9]*.json"):
                part = _part(json.loads(each.read_text()))
                upload.parts[part.number] = part
            bucket.uploads[upload.upload_id] = upload
        return bucket


def _receive(path: Path, pieces: Iterator[bytes]) -> Content:
    md5 = hashlib.md5(usedforsecurity=False)
    checksum = size = 0
    with path.open("wb") as file:
        for piece in pieces:
            file.write(piece)
            md5.update(piece)
            checksum = crc64(piece, checksum)
            size += len(piece)
    return Content(name=path.name, size=size, md5=md5.hexdigest().upper(), crc64=checksum)


def _asked(upload: Upload, asked: Sequence[tuple[int, str]]) -> list[Part]:
    numbers = [number for number, _ in asked]
    if not numbers:
        raise OssError(400, "MalformedXML", "The XML you provided names no part.")
    if any(number >= following for number, following in itertools.pairwise(numbers)):
        raise OssError(400, "InvalidPartOrder", "The list of parts was not in ascending order.")
    for number, etag in asked:
        if number not in upload.parts or upload.parts[number].content.md5 != etag.strip('"').upper():
            raise OssError(
                400,
                "InvalidPart",
                "One or more of the specified parts could not be found or the specified entity tag might not have "
                "matched the part's entity tag.",
                details={"PartNumber": str(number), "ETag": etag, "UploadId": upload.upload_id},
            )
    return [upload.parts[number] for number in numbers]


def _check_sizes(parts: Sequence[Part]) -> None:
    if not parts:
        raise OssError(400, "InvalidPart", "The upload has no parts.")
    for part in parts[:-1]:
        if part.content.size < _SMALLEST_PART_BYTES:
            raise OssError(
                400,
                "EntityTooSmall",
                "Your proposed upload smaller than the minimum allowed size.",
                details={
                    "ProposedSize": str(part.content.size),
                    "MinSizeAllowed": str(_SMALLEST_PART_BYTES),
                    "PartNumber": str(part.number),
                },
            )


def _md5(content: bytes) -> str:
    return hashlib.md5(content, usedforsecurity=False).hexdigest().upper()


def _write(path: Path, value: Mapping[str, Any]) -> None:
    unfinished = path.with_name(f".{path.name}-{uuid.uuid4().hex}")
    unfinished.write_text(json.dumps(value))
    unfinished.replace(path)


# Any, because the values are JSON documents, written by this module.
def _object(value: dict[str, Any]) -> StoredObject:
    return StoredObject(**{**value, "content": Content(**value["content"])})


def _part(value: dict[str, Any]) -> Part:
    return Part(**{**value, "content": Content(**value["content"])})
