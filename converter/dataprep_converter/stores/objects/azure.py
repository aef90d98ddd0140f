"""Azure Blob Storage and Data Lake Storage, `abfs://container@account.dfs.core.windows.net/path`, through the Blob service's REST API.

An upload sends blocks, and one conditional request with a block list turns them into the blob. Uncommitted blocks belong to the blob's
name, not to an upload. They are discarded by any commit under that name, or by the service after a week. So uploads can't be aborted, and a
sweep has nothing to remove.
"""

# The public methods are documented on the classes `Bucket` and `Transfer`, in `objects.py`.
# ruff: noqa: D102

import base64
import binascii
import hashlib
import hmac
import os
import urllib.parse
import uuid
from collections.abc import Iterator, Mapping
from email.utils import formatdate, parsedate_to_datetime
from typing import Final
from xml.etree import ElementTree as ET

from obstore.store import AzureStore as Client

from dataprep_converter.core.errors import (
    AlreadyExists,
    BadCredentials,
    BadSpec,
    ConvertError,
    InputChanged,
    NotFound,
    NotPermitted,
    StoreError,
    StoreFull,
    Unreachable,
)
from dataprep_converter.stores import Details, Entry, StoreSettings
from dataprep_converter.stores.credentials.azure import AzureCredentials, CredentialChain
from dataprep_converter.stores.folders_ahead import files_in_order
from dataprep_converter.stores.objects.objects import Bucket, ObjectStore, client_options, is_written, retry_config, unquoted
from dataprep_converter.stores.store_requests import Address, Answer, Requests, encoded

_VERSION: Final = "2023-11-03"
_EXISTS = ("BlobAlreadyExists", "ConditionNotMet")
_BAD_CREDENTIALS = {
    "AuthenticationFailed",
    "InvalidAuthenticationInfo",
    "NoAuthenticationInformation",
    "KeyBasedAuthenticationNotPermitted",
}
_UNAUTHENTICATED = "Server failed to authenticate the request"

RIGHT_OF: Final[Mapping[str, str]] = {
    "write": "blobs/write (SAS: c and w)",
    "read": "blobs/read (SAS: r)",
    "list": "blobs/read (SAS: l)",
    "delete": "blobs/delete (SAS: d)",
}


class AzureStore(ObjectStore):
    """A store of blobs, in the containers of one or more storage accounts."""

    def __init__(self, settings: StoreSettings) -> None:
        super().__init__(settings)
        environment = os.environ
        self._endpoint = settings.endpoint or environment.get("AZURE_STORAGE_ENDPOINT")
        self._account = environment.get("AZURE_STORAGE_ACCOUNT_NAME") or environment.get("AZURE_STORAGE_ACCOUNT")
        self._credentials = None if settings.anonymous else CredentialChain(settings.credentials)
        self._containers: dict[str, Container] = {}

    def place(self, uri: str) -> "tuple[Container, str]":
        authority, _, key = uri.partition("://")[2].partition("/")
        if authority not in self._containers:
            self._containers[authority] = self._container(uri, authority)
            self._containers[authority].requests.budget = self.budget
        return self._containers[authority], key

    def _container(self, uri: str, authority: str) -> "Container":
        name, _, host = authority.rpartition("@") if "@" in authority else (authority, "", "")
        account = host.partition(".")[0] or self._account
        if not name or not account:
            raise BadSpec(
                f"{uri} names no {'account' if name else 'container'}: write abfs://container@account.dfs.core.windows.net/path, or "
                "abfs://container/path with AZURE_STORAGE_ACCOUNT_NAME in the environment.",
                uri=uri,
            )
        # The Blob service of an account has a separate host name, even if the account is a data lake.
        endpoint = self._endpoint or f"https://{host.replace('.dfs.', '.blob.') if '.' in host else f'{account}.blob.core.windows.net'}"
        scheme = uri.partition("://")[0]
        return Container.at(f"{scheme}://{authority}/", name, account=account, endpoint=endpoint, credentials=self._credentials)


