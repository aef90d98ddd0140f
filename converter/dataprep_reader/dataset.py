"""Data sets: finds the shards of a finished data set from the user's argument, a folder, shards, a list of paths or a manifest."""

import os
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Final, TypeAlias
from urllib.parse import urlsplit

from dataprep_api import names
from dataprep_api.dataset.report import Manifest, ManifestFile
from dataprep_converter.core.errors import BadData, NotFound, NotWhole
from dataprep_converter.dataset.output_folder import OutputFolder
from dataprep_converter.inputs.access import Access

AnyPath: TypeAlias = str | os.PathLike[str]
Source: TypeAlias = AnyPath | Sequence[AnyPath]

_LISTS: Final = (f"/{names.SIDE}/paths/", f"/{names.SIDE}/files/")
_INNER: Final = "/data"
"""The file of a MapFile that has the records. Users of a MapFile name only its folder."""


@dataclass(frozen=True)
class DataSet:
    """Some or all shards of one finished data set."""

    uri: str
    """The data set's folder."""
    manifest: Manifest
    files: tuple[ManifestFile, ...]
    """The shards, in the order in which they are read."""

    @property
    def records(self) -> int:
        """Number of records in these shards."""
        return sum(file.records for file in self.files)


def find(source: Source, *, split: str | Sequence[str] | None, access: Access) -> DataSet:
    """Returns the shards that `source` names, limited to the requested splits.

    Raises NotFound if there is no finished data set, BadData for a damaged one, and ValueError for a split or a file that the data set
    doesn't have.
    """
    if not isinstance(source, str | os.PathLike):
        return _of_splits(_listed([_uri(each) for each in source], access), split)
    uri = _uri(source)
    if uri.endswith(".txt"):
        return _of_splits(_listed(_lines(uri, access), access), split)
    if uri.endswith(".json"):
        return _one_split(_of_manifest(uri, access), split)
    # The file is checked first, because HDFS refuses to look for anything below a file.
    if access.store(uri).stat(uri) is not None:
        return _of_splits(_listed([uri], access), split)
    found = _finished(uri, access)
    if found is None:
        raise NotFound(f"{uri} has no _SUCCESS: there is no finished data set.", uri=uri)
    return _one_split(found, split)


def _uri(source: AnyPath) -> str:
    uri = os.fspath(source)
    return uri.removeprefix("file://").rstrip("/") or "/"


def _finished(uri: str, access: Access) -> DataSet | None:
    """Returns all shards of the data set in this folder, or None if it has no `_SUCCESS`."""
    folder = OutputFolder(uri, access)
    try:
        success = folder.success()
        if success is None:
            return None
        manifest = folder.manifest(success)
    except NotWhole as exc:
        raise BadData(f"{exc} See dataprep verify.", uri=uri) from exc
    return DataSet(uri, manifest, tuple(manifest.files))


def _of_manifest(uri: str, access: Access) -> DataSet:
    """Returns the data set of a manifest `<folder>/_dataprep/<run>/manifest.json`."""
    folder, side, run = uri.rpartition(f"{names.SIDE}/")
    if not side or run.count("/") != 1:
        raise ValueError(f"{uri} isn't the manifest of a data set, which has the path <folder>/{names.SIDE}/<run>/manifest.json.")
    found = _finished(folder.rstrip("/") or ("/" if folder else "."), access)
    if found is None:
        raise NotFound(f"{folder.rstrip('/')} has no _SUCCESS: there is no finished data set.", uri=uri)
    if names.manifest_file(found.manifest.run_id) != f"{names.SIDE}/{run}":
        raise NotFound(f"{uri} is not the manifest that _SUCCESS names, which is of run {found.manifest.run_id}.", uri=uri)
    return found


