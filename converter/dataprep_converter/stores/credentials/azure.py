"""Credentials for Azure from the job's Secret, the environment or the node: account key, shared access signature, or Entra ID token."""

import base64
import binascii
import json
import os
import shutil
import urllib.parse
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any, Final

from dataprep_converter.core.errors import BadCredentials, Unreachable
from dataprep_converter.stores.credentials import azure_login
from dataprep_converter.stores.credentials.token_services import EARLY, CachedCredentials, ask

_SCOPE: Final = "https://storage.azure.com"
_AUTHORITY: Final = "https://login.microsoftonline.com"
_INSTANCE: Final = "http://169.254.169.254"


@dataclass(frozen=True)
class AzureCredentials:
    """At most one of `key`, `signature` and `token` is given. If none is given, requests are anonymous."""

    key: bytes | None = None
    signature: str | None = None
    """A shared access signature, in the form of a URL's query."""
    token: str | None = None
    expires: datetime | None = None


class CredentialChain:
    """The current credentials of one account."""

    def __init__(self, secret: Mapping[str, str]) -> None:
        self._secret = secret
        self._cache = CachedCredentials(self._fetch, service="Azure")

    def current(self) -> AzureCredentials:
        """Returns the credentials. Raises BadCredentials, which names the possible sources."""
        return self._cache.current()

    def for_obstore(self) -> dict[str, Any]:
        """Returns the current credentials in the form of one of obstore's TypedDicts."""
        credentials = self.current()
        expires = credentials.expires and credentials.expires - EARLY
        if credentials.key is not None:
            return {"access_key": base64.b64encode(credentials.key).decode(), "expires_at": expires}
        if credentials.signature is not None:
            return {"sas_token": credentials.signature, "expires_at": expires}
        return {"token": credentials.token, "expires_at": expires}

    def _fetch(self) -> AzureCredentials:
        if self._secret:
            return _from_secret(self._secret)
        environment = os.environ
        if key := environment.get("AZURE_STORAGE_ACCOUNT_KEY") or environment.get("AZURE_STORAGE_KEY"):
            return AzureCredentials(key=_decode_key(key))
        if signature := environment.get("AZURE_STORAGE_SAS_TOKEN"):
            return AzureCredentials(signature=signature.lstrip("?"))
        tenant, client = environment.get("AZURE_TENANT_ID"), environment.get("AZURE_CLIENT_ID")
        if tenant and client and (secret := environment.get("AZURE_CLIENT_SECRET")):
            return _from_application(tenant, client, {"client_secret": secret})
        if tenant and client and (file := environment.get("AZURE_FEDERATED_TOKEN_FILE")):
            kind = "urn:ietf:params:oauth:client-assertion-type:jwt-bearer"
            return _from_application(
                tenant, client, {"client_assertion_type": kind, "client_assertion": Path(file).read_text(encoding="ascii").strip()}
            )
        if credentials := _from_instance(client):
            return credentials
        hint = ""
        if shutil.which("az"):
            try:
                token, expires = azure_login.token(f"{_SCOPE}/.default")
                return AzureCredentials(token=token, expires=expires)
            except BadCredentials as exc:
                hint = f" {exc}"
        raise BadCredentials(
            "No credentials for Azure: give the store a Secret (accountKey, sasToken, or tenantId, clientId and clientSecret), set "
            "AZURE_STORAGE_ACCOUNT_KEY or AZURE_STORAGE_SAS_TOKEN, log in with `az login`, or run with a workload identity or a managed "
            f"identity. A public container needs anonymous: true in stores.{hint}"
        )


def _from_secret(secret: Mapping[str, str]) -> AzureCredentials:
    if "accountKey" in secret:
        return AzureCredentials(key=_decode_key(secret["accountKey"]))
    if "sasToken" in secret:
        return AzureCredentials(signature=secret["sasToken"].lstrip("?"))
    return _from_application(secret["tenantId"], secret["clientId"], {"client_secret": secret["clientSecret"]})


def _decode_key(text: str) -> bytes:
    try:
        return base64.b64decode(text, validate=True)
    except binascii.Error as exc:
        raise BadCredentials("The account key for Azure is not Base64.") from exc


def _from_application(tenant: str, client: str, proof: Mapping[str, str]) -> AzureCredentials:
    authority = os.environ.get("AZURE_AUTHORITY_HOST", _AUTHORITY).rstrip("/")
    form = {"grant_type": "client_credentials", "client_id": client, "scope": f"{_SCOPE}/.default", **proof}
    answer = ask(
        f"{authority}/{urllib.parse.quote(tenant)}/oauth2/v2.0/token",
        what=f"application {client} of tenant {tenant}",
        body=urllib.parse.urlencode(form).encode(),
    )
    return _from_json(answer)


def _from_instance(client: str | None) -> AzureCredentials | None:
    host = os.environ.get("AZURE_POD_IDENTITY_AUTHORITY_HOST", _INSTANCE).rstrip("/")
    query = {"api-version": "2018-02-01", "resource": f"{_SCOPE}/"} | ({"client_id": client} if client else {})
    try:
        answer = ask(
            f"{host}/metadata/identity/oauth2/token?{urllib.parse.urlencode(query)}",
            what="the managed identity",
            headers={"Metadata": "true"},
            timeout_seconds=1.0,
        )
    except (Unreachable, BadCredentials):
        return None  # not in Azure, or without an identity
    return _from_json(answer)


def _from_json(answer: bytes) -> AzureCredentials:
    fields = json.loads(answer)
    return AzureCredentials(token=fields["access_token"], expires=datetime.now(UTC) + timedelta(seconds=int(fields["expires_in"])))
