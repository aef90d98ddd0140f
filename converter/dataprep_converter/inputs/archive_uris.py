"""Names of files within archives: `<archive>!/<path>`. The archive's name ends with .zip, .tar, or an extension of compressed tar files,
such as .tar.gz or .tgz.
"""

import re
from typing import Final

_WITHIN: Final = re.compile(r"(.*?\.(?:zip|tar|tar\.(?:gz|bz2|xz|zst|lz4)|tgz|tbz2?|txz|tzst))!(?:/(.*))?", re.DOTALL | re.IGNORECASE)


def split_archive_uri(uri: str) -> tuple[str, str] | None:
    """Returns the pair (archive, path within it) for a URI that names a file or folder within an archive. Returns None for any other
    URI."""
    match = _WITHIN.fullmatch(uri) if "!" in uri else None
    return (match[1], match[2] or "") if match is not None else None


def archive_of(uri: str) -> str:
    """Returns the archive's URI if `uri` names a file or folder within an archive, or else `uri` itself."""
    parts = split_archive_uri(uri)
    return parts[0] if parts is not None else uri
