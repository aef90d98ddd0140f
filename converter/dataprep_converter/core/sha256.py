"""SHA-256 of many pieces by one call of C, without waiting for the GIL in between. It calls OpenSSL's functions, as hashlib does, if OpenSSL is
a shared library of the system; otherwise hashlib is used.
"""

import ctypes
import hashlib
import weakref
from collections.abc import Sequence
from functools import cache
from typing import Any, Final

from dataprep_converter.core import native
from dataprep_converter.core.buffers import Buffer

_LIBRARY: Final = "libcrypto.so.3"
"""The name that OpenSSL 3 has wherever Linux loads it. Python has loaded it already, or has one of its own within."""


class Sha256:
    """One digest, like hashlib's. `is_there` says whether there can be any."""

    def __init__(self) -> None:
        self._openssl = _openssl()
        self._context = _context(self._openssl)
        self._openssl.EVP_DigestInit_ex(self._context, self._openssl.EVP_sha256(), None)
        weakref.finalize(self, self._openssl.EVP_MD_CTX_free, self._context)

    def update(self, data: Buffer) -> None:
        """Takes some bytes."""
        address, size = native.place_of(data)
        self._openssl.EVP_DigestUpdate(self._context, address, size)

    def update_all(self, pieces: Sequence[Buffer]) -> None:
        """Takes many pieces."""
        update = ctypes.cast(self._openssl.EVP_DigestUpdate, ctypes.c_void_p)
        native.digest_pieces(update.value or 0, self._context, pieces)

    def hexdigest(self) -> str:
        """Of all so far."""
        found = ctypes.create_string_buffer(hashlib.sha256().digest_size)
        copy = _context(self._openssl)
        try:
            self._openssl.EVP_MD_CTX_copy_ex(copy, self._context)
            self._openssl.EVP_DigestFinal_ex(copy, found, None)
        finally:
            self._openssl.EVP_MD_CTX_free(copy)
        return found.raw.hex()


def is_there() -> bool:
    """Whether OpenSSL's functions and native.c are."""
    return native.is_there() and _openssl() is not None


@cache
def _openssl() -> Any:
    """OpenSSL's library, or None where it hasn't the functions that are needed. The answer of each of them is 1, or a fault that SHA-256 doesn't have."""
    try:
        library = ctypes.CDLL(_LIBRARY)
        address, count = ctypes.c_void_p, ctypes.c_size_t
        library.EVP_MD_CTX_new.restype = library.EVP_sha256.restype = address
        library.EVP_MD_CTX_free.argtypes = (address,)
        library.EVP_MD_CTX_copy_ex.argtypes = (address, address)
        library.EVP_DigestInit_ex.argtypes = library.EVP_DigestFinal_ex.argtypes = (address, address, address)
        library.EVP_DigestUpdate.argtypes = (address, address, count)
    except (OSError, AttributeError):
        return None
    return library


def _context(openssl: Any) -> Any:
    """Where OpenSSL keeps a digest. Raises MemoryError."""
    context = openssl.EVP_MD_CTX_new()
    if not context:
        raise MemoryError("OpenSSL has no memory left for a digest")
    return context
