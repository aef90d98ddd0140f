"""Google Cloud Storage, `gs://bucket/path`, through its XML API.

The API differs from S3's protocol in three ways: requests contain tokens, conditions use other headers, and uploads are completed
differently.

In this API, the request that completes a multipart upload can't be conditional. So the upload's parts become a hidden object in the
target's folder. The store then copies the hidden object to the target's name, on the condition that no object has this name, and deletes
the hidden object.
"""

# The public methods are documented on the classes `Bucket` and `Transfer`, in `objects.py`.
# ruff: noqa: D102

import base64
import contextlib
import hashlib
import os
import re
import urllib.parse
from collections.abc import Mapping
from typing import Final

from obstore.store import GCSStore as Client

from dataprep_converter.core.errors import AlreadyExists, BadCredentials, ConvertError, NotPermitted, StoreError, Unreachable
from dataprep_converter.stores import Entry, StoreSettings
from dataprep_converter.stores.credentials.gcs import CredentialChain
from dataprep_converter.stores.files import swept, temporary_name
from dataprep_converter.stores.objects.objects import ObjectStore, client_options, retry_config, unquoted
from dataprep_converter.stores.objects.s3 import Multipart, XmlBucket, bucket_and_key, with_scheme
from dataprep_converter.stores.store_requests import Address, Requests

_ENDPOINT: Final = "https://storage.googleapis.com"
_RIGHT = re.compile(r"does not have (storage\.\w+\.\w+) access")
_CHECKSUM = re.compile(r"crc32c=([\w+/=]+)")


class GcsStore(ObjectStore):
    """Buckets of Cloud Storage."""

    def __init__(self, settings: StoreSettings) -> None:
        super().__init__(settings)
        self._endpoint = with_scheme(settings.endpoint or os.environ.get("STORAGE_EMULATOR_HOST") or _ENDPOINT)
        self._credentials = None if settings.anonymous else CredentialChain(settings.credentials)
        self._buckets: dict[str, GcsBucket] = {}

    def place(self, uri: str) -> "tuple[GcsBucket, str]":
        name, key = bucket_and_key(uri)
        if name not in self._buckets:
            self._buckets[name] = GcsBucket.at(self._endpoint, name, credentials=self._credentials)
            self._buckets[name].requests.budget = self.budget
        return self._buckets[name], key


class GcsBucket(XmlBucket):
    """A bucket of Cloud Storage."""

    exclusively: dict[str, str] = {"x-goog-if-generation-match": "0"}
    rights: Mapping[str, str] = {
        "write": "storage.objects.create",
        "read": "storage.objects.get",
        "list": "storage.objects.list",
        "delete": "storage.objects.delete",
        "sweep": "storage.multipartUploads.list",
    }

    @classmethod
    def at(cls, endpoint: str, name: str, *, credentials: CredentialChain | None) -> "GcsBucket":
        """Returns an object for requests to one bucket at an endpoint. Without credentials, the requests are anonymous."""
        parts = urllib.parse.urlsplit(endpoint)
        path = parts.path.rstrip("/")
        address = Address(scheme=parts.scheme, host=parts.hostname or "", port=parts.port, path=f"{path}/{name}")
        client = Client(
            name,
            config={"base_url": f"{parts.scheme}://{address.netloc}{path}", "skip_signature": credentials is None},
            client_options=client_options(parts.scheme),
            retry_config=retry_config(),
            credential_provider=credentials and credentials.for_obstore,  # type: ignore[arg-type] # its TypedDict is known to type checkers only
        )
        return cls(f"gs://{name}/", name, requests=GcsRequests(address, credentials=credentials), client=client)

    def sweep(self, uri: str, prefix: str) -> int:
        removed = super().sweep(uri, prefix)
        hidden = self.list_objects(uri.rstrip("/"), prefix, recursive=True)
        return removed + swept(hidden, lambda leftover: self.delete(leftover.removeprefix(self.root)))

    def transfer(self, uri: str, key: str) -> "HiddenMultipart":
        return HiddenMultipart(self, uri, key)

    def error(self, status: int, code: str, message: str, key: str, *, doing: str) -> ConvertError:
        if status == 401:
            reason = " ".join(filter(None, (str(status), code, message))).rstrip(".")
            return BadCredentials(f"Cloud Storage at {self.peer} refused the credentials: {reason}.", uri=f"{self.root}{key}")
        if status == 403 and (right := _RIGHT.search(message)) is not None:
            return NotPermitted(f"missing {right[1]} on {self.root}{key}: 403 {code} {message.rstrip('.')}.", uri=f"{self.root}{key}")
        return super().error(status, code, message, key, doing=doing)

    def checksum(self, key: str) -> str | None:
        """Returns the CRC-32C that the store keeps for an object, or None if the store doesn't return it or has no such object."""
        match = _CHECKSUM.search(self.requests.send("HEAD", key).headers.get("x-goog-hash", ""))
        return None if match is None else match[1]


