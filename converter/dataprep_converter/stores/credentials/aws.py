"""Credentials for S3: from the job's Secret, the environment, a profile, or a role.

AWS's own tools try these sources in the same order. The credentials have their own module, because two clients sign requests with them:
obstore, and our own client for multipart uploads.
"""

import json
import os
import urllib.parse
from collections.abc import Mapping
from datetime import datetime
from pathlib import Path
from typing import Any
from xml.etree import ElementTree as ET

from dataprep_converter.core.errors import BadCredentials, Unreachable
from dataprep_converter.stores.credentials.aws_keys import AwsCredentials
from dataprep_converter.stores.credentials.aws_profile import AwsProfile
from dataprep_converter.stores.credentials.token_services import EARLY, CachedCredentials, ask

_INSTANCE = "http://169.254.169.254"
_CONTAINER = "http://169.254.170.2"


class CredentialChain:
    """The current credentials of one store, refreshed before they expire. Safe to use from several threads."""

    def __init__(self, secret: Mapping[str, str], *, region: str) -> None:
        self._secret = secret
        self._region = region
        self._profile = AwsProfile()
        self._cache = CachedCredentials(self._fetch, service="S3")

    def current(self) -> AwsCredentials:
        """Returns the credentials. Raises BadCredentials, which names the possible sources."""
        return self._cache.current()

    def for_obstore(self) -> dict[str, Any]:
        """Returns the current credentials in the form of obstore's TypedDict."""
        credentials = self.current()
        return {
            "access_key_id": credentials.access_key,
            "secret_access_key": credentials.secret_key,
            "token": credentials.token,
            # Once the credentials have nearly expired, obstore calls this method before every request.
            "expires_at": credentials.expires and credentials.expires - EARLY,
        }

    def _fetch(self) -> AwsCredentials:
        if self._secret:
            return AwsCredentials(self._secret["accessKeyId"], self._secret["accessKeySecret"], self._secret.get("securityToken"))
        environment = os.environ
        if "AWS_ACCESS_KEY_ID" in environment and "AWS_SECRET_ACCESS_KEY" in environment:
            return AwsCredentials(
                environment["AWS_ACCESS_KEY_ID"], environment["AWS_SECRET_ACCESS_KEY"], environment.get("AWS_SESSION_TOKEN") or None
            )
        if "AWS_WEB_IDENTITY_TOKEN_FILE" in environment and "AWS_ROLE_ARN" in environment:
            return _from_web_identity(Path(environment["AWS_WEB_IDENTITY_TOKEN_FILE"]), environment["AWS_ROLE_ARN"], region=self._region)
        if credentials := self._profile.credentials(self._region):
            return credentials
        if "AWS_CONTAINER_CREDENTIALS_FULL_URI" in environment or "AWS_CONTAINER_CREDENTIALS_RELATIVE_URI" in environment:
            return _from_container()
        if environment.get("AWS_EC2_METADATA_DISABLED", "").lower() != "true" and (credentials := _from_instance()):
            return credentials
        raise BadCredentials(
            "No credentials for S3: give the store a Secret (accessKeyId, accessKeySecret), set AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY, "
            "name a profile in AWS_PROFILE, or run with a role (web identity, container or instance). A public bucket needs anonymous: true "
            "in stores."
        )


def domain_of(region: str) -> str:
    """Returns the domain of AWS's services in a region."""
    return "amazonaws.com.cn" if region.startswith("cn-") else "amazonaws.com"


def _from_web_identity(token_file: Path, role: str, *, region: str) -> AwsCredentials:
    endpoint = os.environ.get("AWS_ENDPOINT_URL_STS") or f"https://sts.{region}.{domain_of(region)}"
    query = urllib.parse.urlencode(
        {
            "Action": "AssumeRoleWithWebIdentity",
            "Version": "2011-06-15",
            "RoleArn": role,
            "RoleSessionName": os.environ.get("AWS_ROLE_SESSION_NAME", "dataprep"),
            "WebIdentityToken": token_file.read_text(),
        }
    )
    hint = "The role's trust policy must name the cluster's OIDC provider and the pods' service account (workers.serviceAccountName)."
    answer = ask(f"{endpoint}/", what=f"role {role} of the service account", hint=hint, body=query.encode())
    element = ET.fromstring(answer).find(".//{*}Credentials")  # noqa: S314 - AWS's own answer, over TLS
    if element is None:
        raise BadCredentials(f"STS returned no credentials for role {role}.")
    return AwsCredentials(
        element.findtext("{*}AccessKeyId") or "",
        element.findtext("{*}SecretAccessKey") or "",
        element.findtext("{*}SessionToken"),
        _time(element.findtext("{*}Expiration")),
    )


def _from_container() -> AwsCredentials:
    relative = os.environ.get("AWS_CONTAINER_CREDENTIALS_RELATIVE_URI")
    url = f"{_CONTAINER}{relative}" if relative else os.environ["AWS_CONTAINER_CREDENTIALS_FULL_URI"]
    token = os.environ.get("AWS_CONTAINER_AUTHORIZATION_TOKEN")
    if token_file := os.environ.get("AWS_CONTAINER_AUTHORIZATION_TOKEN_FILE"):
        token = Path(token_file).read_text()
    hint = "With EKS Pod Identity: the pods' service account (workers.serviceAccountName) needs an association with a role."
    return _from_json(ask(url, what="the container's role", hint=hint, headers={"Authorization": token} if token else {}))


def _from_instance() -> AwsCredentials | None:
    endpoint = os.environ.get("AWS_EC2_METADATA_SERVICE_ENDPOINT", _INSTANCE).rstrip("/")
    roles = f"{endpoint}/latest/meta-data/iam/security-credentials/"
    try:
        token = ask(
            f"{endpoint}/latest/api/token",
            what="the instance",
            headers={"X-aws-ec2-metadata-token-ttl-seconds": "21600"},
            method="PUT",
            timeout_seconds=1.0,
        )
        headers = {"X-aws-ec2-metadata-token": token.decode()}
        role = ask(roles, what="the instance's role", headers=headers).decode().split("\n")[0]
    except (Unreachable, BadCredentials):
        return None  # not on an instance, or on an instance without a role
    return _from_json(ask(f"{roles}{role}", what=f"role {role} of the instance", headers=headers))


def _from_json(answer: bytes) -> AwsCredentials:
    keys = json.loads(answer)
    return AwsCredentials(keys["AccessKeyId"], keys["SecretAccessKey"], keys.get("Token"), _time(keys.get("Expiration")))


def _time(text: str | None) -> datetime | None:
    return datetime.fromisoformat(text) if text else None
