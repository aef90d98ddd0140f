"""The encodings in which a secret might leak."""

import base64
import json
import urllib.parse


def forms_of(secret: str) -> set[str]:
    """Return a secret in plain text, percent-encoded, in hexadecimal, as a JSON string, and in base64.

    In base64, a secret's text depends on its position among other bytes, so all of its texts are returned.
    """
    plain = secret.encode()
    found = {
        secret,
        urllib.parse.quote(secret, safe=""),
        urllib.parse.quote(secret),
        urllib.parse.quote_plus(secret),
        json.dumps(secret)[1:-1],
        plain.hex(),
    }
    for before in range(3):
        for encode in (base64.b64encode, base64.urlsafe_b64encode):
            encoded = encode(bytes(before) + plain).decode().rstrip("=")
            found.add(encoded[(before * 8 + 5) // 6 : (before + len(plain)) * 8 // 6])
    return found
