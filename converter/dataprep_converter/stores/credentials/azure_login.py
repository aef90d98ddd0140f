"""Uses azure-identity to get the token of the user who is logged in with `az login`."""

import logging
from datetime import UTC, datetime

from dataprep_converter.core.errors import BadCredentials


def token(scope: str) -> tuple[str, datetime]:
    """Returns a token and its expiry time.

    Raises BadCredentials if azure-identity isn't installed, or if `az` fails; in the latter case, the error contains `az`'s message.
    """
    try:
        from azure.core.exceptions import ClientAuthenticationError
        from azure.identity import AzureCliCredential
    except ImportError as exc:
        raise BadCredentials("To use the login of `az`, install azure-identity: pip install 'dataprep-operator[azure-login]'.") from exc
    # The library's warnings only repeat the error.
    logging.getLogger("azure.identity").setLevel(logging.ERROR)
    try:
        access = AzureCliCredential().get_token(scope)
    except ClientAuthenticationError as exc:
        raise BadCredentials(f"{' '.join(str(exc).split()).rstrip('.')}.") from exc
    return access.token, datetime.fromtimestamp(access.expires_on, UTC)
