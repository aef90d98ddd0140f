"""Finds the shards of a finished data set from the user's argument: a folder, shards, a list of paths or a manifest."""

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
"""Name of the file that contains the records of a MapFile. Users give only the MapFile's folder."""


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
        return _limit_to(_find_by_shards([_uri(each) for each in source], access), split)
    uri = _uri(source)
    if uri.endswith(".txt"):
        return _limit_to(_find_by_shards(_read_list(uri, access), access), split)
    if uri.endswith(".json"):
        return _limit_to_one(_find_by_manifest(uri, access), split)
    # First check whether `uri` is a file, because HDFS refuses to look for anything below a file.
    if access.store(uri).stat(uri) is not None:
        return _limit_to(_find_by_shards([uri], access), split)
    data_set = _find_finished(uri, access)
    if data_set is None:
        raise NotFound(f"{uri} has no _SUCCESS: there is no finished data set.", uri=uri)
    return _limit_to_one(data_set, split)


def _uri(source: AnyPath) -> str:
    uri = os.fspath(source)
    if uri.startswith("~/"):
        uri = os.path.expanduser(uri)  # noqa: PTH111 - Path would change a URI
    return uri.removeprefix("file://").rstrip("/") or "/"


def _find_finished(uri: str, access: Access) -> DataSet | None:
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


def _find_by_manifest(uri: str, access: Access) -> DataSet:
    """Returns the data set to which a manifest `<folder>/_dataprep/<run>/manifest.json` belongs."""
    folder, side, run = uri.rpartition(f"{names.SIDE}/")
    if not side or run.count("/") != 1:
        raise ValueError(f"{uri} isn't a data set's manifest: its path must be <folder>/{names.SIDE}/<run>/manifest.json.")
    data_set = _find_finished(folder.rstrip("/") or ("/" if folder else "."), access)
    if data_set is None:
        raise NotFound(f"{folder.rstrip('/')} has no _SUCCESS: there is no finished data set.", uri=uri)
    if names.manifest_file(data_set.manifest.run_id) != f"{names.SIDE}/{run}":
        raise NotFound(f"{uri} is not the current manifest: _SUCCESS names the manifest of run {data_set.manifest.run_id}.", uri=uri)
    return data_set


def _read_list(uri: str, access: Access) -> list[str]:
    """Returns the files in a list of paths. In a data set's own list, relative paths are resolved against the data set's folder; in any
    other list, against the list's folder.

    Absolute paths in a data set's own list contain the data set's folder. If another program has moved or copied the folder, the paths
    still contain the old folder. Each path is then replaced by the path of the same file in the new folder.
    """
    lines = [line.strip().removeprefix("file://") for line in access.store(uri).get(uri).decode().splitlines()]
    side = next((side for side in _LISTS if side in f"/{uri}"), None)
    folder = f"/{uri}".rpartition(side)[0] if side else None
    base = uri.rpartition("/")[0] if folder is None else folder.removeprefix("/")
    uris = [line if "://" in line or line.startswith("/") or not base else names.join(base, line) for line in lines if line]
    if folder is None or (base and all(line.startswith(f"{base}/") for line in uris)):
        return uris
    data_set = _find_finished(base or ".", access)
    if data_set is None:
        raise NotFound(f"{base or '.'} has no _SUCCESS: there is no finished data set.", uri=uri)
    own = {file.file for file in data_set.files}
    return [next((names.join(base, name) if base else name for name in _shortened(line) if name in own), line) for line in uris]


def _shortened(path: str) -> Iterator[str]:
    """Yields the path without its first folder, then the path without its first two folders, and so on."""
    while "/" in path:
        path = path.partition("/")[2]
        yield path


def _find_by_shards(uris: Sequence[str], access: Access) -> DataSet:
    """Returns the shards with these URIs, in this order. Skips hidden files, and a shard's companion files."""
    visible = [uri for uri in uris if uri.rpartition("/")[2][:1] not in ("_", ".")]
    if not visible:
        raise NotFound("The list contains no visible files.")
    data_set = next((each for folder in _folders_above(visible[0]) if (each := _find_finished(folder, access)) is not None), None)
    if data_set is None:
        raise NotFound(f"{visible[0]} doesn't belong to a finished data set: no folder above it has a _SUCCESS.", uri=visible[0])
    by_name = {file.file: file for file in data_set.files}
    beside = {companion.file for file in data_set.files for companion in file.companions} | {
        each.file for each in data_set.manifest.metadata
    }
    chosen: dict[str, ManifestFile] = {}
    for uri in visible:
        name = uri.removeprefix(f"{data_set.uri}/") if data_set.uri != "." else uri.removeprefix("./")
        name = name if name in by_name else f"{name}{_INNER}"
        if name in chosen:
            raise ValueError(f"{uri} is in the list twice.")
        if name in by_name:
            chosen[name] = by_name[name]
        elif uri.removeprefix(f"{data_set.uri}/") not in beside and not names.is_hidden(name):
            raise ValueError(f"{uri} isn't a shard of the data set {data_set.uri}, whose manifest has {len(by_name)} files.")
    return DataSet(data_set.uri, data_set.manifest, tuple(chosen.values()))


def _folders_above(uri: str) -> Iterator[str]:
    """Yields the folders above a file, the nearest first."""
    parts = urlsplit(uri) if "://" in uri else None
    root = f"{parts.scheme}://{parts.netloc}" if parts else ""
    path = uri.removeprefix(root)
    while "/" in path:
        path = path.rpartition("/")[0]
        yield f"{root}{path}" or "/"
    if not uri.startswith("/") and not root:
        yield "."


def _limit_to_one(data_set: DataSet, split: str | Sequence[str] | None) -> DataSet:
    """Returns the shards of the split. If there are several splits, `split` is required, so that nobody trains on test data by accident."""
    if split is None and len(data_set.manifest.splits) > 1:
        raise ValueError(
            f"{data_set.uri} has the splits {_split_names(data_set)}: select one, for example split={data_set.manifest.splits[0].name!r}."
        )
    return _limit_to(data_set, split)


def _limit_to(data_set: DataSet, split: str | Sequence[str] | None) -> DataSet:
    if split is None:
        return data_set
    names_of_splits = [split] if isinstance(split, str) else list(split)
    existing = {each.name for each in data_set.manifest.splits}
    for name in names_of_splits:
        if name not in existing:
            raise ValueError(f"{data_set.uri} has no split {name!r}: it has {_split_names(data_set)}.")
    files = tuple(file for name in names_of_splits for file in data_set.files if file.split == name)
    if data_set.files and not files and len(data_set.files) < len(data_set.manifest.files):
        raise ValueError(f"None of these {len(data_set.files)} files of {data_set.uri} belongs to the split {names_of_splits[0]!r}.")
    return DataSet(data_set.uri, data_set.manifest, files)


def _split_names(data_set: DataSet) -> str:
    return ", ".join(split.name for split in data_set.manifest.splits)
