"""The token of whoever has logged in by `az login`, from azure-identity."""

import logging
from datetime import UTC, datetime

from dataprep_converter.core.errors import BadCredentials


def token(scope: str) -> tuple[str, datetime]:
    """Returns a token and when it expires.

    Raises BadCredentials if azure-identity isn't installed, or with the message of `az`.
    """
    try:
        from azure.core.exceptions import ClientAuthenticationError
        from azure.identity import AzureCliCredential
    except ImportError as exc:
        raise BadCredentials("For the login of `az`: pip install 'dataprep-operator[azure-login]'.") from exc
    # Its warnings repeat the error.
    logging.getLogger("azure.identity").setLevel(logging.ERROR)
    try:
        access = AzureCliCredential().get_token(scope)
    except ClientAuthenticationError as exc:
        raise BadCredentials(f"{' '.join(str(exc).split()).rstrip('.')}.") from exc
    return access.token, datetime.fromtimestamp(access.expires_on, UTC)
