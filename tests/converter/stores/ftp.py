"""A folder on an FTP server."""

import asyncio
import threading
from collections.abc import Iterator
from pathlib import Path

import aioftp
import pytest


@pytest.fixture
def served(tmp_path: Path) -> Iterator[tuple[Path, str]]:
    """Yield a folder, and the URI under which an FTP server serves it to a user with a password.

    All other users are anonymous, and see only another folder, `public`.
    """
    folder, public = tmp_path / "served", tmp_path / "public"
    folder.mkdir()
    public.mkdir()
    loop = asyncio.new_event_loop()
    server = aioftp.Server([aioftp.User("reader", "marked-password", base_path=folder), aioftp.User(base_path=public)])
    loop.run_until_complete(server.start("127.0.0.1", 0))
    thread = threading.Thread(target=loop.run_forever)
    thread.start()
    try:
        yield folder, f"ftp://127.0.0.1:{server.address[1]}"
    finally:
        asyncio.run_coroutine_threadsafe(server.close(), loop).result()
        loop.call_soon_threadsafe(loop.stop)
        thread.join()
        loop.close()


def put(folder: Path, **contents: bytes) -> None:
    for name, content in contents.items():
        file = folder / name.replace("__", "/")
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_bytes(content)