class HiddenMultipart(Multipart):
    """A multipart upload to a hidden object, which is then copied to the target."""

    def __init__(self, bucket: GcsBucket, uri: str, key: str) -> None:
        folder, slash, name = key.rpartition("/")
        super().__init__(bucket, uri, f"{folder}{slash}{temporary_name(name)}")
        self._gcs = bucket
        self._target = key
        self._is_complete = False

    def complete(self, tags: list[str], *, size: int, replace: bool) -> Entry:
        if not self._is_complete:
            self._complete_hidden(tags, size=size)
        source = urllib.parse.quote(f"/{self._gcs.name}/{self._key}", safe="/-_.~")
        headers = {"x-goog-copy-source": source} | ({} if replace else self._gcs.exclusively)
        answer = self._gcs.send_conditional("PUT", self._target, headers=headers)
        if answer.ok:
            tag = answer.xml().findtext("{*}ETag")
        elif answer.status == 412:
            # One of our own earlier attempts may have succeeded although we got no response.
            existing = self._gcs.look(self._uri, self._target) if answer.in_doubt else None
            if existing is None or existing[0].size != size or not self._is_same():
                raise AlreadyExists(f"{self._uri} exists already.", uri=self._uri)
            tag = existing[0].pin
        elif answer.code == "NoSuchKey":
            raise self._gone()
        else:
            raise self._gcs.refusal(answer, self._target, doing="write")
        self._delete()
        return Entry(uri=self._uri, size=size, pin=unquoted(tag))

    def _is_same(self) -> bool:
        """Returns whether the target object has the same bytes as our hidden object, according to the store's checksums."""
        checksum = self._gcs.checksum(self._key)
        return checksum is not None and checksum == self._gcs.checksum(self._target)

    def drop(self) -> None:
        if self._is_complete:
            self._delete()
        else:
            super().drop()

    def _complete_hidden(self, tags: list[str], *, size: int) -> None:
        answer = self.asked_to_complete(tags, headers={})
        if not answer.ok and answer.code not in ("NoSuchUpload", "InvalidPart"):
            raise self._gcs.refusal(answer, self._key, doing="write")
        if not answer.ok:
            # An earlier attempt may have completed the upload although we got no response. No other upload uses this object's name.
            existing = self._gcs.look(self._uri, self._key)
            if existing is None or existing[0].size != size:
                raise self._gone()
        self._is_complete = True

    def _delete(self) -> None:
        # If the deletion fails, a sweep removes the object.
        with contextlib.suppress(StoreError):
            self._gcs.delete(self._key)

    def _gone(self) -> Unreachable:
        # The data set's commit sweeps away the leftovers of failed attempts, including this upload. A new attempt uploads again.
        return Unreachable(f"The upload of {self._uri} is gone: something else has removed it.", uri=self._uri)


class GcsRequests(Requests):
    """Requests to one bucket, with a token, or anonymous if there are no credentials."""

    def __init__(self, address: Address, *, credentials: CredentialChain | None) -> None:
        super().__init__(address, service="Cloud Storage")
        self._credentials = credentials

    def signed(
        self,
        method: str,
        path: str,  # noqa: ARG002 - with a token, requests aren't signed
        query: Mapping[str, str],  # noqa: ARG002 - as above
        headers: Mapping[str, str],
        body: bytes | memoryview,
    ) -> dict[str, str]:
        all_headers = dict(headers)
        if self._credentials is not None:
            all_headers["authorization"] = f"Bearer {self._credentials.current().token}"
        if body:
            all_headers["content-md5"] = base64.b64encode(hashlib.md5(body, usedforsecurity=False).digest()).decode()
        elif method in ("PUT", "POST"):
            all_headers["content-length"] = "0"
        return all_headers
