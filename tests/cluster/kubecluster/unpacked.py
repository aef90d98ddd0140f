"""containerd's folders with unpacked images, kept in the cache.

Importing the images of the operator and the converter takes 40 seconds of processor time. A node that begins with a copy of such a folder
skips this import. The copy shares all files but the databases with the original, because containerd never changes an unpacked file.

A new folder begins as a copy of the latest one, so only the layers that differ are unpacked.
"""

import hashlib
import json
import shutil
import time
from collections.abc import Mapping
from pathlib import Path

from kubecluster import containerd, daemons, state
from kubecluster.binaries import cache_dir
from kubecluster.commands import attempt, run
from kubecluster.progress import report

KEPT_FOLDERS = 2
"""Each folder takes up to two gigabytes."""
_DAEMON = "unpacking"
_NAMES = "images.json"
"""The file in a folder that names the archive of each of its images."""


def folder(images: Mapping[str, Path]) -> Path:
    """Return a folder for containerd that has these images, given as archives by name. The caller must hold `starting_or_stopping`."""
    archives = sorted(f"{name} {archive.name}" for name, archive in images.items())
    target = _folders() / hashlib.sha256("\n".join(archives).encode()).hexdigest()[:16]
    if not target.exists():
        _unpack(images, target)
    # The least recently used folders are removed.
    target.touch()
    for old in sorted(_folders().iterdir(), key=lambda path: path.stat().st_mtime)[:-KEPT_FOLDERS]:
        shutil.rmtree(old)
    return target


def copy(source: Path, target: Path) -> None:
    """Copy a folder that no containerd uses. The copy consists of hard links if it is on the same file system."""
    if attempt(["cp", "--archive", "--link", source, target]).returncode != 0:
        shutil.rmtree(target, ignore_errors=True)
        run(["cp", "--archive", source, target], timeout_seconds=600)
    for database in target.rglob("*.db"):
        own = database.with_suffix(".own")
        shutil.copy2(database, own)
        own.rename(database)


def _unpack(images: Mapping[str, Path], target: Path) -> None:
    report(f"unpacking {len(images)} images")
    started = time.monotonic()
    # Don't unpack in the cache: its path might be too long for a socket, and its file system might not support overlayfs.
    here = state.run_dir() / _DAEMON
    shutil.rmtree(here, ignore_errors=True)
    here.mkdir()
    before = _begin(containerd.root(here), images)
    containerd.write_configuration(here, network=here)
    with state.changing() as written:
        daemon = written.daemons[_DAEMON] = daemons.start(containerd.command(here), log=here / "log")
    try:
        daemons.wait_until(lambda: containerd.answers(here), what="containerd to answer", log=here / "log")
        for name, archive in images.items():
            if before.get(name) != archive.name:
                containerd.import_image(here, archive, name=name)
        containerd.remove_earlier(here)
    finally:
        daemons.stop([daemon])
        with state.changing() as written:
            del written.daemons[_DAEMON]
    (containerd.root(here) / _NAMES).write_text(json.dumps({name: archive.name for name, archive in images.items()}))
    unfinished = target.with_name(f".{target.name}")
    shutil.rmtree(unfinished, ignore_errors=True)
    run(["mv", containerd.root(here), unfinished], timeout_seconds=600)
    unfinished.rename(target)
    shutil.rmtree(here)
    report(f"unpacked {len(images)} images in {time.monotonic() - started:.0f} s")


def _begin(folder: Path, images: Mapping[str, Path]) -> dict[str, str]:
    """Fill the folder from the latest one whose images are all wanted in some version. Return the archives of its images by name."""
    for latest in sorted(_folders().glob(f"[!.]*/{_NAMES}"), key=lambda file: file.parent.stat().st_mtime, reverse=True):
        archives: dict[str, str] = json.loads(latest.read_text())
        if archives.keys() <= images.keys():
            copy(latest.parent, folder)
            return archives
    return {}


def _folders() -> Path:
    folders = cache_dir() / "unpacked"
    folders.mkdir(parents=True, exist_ok=True)
    return folders
