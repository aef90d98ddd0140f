"""Verifies the workers' projected service-account tokens with the API server's public keys.

The keys are fetched from `/openid/v1/jwks` over the operator's connection to the API server. A URL from a document is never used.
"""

import asyncio
import logging
import time
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from typing import Any, Final

import jwt

from dataprep_api.dataset.messages import TOKEN_AUDIENCE
from dataprep_operator.errors import ClusterError, ReportRefused

logger = logging.getLogger(__name__)

ALGORITHMS: Final = ("RS256", "ES256")
KEYS_PATH: Final = "/openid/v1/jwks"
DISCOVERY_PATH: Final = "/.well-known/openid-configuration"
# An unknown key id makes the verifier fetch the keys again. Because clients can invent key ids, there is a minimum time between two
# fetches.
LEAST_REFETCH_SECONDS: Final = 60.0
LEEWAY_SECONDS: Final = 5

Fetch = Callable[[str], Awaitable[dict[str, Any]]]  # Any, because the documents are JSON


@dataclass(frozen=True)
class Bearer:
    """The pod that a token is bound to."""

    namespace: str
    pod_name: str
    pod_uid: str


class Verifier:
    """Verifies tokens against cached keys."""

    def __init__(self, fetch: Fetch, *, issuer: str | None = None, clock: Callable[[], float] = time.monotonic) -> None:
        self._fetch = fetch
        self._issuer = issuer
        self._clock = clock
        self._keys: dict[str, jwt.PyJWK] = {}
        self._fetched_at: float | None = None
        self._fetching = asyncio.Lock()

    async def bearer(self, token: str) -> Bearer:
        """Return the pod that the token is bound to. Raises ReportRefused with 401, or with 503 when the keys can't be fetched."""
        try:
            header = jwt.get_unverified_header(token)
        except jwt.InvalidTokenError as exc:
            raise ReportRefused(401, "not a token") from exc
        if header.get("alg") not in ALGORITHMS:
            raise ReportRefused(401, f"the algorithm {header.get('alg')!r} is not allowed")
        key = await self._key(str(header.get("kid") or ""))
        try:
            claims = jwt.decode(
                token,
                key=key,
                algorithms=list(ALGORITHMS),
                audience=TOKEN_AUDIENCE,
                issuer=self._issuer,
                leeway=LEEWAY_SECONDS,
                options={"require": ["exp", "iss", "aud"]},
            )
        except jwt.InvalidTokenError as exc:
            raise ReportRefused(401, f"the token is not valid in this cluster: {exc}") from exc
        return _bearer(claims)

    async def _key(self, kid: str) -> jwt.PyJWK:
        if kid not in self._keys:
            # Concurrent callers wait for the same fetch.
            async with self._fetching:
                if kid not in self._keys and self._may_fetch():
                    await self._fetch_keys()
        if kid not in self._keys:
            raise ReportRefused(401, "the token is signed with an unknown key")
        return self._keys[kid]

    def _may_fetch(self) -> bool:
        return self._fetched_at is None or self._clock() - self._fetched_at >= LEAST_REFETCH_SECONDS

    async def _fetch_keys(self) -> None:
        self._fetched_at = self._clock()
        try:
            document = await self._fetch(KEYS_PATH)
            if self._issuer is None:
                self._issuer = str((await self._fetch(DISCOVERY_PATH))["issuer"])
        except (ClusterError, KeyError) as exc:
            logger.warning("the API server's signing keys can't be read (%s); jobs report progress by completed tasks only", exc)
            raise ReportRefused(503, "the API server's signing keys can't be read now") from exc
        self._keys = {key.key_id: key for key in _usable_keys(document) if key.key_id}


def _usable_keys(document: Mapping[str, Any]) -> list[jwt.PyJWK]:
    keys = []
    for key in document.get("keys") or []:
        try:
            keys.append(jwt.PyJWK(key))
        except (jwt.PyJWKError, jwt.InvalidKeyError):
            logger.warning("the API server has a signing key of an unknown type: %s", key.get("kty"))
    return keys


def _bearer(claims: Mapping[str, Any]) -> Bearer:
    binding = claims.get("kubernetes.io")
    binding = binding if isinstance(binding, dict) else {}
    pod = binding.get("pod")
    pod = pod if isinstance(pod, dict) else {}
    namespace, name, uid = binding.get("namespace"), pod.get("name"), pod.get("uid")
    if not (isinstance(namespace, str) and isinstance(name, str) and isinstance(uid, str)):
        raise ReportRefused(401, "the token is not bound to a pod")
    return Bearer(namespace=namespace, pod_name=name, pod_uid=uid)
