"""One set of AWS keys."""

from dataclasses import dataclass
from datetime import datetime


@dataclass(frozen=True)
class AwsCredentials:
    """One set of keys."""

    access_key: str
    secret_key: str
    token: str | None = None
    expires: datetime | None = None
