"""What people and records may see of a text: without what may be a credential, and without characters that steer a terminal.

Operator and converter both write logs and statuses, so the rule is here, once.
"""

import hashlib
import re
from collections.abc import Mapping
from typing import Any, Final
from urllib.parse import unquote

# Whoever writes a text may try how long it takes: each of these takes a time in proportion to its length, since none looks at a part of it again from each place.
_QUERY: Final = re.compile(r"""(https?://[^\s?'"<>]+\??)([^\s'"<>,;]*)""", re.IGNORECASE)
_USER: Final = re.compile(r"""(?<![A-Za-z0-9+.-])([A-Za-z][A-Za-z0-9+.-]*://)([^\s/?#@'"<>]*)@""")
"""A user, with or without a password, as a URI should have them."""
_WORD: Final = re.compile(r"\S+")
_PASSWORD: Final = re.compile(
    r"""(?<![A-Za-z0-9+.-])([A-Za-z][A-Za-z0-9+.-]*://)(?!\[[0-9A-Fa-f:.]+\](?::[0-9]{1,5})?(?:[/?#\s]|$))[^\s/:@'"<>]*:(?![0-9]{1,5}(?:[/?#\s]|$))"""
)
"""Where a password begins. One that is not percent-encoded may hold any character: up to the last @. An address of IPv6 has colons of its own."""
_CONCEALED: Final = re.compile(r"….* \(SHA-256 [0-9a-f]{16}\)\Z", re.DOTALL)
_BARE: Final = re.compile(r"[^\s/:@.][^\s/:@]*:(?!//)[^\s@]+@")
_CUT: Final = re.compile(
    r"""(?<![A-Za-z0-9+.-])([A-Za-z][A-Za-z0-9+.-]*://)[^\s/?#:@'"<>\[\]]*:(?![0-9]{1,5}(?![A-Za-z0-9]))[^\s/?#:@'"<>,;)]+"""
)
"""The text in the place of a port, in an address that was cut before its @."""
_NAMED: Final = re.compile(
    r"""([?&;#](?=[^=&;?#\s'"<>]*?(?:pass|pwd|secret|token|signature|credential|api_?key|sig))[^=&;?#\s'"<>]*=)[^&\s'"<>]+""", re.IGNORECASE
)
_WITH_NAMES: Final = ("postgresql://", "postgres://", "abfs://", "abfss://")
"""Schemes whose name before the @ is no secret: a database's user, a container."""

_HOSTILE: Final = re.compile(
    "[\x00-\x08\x0b-\x1f\x7f-\x9f\xad\u061c\u180e\u200b\u200e\u200f\u2028-\u202e\u2060-\u206f\ufeff\ufff9-\ufffb\ud800-\udfff\U000e0000-\U000e007f]"
)
"""Controls (C0 but tab and newline, C1), marks and overrides of direction, separators of lines, invisible characters, halves of surrogates."""

_SIGNING: Final = re.compile(
    r"x-(amz|goog)-.*|x-oss-(?!process$|traffic-limit$).*|x-cos-security-token|q-(sign-algorithm|ak|signature|sign-time|key-time|header-list|url-param-list)"
    r"|(aws|oss)?accesskeyid|googleaccessid|sig|sign|hmac|.*(signature|token|secret|passw|pwd|credential|api[-_]?key|auth|jwt).*",
    re.IGNORECASE,
)
_BESIDE: Final = frozenset(
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
"""Parameters that belong to a signature where there is one."""


def redacted(text: str) -> str:
    """The text with `…` for passwords and users in URIs, for the query of each web address, and for parameters that are named like a secret."""
    if "://" not in text:
        return text
    return _NAMED.sub(r"\1…", _QUERY.sub(_without_query, _CUT.sub(r"\1…", _without_users(text))))


def concealed(value: Any) -> Any:  # Any: JSON
    """What a job says, as it may be stored: for a credential in a text stands `…`, and a digest, so that two texts stay two. Twice is as once."""
    if isinstance(value, str):
        found = _NAMED.sub(r"\1…", _without_users(value)) if "://" in value else value
        return value if found == value else f"{found} (SHA-256 {hashlib.sha256(value.encode(errors='surrogatepass')).hexdigest()[:16]})"
    if isinstance(value, Mapping):
        return {key: concealed(each) for key, each in value.items()}
    return [concealed(each) for each in value] if isinstance(value, list) else value


def lacks_something(value: Any) -> bool:  # Any: JSON
    """Whether a text in it was `concealed`, so that it is no longer what the job said."""
    if isinstance(value, str):
        return _CONCEALED.search(value) is not None
    below = value.values() if isinstance(value, Mapping) else value if isinstance(value, list) else ()
    return any(map(lacks_something, below))


def _without_users(text: str) -> str:
    if "@" not in text:
        return text
    text = _WORD.sub(_without_password, text)
    return _USER.sub(lambda found: found[0] if found[1].lower() in _WITH_NAMES and ":" not in found[2] else f"{found[1]}…@", text)


def _without_password(word: re.Match[str]) -> str:
    text, mark, rest = word[0].rpartition("@")
    found = _PASSWORD.search(f"{text}{mark}")
    return word[0] if found is None else f"{text[: found.end(1)]}…@{rest}"


def _without_query(found: re.Match[str]) -> str:
    return f"{found[1]}…" if found[2] else found[0]


def has_user(uri: str) -> bool:
    """Whether a URI holds a user or a key before its host; of `abfss://container@account…` and databases, whether it holds a password.

    `key:secret@bucket` does, as a URI without its scheme. A file of that name is `./key:secret@bucket`.
    """
    if "@" not in uri:
        return False
    if _BARE.match(uri):
        return True
    scheme, mark, rest = uri.partition("://")
    user, at, _ = re.split(r"[/?#]", rest, maxsplit=1)[0].rpartition("@")
    if mark and f"{scheme.lower()}://" in _WITH_NAMES:
        return ":" in user
    begins = _PASSWORD.match(uri)
    return bool(mark and at) or (begins is not None and re.compile(r"\S*@").match(uri, begins.end()) is not None)


def printable(text: str) -> str:
    r"""The text with `\u001b` for each character that a terminal obeys or nobody sees. Tabs and newlines stay. In JSON it means the same."""
    if text.isascii() and text.isprintable():
        return text
    return _HOSTILE.sub(_escaped, text)


def shown(text: str) -> str:
    """Both: what becomes of a text on its way to a person."""
    return printable(redacted(text))


def one_line(text: str) -> str:
    r"""`shown`, with `\n` for a newline, so that no name or message can look like a line of ours."""
    return shown(text).replace("\n", "\\n")


def unsigned(uri: str) -> str:
    """A web address without the parameters that sign it or hold a token; what else names the file stays. Other URIs stay as they are."""
    address, mark, query = uri.partition("?")
    if not mark or not address.lower().startswith(("http://", "https://")):
        return uri
    given = [(unquote(part.partition("=")[0]).lower(), part) for part in query.split("&")]
    kept = [(name, part) for name, part in given if not _SIGNING.fullmatch(name)]
    if len(kept) < len(given):
        kept = [(name, part) for name, part in kept if name not in _BESIDE]
    return address + ("?" + "&".join(part for _, part in kept) if kept else "")


def _escaped(found: re.Match[str]) -> str:
    code = ord(found[0])
    if code < 0x10000:
        return f"\\u{code:04x}"
    return f"\\u{0xD800 + ((code - 0x10000) >> 10):04x}\\u{0xDC00 + (code & 0x3FF):04x}"
