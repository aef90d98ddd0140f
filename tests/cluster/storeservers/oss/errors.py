"""OSS's errors."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field


# Not frozen: Python sets the traceback of an exception that passes through a context manager.
@dataclass(eq=False)
class OssError(Exception):
    """A request to which the fake responds with an error document."""

    status: int
    code: str
    message: str
    ec: str = ""
    """OSS's numeric code of the exact cause, if known."""
    details: Mapping[str, str | Mapping[str, str]] = field(default_factory=dict)
    """Additional elements of the document."""

    def __str__(self) -> str:
        return f"{self.status} {self.code}: {self.message}"


def no_such_bucket(bucket: str) -> OssError:
    """The bucket does not exist."""
    return OssError(404, "NoSuchBucket", "The specified bucket does not exist.", details={"BucketName": bucket})


def no_such_key(key: str) -> OssError:
    """The object does not exist."""
    return OssError(404, "NoSuchKey", "The specified key does not exist.", details={"Key": key})


def no_such_upload(upload_id: str) -> OssError:
    """The upload never existed, or was completed or aborted."""
    return OssError(
        404,
        "NoSuchUpload",
        "The specified upload does not exist. The upload ID may be invalid, or the upload may have been aborted or completed.",
        details={"UploadId": upload_id},
    )


def file_already_exists() -> OssError:
    """The request forbids overwriting, and the object exists."""
    return OssError(409, "FileAlreadyExists", "The object you specified already exists and can not be overwritten.")


def invalid_argument(message: str, *, name: str, value: str) -> OssError:
    """OSS does not accept the value of a query parameter or header."""
    return OssError(400, "InvalidArgument", message, details={"ArgumentName": name, "ArgumentValue": value})


def access_denied(action: str) -> OssError:
    """The key is valid, but its policies don't allow this action."""
    return OssError(
        403,
        "AccessDenied",
        "You have no right to access this object.",
        ec="0003-00000001",
        details={
            "AccessDeniedDetail": {
                "PolicyType": "AccountLevelIdentityBasedPolicy",
                "AuthPrincipalType": "SubUser",
                "AuthPrincipalDisplayName": "300000000000000000",
                "AuthPrincipalOwnerId": "1000000000000000",
                "NoPermissionType": "ImplicitDeny",
                "AuthAction": action,
            }
        },
    )
