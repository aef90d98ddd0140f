"""Kerberos for HDFS: sets the location of the Kerberos configuration, and explains login errors.

hdfs-native calls the system's GSSAPI. GSSAPI takes the principal and the keytab as arguments, and all other settings from the files listed
in the environment variable `KRB5_CONFIG`.
"""

import ctypes
import os
import re
from pathlib import Path
from typing import Final

from dataprep_converter.core.errors import BadCredentials, BadSpec, StoreError, Unreachable

AUTHENTICATION: Final = "hadoop.security.authentication"
CONFIGURATION_FILE: Final = "krb5.conf"
CONFIGURATION_VARIABLE: Final = "KRB5_CONFIG"
LIBRARY: Final = "libgssapi_krb5.so.2"

_NEEDED = "Kerberos needs a Secret with the keys keytab and principal, or a ticket (KRB5CCNAME)"
_GSSAPI = re.compile(r'GSSAPIError\(GssMajorCodes \{[^}]*\}, \d+, "(?P<said>.*)"\)', re.DOTALL)
_ADVICE: Final = (
    (("cache found", "No key table", "keytab", "No Kerberos credentials"), _NEEDED + "; the keytab must have a key of that principal"),
    (
        ("Decrypt integrity", "Preauthentication failed", "Password incorrect"),
        "the keytab is older than the principal's key: export it again",
    ),
    (("not found in Kerberos database",), "the KDC knows no such principal"),
    (
        ("default realm", "Cannot find KDC"),
        "give a krb5.conf that names the realm and its KDC as a key of the ConfigMap with core-site.xml",
    ),
    (("expired",), "make a new ticket, or give a keytab, which needs no renewal"),
    (("skew",), "the clocks of the node and the KDC differ"),
)


def prepare(hadoop_conf: str | None) -> None:
    """Prepares this process for Kerberos logins. If the folder `hadoop_conf` contains a krb5.conf, logins use this file too.

    Raises BadSpec if the system has no Kerberos library.
    """
    try:
        ctypes.CDLL(LIBRARY)
    except OSError as exc:
        raise BadSpec(f"HDFS with Kerberos needs {LIBRARY} in the image (Debian: libgssapi-krb5-2): {exc}.") from exc
    file = Path(hadoop_conf or "", CONFIGURATION_FILE)
    if hadoop_conf is None or not file.is_file():
        return
    # The variable is a list of files; for each realm, the first file that contains the realm is used. So each store can add a file with its
    # own realm.
    files = [path for path in os.environ.get(CONFIGURATION_VARIABLE, "").split(":") if path]
    if str(file) not in files:
        os.environ[CONFIGURATION_VARIABLE] = ":".join([*files, str(file)])


def refusal(text: str, hosts: str) -> StoreError | None:
    """Returns the login error that caused an hdfs-native error, or None if the error has another cause."""
    if match := _GSSAPI.search(text):
        general, _, special = match["said"].replace('\\"', '"').partition(": ")
        reason = special or general
        if "Cannot contact any KDC" in reason:
            return Unreachable(f"HDFS at {hosts}: the Kerberos login failed: {reason}.")
        advice = next((advice for words, advice in _ADVICE if any(word in reason for word in words)), _NEEDED)
        return BadCredentials(f"HDFS at {hosts} refused the login: {reason}; {advice}.")
    if any(word in text for word in ("GSSAPI", "SASL", "Sasl", "InvalidToken")):
        return BadCredentials(f"HDFS at {hosts} refused the login: {text.splitlines()[0][:300].rstrip('.')}; {_NEEDED}.")
    return None
