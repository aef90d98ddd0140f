"""Reads an AWS profile's credentials from the files of the AWS command line: `~/.aws/config` and `~/.aws/credentials`.

This module reads keys directly from these files. It calls botocore for credentials that need a request or another program: SSO, an assumed
role, `credential_process`, or a login session. Because pods have no profiles, botocore is imported only when it is needed.
"""

import configparser
import os
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from functools import cached_property
from pathlib import Path
from typing import Any, Final

from dataprep_converter.core.errors import BadCredentials, BadSpec, Unreachable
from dataprep_converter.stores.credentials.aws_keys import AwsCredentials
from dataprep_converter.stores.credentials.token_services import EARLY

_BEFORE_KEYS: Final = ("role_arn", "sso_session", "sso_start_url", "sso_account_id")
"""AWS's tools use these settings in preference to keys in the same profile."""
_AFTER_KEYS: Final = ("credential_process", "login_session")


class AwsProfile:
    """The profile that AWS_PROFILE names, or `default`."""

    def __init__(self) -> None:
        chosen = os.environ.get("AWS_PROFILE") or os.environ.get("AWS_DEFAULT_PROFILE")
        self._name = chosen or "default"
        self._config = _file(os.environ.get("AWS_CONFIG_FILE") or "~/.aws/config")
        self._keys = _file(os.environ.get("AWS_SHARED_CREDENTIALS_FILE") or "~/.aws/credentials")
        self._must_exist = chosen is not None
        self._chain: Any = None  # botocore has no types

    @property
    def region(self) -> str | None:
        """The region of the profile, if it has one. Raises BadCredentials if a file can't be parsed."""
        return self._settings.get("region")

    def credentials(self, region: str) -> AwsCredentials | None:
        """Returns the profile's credentials, or None if there is no profile with credentials. `region` is used if the profile has no
        region.

        Raises BadCredentials, which names the profile and says what to do. Raises Unreachable if a service doesn't respond.
        """
        if not self._settings and self._must_exist:
            raise BadCredentials(f"No credentials for S3: AWS_PROFILE is {self._name}, but neither {self._config} nor {self._keys} has it.")
        has_keys = "aws_access_key_id" in self._settings
        if any(setting in self._settings for setting in (_BEFORE_KEYS if has_keys else (*_BEFORE_KEYS, *_AFTER_KEYS))):
            return self._from_botocore(region)
        if not has_keys:
            return None
        return AwsCredentials(
            self._settings["aws_access_key_id"],
            self._settings.get("aws_secret_access_key", ""),
            self._settings.get("aws_session_token"),
        )

    @cached_property
    def _settings(self) -> Mapping[str, str]:
        sections = [f"profile {self._name}", f'profile "{self._name}"', *(["default"] if self._name == "default" else [])]
        return {**_section(self._config, sections), **_section(self._keys, [self._name])}

    def _from_botocore(self, region: str) -> AwsCredentials:
        try:
            from botocore import exceptions  # type: ignore[import-not-found] # an optional package; see docs/stores/credentials.md
            from botocore.session import Session  # type: ignore[import-not-found] # as above
        except ImportError as exc:
            used = next(setting for setting in (*_BEFORE_KEYS, *_AFTER_KEYS) if setting in self._settings)
            raise BadSpec(f"AWS profile {self._name} uses {used}, which needs the package botocore: pip install botocore.") from exc
        try:
            if self._chain is None:
                session = Session(profile=self._name)
                if session.get_config_variable("region") is None:
                    session.set_config_variable("region", region)
                self._chain = session.get_credentials()
            if self._chain is None:
                raise BadCredentials(f"No credentials for AWS profile {self._name}: botocore finds none in its settings.")
            keys = self._chain.get_frozen_credentials()
        except (exceptions.HTTPClientError, exceptions.ConnectionError) as exc:
            raise Unreachable(f"cannot connect to get the credentials of AWS profile {self._name}: {_line(exc)}.") from exc
        except (exceptions.BotoCoreError, exceptions.ClientError) as exc:
            logged_out = isinstance(exc, exceptions.SSOError | exceptions.TokenRetrievalError)
            hint = f" Log in: aws sso login --profile {self._name}." if logged_out else ""
            raise BadCredentials(f"No credentials for AWS profile {self._name}: {_line(exc)}.{hint}") from exc
        # botocore renews temporary keys that expire in less than 10 minutes, so these keys stay valid for at least 10 minutes.
        return AwsCredentials(keys.access_key, keys.secret_key, keys.token, datetime.now(UTC) + 2 * EARLY if keys.token else None)


def _file(path: str) -> Path:
    try:
        return Path(path).expanduser()
    except RuntimeError:  # the user has no home directory, as in some containers
        return Path(path)


def _section(file: Path, names: Sequence[str]) -> Mapping[str, str]:
    parser = configparser.ConfigParser(interpolation=None, strict=False)
    try:
        parser.read(file)
    except configparser.MissingSectionHeaderError as exc:
        raise BadCredentials(f"{file} is not a valid AWS settings file: line {exc.lineno} comes before the first [section].") from None
    except configparser.ParsingError as exc:
        # The parser's own message quotes the lines, which may contain keys.
        numbers = ", ".join(str(number) for number, _ in exc.errors)
        raise BadCredentials(f"{file} is not a valid AWS settings file: expected [section] or name = value in line {numbers}.") from None
    except UnicodeDecodeError as exc:
        raise BadCredentials(f"{file} is not a valid AWS settings file: it is not UTF-8.") from exc
    return next((dict(parser[name]) for name in names if parser.has_section(name)), {})


def _line(error: Exception) -> str:
    return " ".join(str(error).split()).rstrip(".")
