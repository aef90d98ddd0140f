"""Computes the SHA-256 of many pieces in one C call, without waiting for the GIL between the pieces.

If the system has OpenSSL as a shared library, this module calls OpenSSL's functions, as hashlib does. Otherwise callers use hashlib.
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
"""The file name of OpenSSL 3 on every Linux system. Python has already loaded this library, unless Python has its own OpenSSL."""


class Sha256:
    """A digest object like hashlib's. This class can be used only if `is_there` returns True."""

    def __init__(self) -> None:
        self._openssl = _openssl()
        self._context = _context(self._openssl)
        self._openssl.EVP_DigestInit_ex(self._context, self._openssl.EVP_sha256(), None)
        weakref.finalize(self, self._openssl.EVP_MD_CTX_free, self._context)

    def update(self, data: Buffer) -> None:
        """Add bytes to the digest."""
        address, size = native.place_of(data)
        self._openssl.EVP_DigestUpdate(self._context, address, size)

    def update_all(self, pieces: Sequence[Buffer]) -> None:
        """Add many pieces to the digest."""
        update = ctypes.cast(self._openssl.EVP_DigestUpdate, ctypes.c_void_p)
        native.digest_pieces(update.value or 0, self._context, pieces)

    def hexdigest(self) -> str:
        """Return the digest of all bytes added so far, in hexadecimal."""
        digest = ctypes.create_string_buffer(hashlib.sha256().digest_size)
        copy = _context(self._openssl)
        try:
            self._openssl.EVP_MD_CTX_copy_ex(copy, self._context)
            self._openssl.EVP_DigestFinal_ex(copy, digest, None)
        finally:
            self._openssl.EVP_MD_CTX_free(copy)
        return digest.raw.hex()


def is_there() -> bool:
    """Return whether OpenSSL's functions and native.c are available."""
    return native.is_there() and _openssl() is not None


@cache
def _openssl() -> Any:
    """Return OpenSSL's library, or None if the library is missing or lacks a needed function.

    Callers ignore the functions' return values, because these functions can't fail for SHA-256.
    """
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
    """Return a new context, in which OpenSSL keeps the state of a digest. Raises MemoryError."""
    context = openssl.EVP_MD_CTX_new()
    if not context:
        raise MemoryError("OpenSSL has no memory left for a digest")
    return context