class Container(Bucket):
    """A container of one account."""

    requests: "AzureRequests"

    @classmethod
    def at(cls, root: str, name: str, *, account: str, endpoint: str, credentials: CredentialChain | None) -> "Container":
        """Returns an object for requests to one container at an endpoint. Without credentials, the requests are anonymous."""
        parts = urllib.parse.urlsplit(endpoint if "://" in endpoint else f"https://{endpoint}")
        path = parts.path.rstrip("/")
        address = Address(scheme=parts.scheme, host=parts.hostname or "", port=parts.port, path=f"{path}/{name}")
        client = Client(
            name,
            config={"account_name": account, "endpoint": f"{parts.scheme}://{address.netloc}{path}", "skip_signature": credentials is None},
            client_options=client_options(parts.scheme),
            retry_config=retry_config(),
            credential_provider=credentials and credentials.for_obstore,  # type: ignore[arg-type] # its TypedDicts are known to type checkers only
        )
        return cls(root, name, requests=AzureRequests(address, account=account, credentials=credentials), client=client)

    def list_objects(self, uri: str, prefix: str, *, recursive: bool) -> Iterator[Entry]:
        if recursive and not self._may_be_hierarchical():
            elements = self._pages(prefix, {})
            previous = ""
            for element in elements:
                name = _name(element)
                if name.encode() <= previous.encode():
                    raise StoreError(f"Azure at {self.peer} lists {uri} out of order: {name} after {previous}.", uri=uri)
                previous = name
                yield from _entries(uri, prefix, name, element)
            return
        yield from files_in_order(self._children, (uri, prefix), recursive=recursive)

    def _children(self, folder: tuple[str, str]) -> list[Entry | tuple[str, str]]:
        """Returns the blobs and subfolders of a folder in the order of complete paths. `folder` is the folder's URI and its prefix."""
        # A data lake lists one folder after another, so `a/b` comes before `a-1`. Therefore we list each folder separately, and sort by
        # complete paths.
        uri, prefix = folder
        inside = {_name(element): element for element in self._pages(prefix, {"delimiter": "/"})}
        children: list[Entry | tuple[str, str]] = []
        for name in sorted(inside, key=str.encode):
            if inside[name].tag == "BlobPrefix":
                children.append((f"{uri}/{name[len(prefix) : -1]}", name))
            else:
                children.extend(_entries(uri, prefix, name, inside[name]))
        return children

    def _pages(self, prefix: str, query: dict[str, str]) -> Iterator[ET.Element]:
        query = {"restype": "container", "comp": "list", "prefix": prefix, **query}
        while True:
            answer = self.requests.send("GET", "", query=query)
            if not answer.ok:
                raise self.refusal(answer, prefix, doing="list")
            page = answer.xml()
            yield from page.find("Blobs") or ()
            marker = page.findtext("NextMarker")
            if not marker:
                return
            query["marker"] = marker

    def _may_be_hierarchical(self) -> bool:
        """Returns whether the account is, or may be, a data lake with real folders."""
        if self.requests.hierarchical is None:
            answer = self.requests.send("GET", "", query={"restype": "account", "comp": "properties"})
            self.requests.hierarchical = answer.headers.get("x-ms-is-hns-enabled", "").lower() != "false"
        return self.requests.hierarchical

    def look(self, uri: str, key: str) -> tuple[Entry, str] | None:
        if not key or key.endswith("/"):
            return None
        answer = self.requests.send("HEAD", key)
        if answer.ok:
            if answer.headers.get("x-ms-meta-hdi_isfolder") == "true":
                return None
            tag = unquoted(answer.headers.get("etag"))
            return Entry(uri=uri, size=int(answer.headers.get("content-length", 0)), pin=tag), _digest(answer)
        if _is_absent(answer):
            return None
        # The response to HEAD has no body, so send a GET to learn the reason. The fault may be gone by the time the GET is sent.
        second_answer = self.requests.send("GET", key, headers={"range": "bytes=0-0"})
        if _is_absent(second_answer):
            return None
        raise self.refusal(answer if second_answer.ok else second_answer, key, doing="read")

    def get(self, key: str) -> tuple[bytes, str]:
        # Don't use obstore, because it doesn't return the MD5 that the service keeps. The caller repeats this request after a failure.
        answer = self.requests.send("GET", key, attempts=1)
        if not answer.ok:
            raise self.refusal(answer, key, doing="read")
        return answer.body, _digest(answer)

    def put(self, uri: str, key: str, data: bytes, *, replace: bool) -> Entry:
        headers = {"x-ms-blob-type": "BlockBlob", "content-type": "application/octet-stream", **_condition(replace=replace)}
        answer = self.requests.send("PUT", key, headers=headers, body=data)
        if answer.ok:
            return Entry(uri=uri, size=len(data), pin=unquoted(answer.headers.get("etag")))
        if answer.code in _EXISTS:
            # One of our own earlier attempts may have succeeded although we got no response.
            existing = self.look(uri, key) if answer.in_doubt else None
            if existing is not None and is_written(existing, data):
                return existing[0]
            raise AlreadyExists(f"{uri} exists already.", uri=uri)
        raise self.refusal(answer, key, doing="write")

    def delete(self, key: str) -> None:
        answer = self.requests.send("DELETE", key, headers={"x-ms-delete-snapshots": "include"})
        if not answer.ok and answer.code not in ("BlobNotFound", "PathNotFound"):
            raise self.refusal(answer, key, doing="delete")

    def sweep(self, uri: str, prefix: str) -> int:  # noqa: ARG002 - see the top of this file
        return 0

    def transfer(self, uri: str, key: str) -> "Blocks":
        return Blocks(self, uri, key)

    def error(self, status: int, code: str, message: str, key: str, *, doing: str) -> ConvertError:
        uri = f"{self.root}{key}"
        reason = " ".join(filter(None, (str(status), code, message))).rstrip(".")
        if code == "ContainerNotFound":
            return NotFound(f"The container {self.name} does not exist at {self.peer}.", uri=uri)
        if code in _BAD_CREDENTIALS or message.startswith(_UNAUTHENTICATED):
            return BadCredentials(f"Azure at {self.peer} refused the credentials: {reason}.", uri=uri)
        if code in ("InvalidResourceName", "OutOfRangeInput"):
            return BadSpec(f"{uri}: not a valid name for a container or a blob: {reason}.", uri=uri)
        if status == 507:
            return StoreFull(f"No space or quota left for {uri}: {reason}.", uri=uri)
        if status in (401, 403):
            return NotPermitted(f"missing {RIGHT_OF[doing]} on {uri}: {reason}.", uri=uri)
        if status == 404:
            return NotFound(f"{uri} does not exist.", uri=uri)
        if code == "ConditionNotMet":
            return InputChanged(f"{uri} has been replaced since it was listed.", uri=uri)
        if status // 100 == 5 or status in (408, 429):
            return Unreachable(f"Azure at {self.peer} failed at {uri}: {reason}.", uri=uri)
        return StoreError(f"Azure at {self.peer} refused {uri}: {reason}.", uri=uri)