def _lines(uri: str, access: Access) -> list[str]:
    """Returns the files in a list of paths. In a data set's list, relative paths are below the data set's folder, otherwise below the
    list's folder.

    A data set's list names its folder. If another program moved or copied the folder, the files with the same names below the new folder
    are used.
    """
    lines = [line.strip().removeprefix("file://") for line in access.store(uri).get(uri).decode().splitlines()]
    side = next((side for side in _LISTS if side in f"/{uri}"), None)
    folder = f"/{uri}".rpartition(side)[0] if side else None
    base = uri.rpartition("/")[0] if folder is None else folder.removeprefix("/")
    found = [line if "://" in line or line.startswith("/") or not base else names.join(base, line) for line in lines if line]
    if folder is None or (base and all(line.startswith(f"{base}/") for line in found)):
        return found
    here = _finished(base or ".", access)
    if here is None:
        raise NotFound(f"{base or '.'} has no _SUCCESS: there is no finished data set.", uri=uri)
    own = {file.file for file in here.files}
    return [next((names.join(base, name) if base else name for name in _endings(line) if name in own), line) for line in found]


def _endings(path: str) -> Iterator[str]:
    """Yields the path without its first folder, without its first two, and so on."""
    while "/" in path:
        path = path.partition("/")[2]
        yield path


def _listed(uris: Sequence[str], access: Access) -> DataSet:
    """Returns the shards with these URIs, in this order. Skips hidden files, and a shard's companion files."""
    visible = [uri for uri in uris if uri.rpartition("/")[2][:1] not in ("_", ".")]
    if not visible:
        raise NotFound("The list has no visible file.")
    found = next((each for folder in _above(visible[0]) if (each := _finished(folder, access)) is not None), None)
    if found is None:
        raise NotFound(f"{visible[0]} doesn't belong to a finished data set: no folder above it has a _SUCCESS.", uri=visible[0])
    by_name = {file.file: file for file in found.files}
    beside = {companion.file for file in found.files for companion in file.companions} | {each.file for each in found.manifest.metadata}
    chosen: dict[str, ManifestFile] = {}
    for uri in visible:
        name = uri.removeprefix(f"{found.uri}/") if found.uri != "." else uri.removeprefix("./")
        name = name if name in by_name else f"{name}{_INNER}"
        if name in chosen:
            raise ValueError(f"{uri} is in the list twice.")
        if name in by_name:
            chosen[name] = by_name[name]
        elif uri.removeprefix(f"{found.uri}/") not in beside and not names.is_hidden(name):
            raise ValueError(f"{uri} isn't a shard of the data set {found.uri}, whose manifest has {len(by_name)} files.")
    return DataSet(found.uri, found.manifest, tuple(chosen.values()))


def _above(uri: str) -> Iterator[str]:
    """Yields the folders above a file, the nearest first."""
    parts = urlsplit(uri) if "://" in uri else None
    root = f"{parts.scheme}://{parts.netloc}" if parts else ""
    path = uri.removeprefix(root)
    while "/" in path:
        path = path.rpartition("/")[0]
        yield f"{root}{path}" or "/"
    if not uri.startswith("/") and not root:
        yield "."


def _one_split(found: DataSet, split: str | Sequence[str] | None) -> DataSet:
    """Returns the shards of the split. The split must be given if there are several, so that no one trains on test data by accident."""
    if split is None and len(found.manifest.splits) > 1:
        raise ValueError(f"{found.uri} has the splits {_names(found)}: select one, for example split={found.manifest.splits[0].name!r}.")
    return _of_splits(found, split)


def _of_splits(found: DataSet, split: str | Sequence[str] | None) -> DataSet:
    if split is None:
        return found
    wanted = [split] if isinstance(split, str) else list(split)
    known = {each.name for each in found.manifest.splits}
    for name in wanted:
        if name not in known:
            raise ValueError(f"{found.uri} has no split {name!r}: it has {_names(found)}.")
    files = tuple(file for name in wanted for file in found.files if file.split == name)
    if found.files and not files and len(found.files) < len(found.manifest.files):
        raise ValueError(f"None of these {len(found.files)} files of {found.uri} belongs to the split {wanted[0]!r}.")
    return DataSet(found.uri, found.manifest, files)


def _names(found: DataSet) -> str:
    return ", ".join(split.name for split in found.manifest.splits)
