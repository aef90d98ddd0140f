"""Credentials for Cloud Storage: google-auth gets tokens with the job's Secret, or with Application Default Credentials (ADC)."""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any, Final

import google.auth
import requests
from google.auth import exceptions
from google.auth.transport.requests import Request
from google.oauth2 import service_account

from dataprep_converter.core.errors import BadCredentials, Unreachable
from dataprep_converter.stores.credentials.token_services import EARLY, CachedCredentials

_SCOPES: Final = ("https://www.googleapis.com/auth/devstorage.read_write",)


@dataclass(frozen=True)
class GcsCredentials:
    """A bearer token."""

    token: str
    expires: datetime | None


class CredentialChain:
    """The current token of one store."""

    def __init__(self, secret: Mapping[str, str]) -> None:
        self._secret = secret
        self._cache = CachedCredentials(self._fetch, service="Cloud Storage")

    def current(self) -> GcsCredentials:
        """Returns the token. Raises BadCredentials or Unreachable, with Google's message."""
        return self._cache.current()

    def for_obstore(self) -> dict[str, Any]:
        """Returns the current token in the form of obstore's TypedDict."""
        credentials = self.current()
        return {"token": credentials.token, "expires_at": credentials.expires and credentials.expires - EARLY}

    def _fetch(self) -> GcsCredentials:
        with requests.Session() as session:
            request = Request(session)
            try:
                credentials = self._source(request)
                credentials.refresh(request)
            except exceptions.TransportError as exc:
                raise Unreachable(
                    f"Cloud Storage: no token for {self._account}, because the token service can't be reached: {exc}."
                ) from exc
            except (exceptions.GoogleAuthError, ValueError) as exc:
                if self._secret or not isinstance(exc, exceptions.DefaultCredentialsError):
                    raise BadCredentials(f"No token for {self._account}: {_line(exc)}.") from exc
                raise BadCredentials(
                    "No credentials for Cloud Storage: give the store a Secret (serviceAccountKey), set GOOGLE_APPLICATION_CREDENTIALS, "
                    f"or run with a workload identity or a service account of the node: {_line(exc)}."
                ) from exc
        expires = None if credentials.expiry is None else credentials.expiry.replace(tzinfo=UTC)
        return GcsCredentials(credentials.token, expires)

    @property
    def _account(self) -> str:
        return "the Secret's service account" if self._secret else "the environment's service account"

    # Any, because these functions of google-auth have no types.
    def _source(self, request: Request) -> Any:
        if not self._secret:
            return google.auth.default(scopes=_SCOPES, request=request)[0]
        try:
            key = json.loads(self._secret["serviceAccountKey"])
        except json.JSONDecodeError as exc:
            raise BadCredentials(f"The Secret's serviceAccountKey is not the JSON key that Google issues: {exc}.") from exc
        return service_account.Credentials.from_service_account_info(key, scopes=_SCOPES)  # type: ignore[no-untyped-call] # google-auth has no types here


def _line(error: Exception) -> str:
    return str(error).partition("\n")[0].rstrip(".")