class Blocks:
    """An upload of one blob in blocks."""

    def __init__(self, container: Container, uri: str, key: str) -> None:
        self._uri = uri
        self._container = container
        self._key = key
        # The identifiers of all blocks of a blob must have the same length.
        self._name = uuid.uuid4().hex
        self._held: dict[str, str] = {}

    def begin(self) -> None:
        """Blocks need no preparation."""

    def send(self, number: int, data: memoryview) -> str:
        block = base64.b64encode(f"{self._name}-{number:05d}".encode()).decode()
        answer = self._container.requests.send("PUT", self._key, query={"comp": "block", "blockid": block}, body=data)
        if not answer.ok:
            raise self._container.refusal(answer, self._key, doing="write")
        return block

    def hold(self) -> None:
        # A sweep can't discard blocks. So at least make sure that `complete` won't replace a blob that somebody writes after this call.
        existing = self._container.look(self._uri, self._key)
        self._held = _condition(replace=False) if existing is None else {"if-match": f'"{existing[0].pin}"'}

    def complete(self, tags: list[str], *, size: int, replace: bool) -> Entry:
        root = ET.Element("BlockList")
        for block in tags:
            ET.SubElement(root, "Latest").text = block
        headers = {
            "content-type": "application/xml",
            "x-ms-blob-content-type": "application/octet-stream",
            **(self._held or _condition(replace=replace)),
        }
        answer = self._container.requests.send(
            "PUT", self._key, query={"comp": "blocklist"}, headers=headers, body=ET.tostring(root, encoding="utf-8", xml_declaration=True)
        )
        if answer.ok:
            return Entry(uri=self._uri, size=size, pin=unquoted(answer.headers.get("etag")))
        if answer.code in _EXISTS or answer.code == "InvalidBlockList" or (self._held and answer.code == "BlobNotFound"):
            existing = self._container.look(self._uri, self._key)
            # One of our own earlier attempts may have succeeded although we got no response.
            if existing is not None and answer.in_doubt and self._committed_blocks() == tags:
                return existing[0]
            if existing is not None and not replace:
                raise AlreadyExists(f"{self._uri} exists already.", uri=self._uri)
            raise Unreachable(f"Blocks of {self._uri} are gone: something else was written under this name in the meantime.", uri=self._uri)
        raise self._container.refusal(answer, self._key, doing="write")

    def _committed_blocks(self) -> list[str]:
        """Returns the identifiers of the blocks that the blob consists of."""
        answer = self._container.requests.send("GET", self._key, query={"comp": "blocklist", "blocklisttype": "committed"})
        if not answer.ok:
            raise self._container.refusal(answer, self._key, doing="read")
        return [element.text or "" for element in answer.xml().iterfind("CommittedBlocks/Block/Name")]

    def drop(self) -> None:
        """Does nothing, because blocks can't be removed. See the top of this file."""


