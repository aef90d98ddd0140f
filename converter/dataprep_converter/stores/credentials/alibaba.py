"""Alibaba Cloud credentials for OSS and MaxCompute: a service account's role (RRSA), a node's RAM role, and profiles.

This module calls the providers of Alibaba Cloud's library one by one instead of using the library's chain. If a provider fails, the chain
tries the next provider. So if a service account's role were misconfigured, the job would get the node's permissions, or an error from
another provider. Moreover, the library reads the chain's environment variables as soon as it is imported.
"""

import logging
import os
import threading
import time
from collections.abc import Mapping
from typing import Any, Final

from dataprep_converter.core.errors import BadCredentials, Unreachable

logger = logging.getLogger(__name__)

_NEARLY_SECONDS: Final = 60
_KEY: Final = "ALIBABA_CLOUD_ACCESS_KEY_ID"
_SECRET: Final = "ALIBABA_CLOUD_ACCESS_KEY_SECRET"  # noqa: S105 - names of variables
_TOKEN: Final = "ALIBABA_CLOUD_SECURITY_TOKEN"  # noqa: S105 - see above
_ROLE: Final = "ALIBABA_CLOUD_ROLE_ARN"
_PROVIDER: Final = "ALIBABA_CLOUD_OIDC_PROVIDER_ARN"
_TOKEN_FILE: Final = "ALIBABA_CLOUD_OIDC_TOKEN_FILE"  # noqa: S105 - see above
_SESSION: Final = "ALIBABA_CLOUD_ROLE_SESSION_NAME"


class AlibabaCredentials:
    """The current credentials of this process, refreshed a quarter of an hour before they expire. Safe to use from several threads."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        # Any, because the library has no types.
        self._providers: list[tuple[str, Any]] | None = None
        self._credentials: Any = None

    def get_credential(self) -> Any:
        """Returns an object with `get_access_key_id()`, `get_access_key_secret()` and `get_security_token()`, as pyodps requires.

        Raises BadCredentials, which names the role or the places searched. Raises Unreachable if the role's service didn't respond.
        """
        from Tea.exceptions import RetryError  # type: ignore[import-untyped] # ships no types; not at the top (see `_providers`)

        with self._lock:
            if self._providers is None:
                self._providers = _providers(os.environ)
            failures = []
            for source, provider in self._providers:
                try:
                    self._credentials = provider.get_credentials()
                except Exception as exc:  # errors from the provider and from requests, and any error from a malformed file
                    if self._credentials is not None and (self._credentials.get_expiration() or 0) > time.time() + _NEARLY_SECONDS:
                        logger.warning("could not refresh the credentials of %s yet: %s", source, _line(exc))
                        return self._credentials
                    if isinstance(exc, RetryError) and len(self._providers) == 1:
                        raise Unreachable(f"cannot connect to get the credentials of {source}: {_line(exc)}.") from exc
                    failures.append(f"{source}: {_line(exc)}")
                else:
                    # Keep using the first provider that succeeds, even if that provider fails later.
                    self._providers = [(source, provider)]
                    return self._credentials
        raise BadCredentials(
            f"No credentials for Alibaba Cloud: {'; '.join(failures)}. Give the store a Secret (accessKeyId, accessKeySecret), or the pods "
            "(workers.serviceAccountName) a service account with a RAM role (RRSA), or the nodes a RAM role."
        )


def _providers(environment: Mapping[str, str]) -> list[tuple[str, Any]]:
    """Returns the providers in the order in which to try them. Each provider comes with a name, which is used in messages.

    If the environment contains a key or a service account's role, no other provider is returned.
    """
    # Not imported at the top, because a job with a key doesn't need this library.
    from alibabacloud_credentials import provider as library  # type: ignore[import-untyped] # ships no types

    # Silence the library's own log handlers. They log each error with a traceback and, with DEBUG=sdk, every header, including tokens.
    for name in ("credentials", "alibabacloud-tea"):
        logging.getLogger(name).setLevel(logging.CRITICAL)
    if environment.get(_KEY) and environment.get(_SECRET):
        keys = {"access_key_id": environment[_KEY], "access_key_secret": environment[_SECRET]}
        if environment.get(_TOKEN):
            return [("the environment", library.StaticSTSCredentialsProvider(**keys, security_token=environment[_TOKEN]))]
        return [("the environment", library.StaticAKCredentialsProvider(**keys))]
    if environment.get(_ROLE) and environment.get(_TOKEN_FILE) and environment.get(_PROVIDER):
        role = library.OIDCRoleArnCredentialsProvider(
            role_arn=environment[_ROLE],
            oidc_provider_arn=environment[_PROVIDER],
            oidc_token_file_path=environment[_TOKEN_FILE],
            role_session_name=environment.get(_SESSION) or "dataprep",
            sts_region_id=environment.get("ALIBABA_CLOUD_STS_REGION"),
            enable_vpc=environment.get("ALIBABA_CLOUD_VPC_ENDPOINT_ENABLED", "").lower() == "true",
        )
        return [(f"the role {environment[_ROLE]} of the service account (AssumeRoleWithOIDC)", role)]
    providers: list[tuple[str, Any]] = [
        ("a profile of aliyun's command line", library.CLIProfileCredentialsProvider()),
        ("a credentials file", library.ProfileCredentialsProvider()),
    ]
    if environment.get("ALIBABA_CLOUD_CREDENTIALS_URI"):
        providers.append(
            ("ALIBABA_CLOUD_CREDENTIALS_URI", library.URLCredentialsProvider(uri=environment["ALIBABA_CLOUD_CREDENTIALS_URI"]))
        )
    if environment.get("ALIBABA_CLOUD_ECS_METADATA_DISABLED", "").lower() != "true":
        role_name = environment.get("ALIBABA_CLOUD_ECS_METADATA")
        # Don't update in the background: this would need a scheduler thread for each store.
        of_node = library.EcsRamRoleCredentialsProvider(role_name=role_name, async_update_enabled=False)
        providers.append((f"the RAM role {role_name} of the node" if role_name else "the RAM role of the node", of_node))
    return providers


def _line(error: Exception) -> str:
    return " ".join(str(error).split())[:300].rstrip(".")
