"""Caches folders of containerd that contain unpacked images.

Importing the images of the operator and the converter takes 40 seconds of processor time. A node that begins with a copy of such a folder
skips this import. The copy shares the files of the layers with the original, because containerd never changes them. The copy has its own
versions of all other files, such as the databases.

A new folder begins as a copy of the latest one, so only the layers that differ are unpacked.

Several runs can use the same cache at the same time. A lock keeps a run from removing a folder that another run is copying.
"""

import fcntl
import hashlib
import json
import os
import shutil
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Final

from kubecluster import containerd, daemons, state
from kubecluster.binaries import cache_dir
from kubecluster.commands import attempt, run
from kubecluster.progress import report

KEPT_FOLDERS = 2
"""The number of folders that are kept. Each takes up to two gigabytes."""
_DAEMON = "unpacking"
_FORMAT: Final = 2
"""The names of all folders begin with this number. In format 1, folders shared the list of their images, so the list could be wrong."""
_NAMES: Final = "archives.json"
"""The file in a folder that names the archive of each of its images.

Earlier versions of this module don't know this file, so they copy no folder of this format.
"""
_TEMPORARY: Final = f".{_FORMAT}-"
"""The prefix of the names of unfinished folders, and of folders that are being removed.

Only the holder of the exclusive lock has such folders.
"""
_SHARED: Final = frozenset({"blobs", "snapshots"})
"""containerd's folders whose files never change after they are written: the layers as received, and the layers as unpacked."""


def folder(images: Mapping[str, Path]) -> Path:
    """Return a folder for containerd that has these images, given as archives by name. The caller must hold `starting_or_stopping`."""
    archives = sorted(f"{name} {archive.name}" for name, archive in images.items())
    key = hashlib.sha256("\n".join(archives).encode()).hexdigest()[:16]
    target = _folders() / f"{_FORMAT}-{key}"
    if not _use(target):
        _unpack(images, target)
    return target


def copy(source: Path, target: Path) -> None:
    """Copy a folder that no containerd uses. The copy shares the files of the layers if it is on the same file system."""
    with _locked(fcntl.LOCK_SH):
        _copy(source, target)


def _copy(source: Path, target: Path) -> None:
    if attempt(["cp", "--archive", "--link", source, target]).returncode != 0:
        # If the target existed, cp would copy the source to a subfolder of the target.
        if target.exists():
            shutil.rmtree(target)
        run(["cp", "--archive", source, target], timeout_seconds=600)
    for parent, subfolders, files in os.walk(target):
        subfolders[:] = [name for name in subfolders if name not in _SHARED]
        for file in (Path(parent, name) for name in files):
            if file.is_file() and not file.is_symlink():
                own = file.with_name(f"{file.name}.own")
                shutil.copy2(file, own)
                own.rename(file)


def _use(target: Path) -> bool:
    """Return whether the folder exists. If it does, mark it as the most recently used folder."""
    with _locked(fcntl.LOCK_EX):
        if not target.exists():
            return False
        os.utime(target)
        _remove_old()
        return True


def _publish(filled: Path, target: Path) -> None:
    """Move a folder into the cache, unless another run has just done so."""
    with _locked(fcntl.LOCK_EX):
        if not target.exists():
            _remove_temporary()
            unfinished = target.with_name(f"{_TEMPORARY}{target.name}")
            # Moving a folder to another file system takes a while, so the folder gets its final name only afterwards.
            run(["mv", filled, unfinished], timeout_seconds=600)
            unfinished.rename(target)
        os.utime(target)
        _remove_old()


def _remove_old() -> None:
    """Remove all but the most recently used folders. The caller must hold the exclusive lock."""
    _remove_temporary()
    kept = [path for path in _folders().iterdir() if not path.name.startswith(".")]
    for old in sorted(kept, key=lambda path: path.stat().st_mtime)[:-KEPT_FOLDERS]:
        # Rename the folder first, so that no run uses a folder that is only partly removed.
        old.rename(old.with_name(f"{_TEMPORARY}{old.name}"))
    _remove_temporary()


def _remove_temporary() -> None:
    """Remove what a killed run left behind. The caller must hold the exclusive lock."""
    for left in _folders().glob(f"{_TEMPORARY}*"):
        shutil.rmtree(left)


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
    _write_names(containerd.root(here), images)
    _publish(containerd.root(here), target)
    shutil.rmtree(here)
    report(f"unpacked {len(images)} images in {time.monotonic() - started:.0f} s")


def _begin(folder: Path, images: Mapping[str, Path]) -> dict[str, str]:
    """Fill the folder from the latest cached folder whose images are all in `images`, perhaps in other versions.

    Return the archives of the cached folder's images, by name.
    """
    with _locked(fcntl.LOCK_SH):
        for latest, archives in _earlier():
            if archives.keys() <= images.keys():
                _copy(latest, folder)
                return archives
    return {}


def _earlier() -> list[tuple[Path, dict[str, str]]]:
    """Return the folders of this format, most recently used first, each with the archives of its images by name."""
    found: list[tuple[float, Path, dict[str, str]]] = []
    for folder in _folders().glob(f"{_FORMAT}-*"):
        # A run with an earlier version of this module takes no lock, so it can remove the folder at any moment.
        with suppress(FileNotFoundError):
            found.append((folder.stat().st_mtime, folder, json.loads((folder / _NAMES).read_text())))
    return [(folder, archives) for _, folder, archives in sorted(found, key=lambda entry: entry[0], reverse=True)]


def _write_names(folder: Path, images: Mapping[str, Path]) -> None:
    """Write the archives of the folder's images to a new file, because another folder might share the old file."""
    new = folder / f"{_NAMES}.new"
    new.write_text(json.dumps({name: archive.name for name, archive in images.items()}))
    new.rename(folder / _NAMES)


def _folders() -> Path:
    folders = cache_dir() / "unpacked"
    folders.mkdir(parents=True, exist_ok=True)
    return folders


@contextmanager
def _locked(kind: int) -> Iterator[None]:
    """Hold the cache's lock: shared to copy a folder, exclusive to add or remove a folder."""
    # The lock file isn't in the folder itself, because earlier versions of this module remove the folder's content.
    with _folders().with_suffix(".lock").open("w") as lock:
        fcntl.flock(lock, kind)
        yield