class AzureRequests(Requests):
    """Requests to one container: anonymous, or authorized by an account key, a signature in the query, or a token."""

    def __init__(self, address: Address, *, account: str, credentials: CredentialChain | None) -> None:
        super().__init__(address, service="Azure")
        self.hierarchical: bool | None = None
        """Whether the account has, or may have, real folders. None until the account has been queried."""
        self._account = account
        self._credentials = credentials

    def path(self, key: str) -> str:
        return f"{self.address.path}/{key}" if key else self.address.path

    def question(self, query: Mapping[str, str]) -> str:
        return "&".join(filter(None, (encoded(query), self._current().signature)))

    def signed(
        self, method: str, path: str, query: Mapping[str, str], headers: Mapping[str, str], body: bytes | memoryview
    ) -> dict[str, str]:
        credentials = self._current()
        all_headers = {
            **headers,
            "x-ms-version": _VERSION,
            "x-ms-date": formatdate(usegmt=True),
        }
        if method == "PUT":
            all_headers["content-length"] = str(len(body))
        if body:
            all_headers["content-md5"] = base64.b64encode(hashlib.md5(body, usedforsecurity=False).digest()).decode()
        if credentials.token is not None:
            all_headers["authorization"] = f"Bearer {credentials.token}"
        if credentials.key is not None:
            standard = ["content-encoding", "content-language", "content-length", "content-md5", "content-type", "date"]
            standard += ["if-modified-since", "if-match", "if-none-match", "if-unmodified-since", "range"]
            values = [all_headers.get(name, "") for name in standard]
            values[2] = "" if not body else values[2]
            own = [f"{name}:{all_headers[name]}" for name in sorted(all_headers) if name.startswith("x-ms-")]
            resource = f"/{self._account}{path}"
            parameters = [f"{name}:{query[name]}" for name in sorted(query)]
            text = "\n".join([method, *values, *own, resource, *parameters])
            signature = base64.b64encode(hmac.digest(credentials.key, text.encode(), "sha256")).decode()
            all_headers["authorization"] = f"SharedKey {self._account}:{signature}"
        return all_headers

    def _current(self) -> AzureCredentials:
        return AzureCredentials() if self._credentials is None else self._credentials.current()


def _condition(*, replace: bool) -> dict[str, str]:
    return {} if replace else {"if-none-match": "*"}


def _name(element: ET.Element) -> str:
    name = element.find("Name")
    if name is None:
        return ""
    text = name.text or ""
    # If a name contains characters that XML can't contain, Azure encodes the name.
    return urllib.parse.unquote(text) if name.get("Encoded") == "true" else text


def _entries(uri: str, prefix: str, name: str, blob: ET.Element) -> Iterator[Entry]:
    """Yields one entry, or none for a folder."""
    if name.endswith("/") or blob.findtext("Properties/ResourceType") == "directory":
        return
    modified = blob.findtext("Properties/Last-Modified")
    yield Entry(
        uri=f"{uri}/{name[len(prefix) :]}",
        size=int(blob.findtext("Properties/Content-Length") or 0),
        pin=unquoted(blob.findtext("Properties/Etag")),
        details=Details(modified=parsedate_to_datetime(modified).timestamp()) if modified else None,
    )


def _is_absent(answer: Answer) -> bool:
    """Returns whether the response says that the container exists but the blob doesn't."""
    return answer.code in ("BlobNotFound", "ResourceNotFound", "PathNotFound") or (answer.status == 404 and not answer.code)


def _digest(answer: Answer) -> str:
    """Returns the MD5 that the service keeps for a blob, in hexadecimal, or the empty string if it keeps none."""
    try:
        return base64.b64decode(answer.headers.get("content-md5", ""), validate=True).hex()
    except binascii.Error:
        return ""
