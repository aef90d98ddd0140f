"""Removes possible credentials, and characters that control a terminal, from texts that are shown or stored.

Both the operator and the converter write logs and statuses, so these rules are in the shared package.
"""

import hashlib
import re
from collections.abc import Mapping
from typing import Any, Final
from urllib.parse import unquote

# Texts may come from attackers, so each pattern must run in linear time. In particular, a pattern must not scan the same part of a text
# again from each position.
_QUERY: Final = re.compile(r"""(https?://[^\s?'"<>]+\??)([^\s'"<>,;]*)""", re.IGNORECASE)
_USER: Final = re.compile(r"""(?<![A-Za-z0-9+.-])([A-Za-z][A-Za-z0-9+.-]*://)([^\s/?#@'"<>]*)@""")
"""Matches a user, with or without a password, in a correctly encoded URI."""
_WORD: Final = re.compile(r"\S+")
_PASSWORD: Final = re.compile(
    r"""(?<![A-Za-z0-9+.-])([A-Za-z][A-Za-z0-9+.-]*://)(?!\[[0-9A-Fa-f:.]+\](?::[0-9]{1,5})?(?:[/?#\s]|$))[^\s/:@'"<>]*:(?![0-9]{1,5}(?:[/?#\s]|$))"""
)
"""Matches the part of a URI before a password. IPv6 addresses, which also contain colons, don't match.

A password that isn't percent-encoded may contain any character, so the password extends to the last @.
"""
_MASKED: Final = re.compile(r"….* \(SHA-256 [0-9a-f]{16}\)\Z", re.DOTALL)
_USER_WITHOUT_SCHEME: Final = re.compile(r"[^\s/:@.][^\s/:@]*:(?!//)[^\s@]+@")
_CUT_OFF_PASSWORD: Final = re.compile(
    r"""(?<![A-Za-z0-9+.-])([A-Za-z][A-Za-z0-9+.-]*://)[^\s/?#:@'"<>\[\]]*:(?![0-9]{1,5}(?![A-Za-z0-9]))[^\s/?#:@'"<>,;)]+"""
)
"""Matches non-numeric text at the position where a URI has its port. Such text may be the password in a URI that was truncated before the
@."""
_SECRET_PARAMETER: Final = re.compile(
    r"""([?&;#](?=[^=&;?#\s'"<>]*?(?:pass|pwd|secret|token|signature|credential|api_?key|sig))[^=&;?#\s'"<>]*=)[^&\s'"<>]+""", re.IGNORECASE
)
_WITH_NAMES: Final = ("postgresql://", "postgres://", "abfs://", "abfss://")
"""Schemes for which the name before the @ isn't a secret: it is a database's user or a storage account's container."""

_CONTROL_CHARACTERS: Final = re.compile(
    "[\x00-\x08\x0b-\x1f\x7f-\x9f\xad\u061c\u180e\u200b\u200e\u200f\u2028-\u202e\u2060-\u206f\ufeff\ufff9-\ufffb\ud800-\udfff\U000e0000-\U000e007f]"
)
"""Matches control characters (C1, and C0 except tab and newline), direction marks, line separators, invisible characters and surrogates."""

_SIGNATURE_PARAMETER: Final = re.compile(
    r"x-(amz|goog)-.*|x-oss-(?!process$|traffic-limit$).*|x-cos-security-token|q-(sign-algorithm|ak|signature|sign-time|key-time|header-list|url-param-list)"
    r"|(aws|oss)?accesskeyid|googleaccessid|sig|sign|hmac|.*(signature|token|secret|passw|pwd|credential|api[-_]?key|auth|jwt).*",
    re.IGNORECASE,
)
_SIGNATURE_DETAILS: Final = frozenset(
    [
        "expires",
        "policy",
        "key-pair-id",
        "sv",
        "ss",
        "srt",
        "sp",
        "se",
        "st",
        "spr",
        "sip",
        "sr",
        "skoid",
        "sktid",
        "skt",
        "ske",
        "sks",
        "skv",
        "saoid",
        "suoid",
        "scid",
        "sdd",
        "ses",
    ]
)
"""Query parameters that belong to a signature if the URI is signed."""


def redacted(text: str) -> str:
    """Mask credentials with `…`: passwords and users in URIs, queries of web addresses, and values of parameters whose names suggest a
    secret."""
    if "://" not in text:
        return text
    return _SECRET_PARAMETER.sub(r"\1…", _QUERY.sub(_without_query, _CUT_OFF_PASSWORD.sub(r"\1…", _without_users(text))))


