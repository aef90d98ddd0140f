"""Which images a source holds: folders, globs and files filtered by extension, and the subset of each."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from dataprep_converter.access import Access, Entry
from dataprep_converter.errors import BadSpec
from dataprep_converter.readers.inputs import is_hidden, relative_path
from dataprep_converter.readers.listing import input_files


@dataclass(frozen=True, slots=True)
class ListedFile:
    """One image, or a file that belongs to one."""

    root: int
    """Index of the URI in the source's list."""
    path: str
    """Path below that URI, in UTF-8."""
    entry: Entry
    subset: str
    folders: Sequence[str]
    """Folders below the subset's, that of the file last. For a file or a glob, at least the folder that the file lies in."""


def images_below(
    access: Access,
    uris: Sequence[str],
    *,
    extensions: Sequence[str],
    recursive: bool,
    subset_from: str,
    state: dict[str, Any],
) -> Iterator[ListedFile]:
    """The images in the order of the URIs and, within one, of the paths. Other files are counted in `state["ignored"]`.

    Raises NotFound for a URI that names nothing, BadSpec for an image that is in no subset.
    """
    state.setdefault("ignored", 0)
    found = input_files(access, uris) if recursive else _flat(access, uris)
    for root, path, entry in found:
        if extension_of(path) not in extensions:
            state["ignored"] += 1
            continue
        folders = _folders(uris[root], path, entry)
        yield listed(root, path, entry, folders=folders, uri=uris[root], subset_from=subset_from)


def listed(root: int, path: str, entry: Entry, *, folders: Sequence[str], uri: str, subset_from: str) -> ListedFile:
    """The file with its subset. Raises BadSpec when no folder names it."""
    subset = ""
    if subset_from == "Root":
        subset = uri.rstrip("/").rpartition("/")[2]
    elif subset_from == "FirstFolder":
        if not folders:
            raise BadSpec(f"{entry.uri} lies in no folder that could name its subset (subsetFrom: FirstFolder).")
        subset, *folders = folders
    return ListedFile(root, path, entry, subset, folders)


def extension_of(path: str) -> str:
    """Extension in lower case without the dot; empty when there is none."""
    _, dot, extension = path.rpartition("/")[2].rpartition(".")
    return extension.lower() if dot else ""


def _flat(access: Access, uris: Sequence[str]) -> Iterator[tuple[int, str, Entry]]:
    """Like `input_files`, but only of the folders themselves."""
    for root, uri in enumerate(uris):
        is_folder = False
        for entry in access.store(uri).list(uri, recursive=False):
            is_folder = True
            path = relative_path(uri, entry.uri)
            if not is_hidden(path):
                yield root, path, entry
        if not is_folder:
            yield from ((root, path, entry) for _, path, entry in input_files(access, [uri]) if not _is_below(uri, entry.uri))


def _folders(uri: str, path: str, entry: Entry) -> list[str]:
    folders = path.split("/")[:-1]
    if folders or _is_below(uri, entry.uri):
        return folders
    return [name for name in entry.uri.split("/")[-2:-1] if name]


def _is_below(folder: str, uri: str) -> bool:
    return uri.startswith(folder.rstrip("/") + "/")
