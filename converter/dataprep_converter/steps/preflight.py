"""Preflight: checks, before any worker starts, that every source exists and that the job has all permissions it needs at the destination.

Depending on the fault, the error names either the missing permission, or the host, the user and the path. The preflight takes at most 30 s,
and leaves nothing behind except the output folder.
"""

import contextvars
import secrets
import threading
import time
from collections.abc import Callable, Sequence
from typing import Final

from dataprep_api import names
from dataprep_converter.core.errors import NotFound, StoreError, Unreachable
from dataprep_converter.inputs import maxcompute
from dataprep_converter.inputs.access import Access
from dataprep_converter.inputs.foreign_paths import absence, refuse_foreign
from dataprep_converter.runtime.retry import with_deadline
from dataprep_converter.stores import HasWarnings, WritesAside, scheme_of

LIMIT_SECONDS: Final = 30.0
_PROBE: Final = ".preflight-"
_FORGOTTEN_SECONDS: Final = 3600.0
_RETRY_SECONDS = 12.0
"""After this time, failed requests aren't retried, so that the last response arrives within the limit."""


def preflight(access: Access, output_uri: str, source_uris: Sequence[str], *, limit_seconds: float = LIMIT_SECONDS) -> list[str]:
    """Checks the sources and the output, and returns warnings.

    Raises the stores' errors, and Unreachable when a store doesn't respond in time.
    """
    began = time.monotonic()
    warnings: list[str] = []
    for uri in (*source_uris, output_uri):
        refuse_foreign(uri)
    with with_deadline(seconds=min(_RETRY_SECONDS, limit_seconds)):
        for uri in source_uris:
            _check_in_time(lambda uri=uri: check_source(access, uri), uri=uri, seconds=began + limit_seconds - time.monotonic())  # type: ignore[misc] # mypy can't infer a lambda with a default
        _check_in_time(lambda: check_output(access, output_uri), uri=output_uri, seconds=began + limit_seconds - time.monotonic())
        store = access.store(output_uri)
        if isinstance(store, HasWarnings):
            _check_in_time(
                lambda: warnings.extend(store.warnings(output_uri)), uri=output_uri, seconds=began + limit_seconds - time.monotonic()
            )
    return warnings


def check_source(access: Access, uri: str) -> None:
    """Raises NotFound when `uri` is not a file, a folder with a file in it, or a table."""
    if scheme_of(uri) == maxcompute.SCHEME:
        maxcompute.check(uri, access)
        return
    store = access.store(uri)
    if store.stat(uri) is None and next(iter(store.list(uri)), None) is None:
        raise NotFound(f"The source {uri} doesn't exist: there is no such file, and no file below it{absence(uri)}.", uri=uri)


def check_output(access: Access, uri: str) -> None:
    """Writes, reads, lists and deletes a small file below `uri`.

    Also deletes the files left by preflights that were killed over an hour ago. On a store that implements `WritesAside`, only checks the
    permissions.
    """
    store = access.store(uri)
    if isinstance(store, WritesAside):
        store.check_rights(uri)
        return
    folder = names.join(uri, names.SIDE)
    probe = names.join(folder, f"{_PROBE}{secrets.token_hex(8)}")
    content = probe.encode()
    store.put(probe, content, replace=False)
    try:
        if store.get(probe) != content:
            raise StoreError(f"The content of {probe} differs from what was written to it.", uri=probe)
        entries = list(store.list(folder, recursive=False))
        if all(entry.uri != probe for entry in entries):
            raise StoreError(f"{probe} was written, but is not in the listing of its folder.", uri=probe)
    finally:
        store.delete(probe)
    for entry in entries:
        if entry.uri.startswith(names.join(folder, _PROBE)) and entry.details and entry.details.modified < time.time() - _FORGOTTEN_SECONDS:
            store.delete(entry.uri)


def _check_in_time(check: Callable[[], None], *, uri: str, seconds: float) -> None:
    """Runs a check with a time limit in seconds, because a native client can block for minutes in a single call."""
    raised: list[BaseException] = []

    def run() -> None:
        try:
            check()
        except BaseException as exc:
            raised.append(exc)

    context = contextvars.copy_context()
    thread = threading.Thread(target=lambda: context.run(run), name="preflight", daemon=True)
    thread.start()
    thread.join(max(0.0, seconds))
    if thread.is_alive():
        raise Unreachable(f"{uri}: the store has not responded within {LIMIT_SECONDS:.0f} s.", uri=uri)
    if raised:
        raise raised[0]