def with_credentials_masked(value: Any) -> Any:  # Any, because `value` is a JSON value
    """Replace credentials in the texts of a job's spec with `…`, so that the spec can be stored.

    A digest is appended to each changed text, so that different texts stay different. The function is idempotent.
    """
    if isinstance(value, str):
        masked = _SECRET_PARAMETER.sub(r"\1…", _without_users(value)) if "://" in value else value
        return value if masked == value else f"{masked} (SHA-256 {hashlib.sha256(value.encode(errors='surrogatepass')).hexdigest()[:16]})"
    if isinstance(value, Mapping):
        return {key: with_credentials_masked(item) for key, item in value.items()}
    return [with_credentials_masked(item) for item in value] if isinstance(value, list) else value


def has_masked_text(value: Any) -> bool:  # Any, because `value` is a JSON value
    """Whether `with_credentials_masked` has changed any text in the value. The original of a changed text is lost."""
    if isinstance(value, str):
        return _MASKED.search(value) is not None
    items = value.values() if isinstance(value, Mapping) else value if isinstance(value, list) else ()
    return any(map(has_masked_text, items))


def _without_users(text: str) -> str:
    if "@" not in text:
        return text
    text = _WORD.sub(_without_password, text)
    return _USER.sub(lambda match: match[0] if match[1].lower() in _WITH_NAMES and ":" not in match[2] else f"{match[1]}…@", text)


def _without_password(word: re.Match[str]) -> str:
    text, mark, rest = word[0].rpartition("@")
    match = _PASSWORD.search(f"{text}{mark}")
    return word[0] if match is None else f"{text[: match.end(1)]}…@{rest}"


def _without_query(match: re.Match[str]) -> str:
    return f"{match[1]}…" if match[2] else match[0]


def has_user(uri: str) -> bool:
    """Whether a URI contains a user or a key before its host. For `abfss://container@account…` and databases, the result is true only if
    the URI contains a password.

    `key:secret@bucket` counts as a URI without a scheme, so the result is true. To name a file `key:secret@bucket`, write
    `./key:secret@bucket`.
    """
    if "@" not in uri:
        return False
    if _USER_WITHOUT_SCHEME.match(uri):
        return True
    scheme, mark, rest = uri.partition("://")
    user, at, _ = re.split(r"[/?#]", rest, maxsplit=1)[0].rpartition("@")
    if mark and f"{scheme.lower()}://" in _WITH_NAMES:
        return ":" in user
    match = _PASSWORD.match(uri)
    return bool(mark and at) or (match is not None and re.compile(r"\S*@").match(uri, match.end()) is not None)


def printable(text: str) -> str:
    r"""Replace each control or invisible character with an escape sequence, such as `\u001b`.

    Tabs and newlines stay. If the text is JSON, its meaning doesn't change.
    """
    if text.isascii() and text.isprintable():
        return text
    return _CONTROL_CHARACTERS.sub(_escape, text)


def for_display(text: str) -> str:
    """Make a text safe to show by applying first `redacted` and then `printable`."""
    return printable(redacted(text))


def one_line(text: str) -> str:
    r"""Apply `for_display` and replace newlines with `\n`, so that no name or message can imitate a log line."""
    return for_display(text).replace("\n", "\\n")


def unsigned(uri: str) -> str:
    """Remove the query parameters with signatures or tokens from a web address.

    Other parameters are kept, because they may determine which file the address refers to. URIs that aren't web addresses are returned
    unchanged.
    """
    address, mark, query = uri.partition("?")
    if not mark or not address.lower().startswith(("http://", "https://")):
        return uri
    parameters = [(unquote(part.partition("=")[0]).lower(), part) for part in query.split("&")]
    remaining = [(name, part) for name, part in parameters if not _SIGNATURE_PARAMETER.fullmatch(name)]
    if len(remaining) < len(parameters):
        remaining = [(name, part) for name, part in remaining if name not in _SIGNATURE_DETAILS]
    return address + ("?" + "&".join(part for _, part in remaining) if remaining else "")


def _escape(match: re.Match[str]) -> str:
    code = ord(match[0])
    if code < 0x10000:
        return f"\\u{code:04x}"
    return f"\\u{0xD800 + ((code - 0x10000) >> 10):04x}\\u{0xDC00 + (code & 0x3FF):04x}"
