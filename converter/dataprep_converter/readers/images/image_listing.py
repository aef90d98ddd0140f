"""Lists the images in a source's folders, globs and files, filters them by extension, and determines the subset of each image."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

from dataprep_converter.core.errors import BadSpec
from dataprep_converter.inputs.access import Access
from dataprep_converter.readers.base.listing import FilesOfFolder, hidden_files, input_folders, visible_files
from dataprep_converter.stores import Entry, folders_of


@dataclass(frozen=True, slots=True)
class ListedFile:
    """An image, or a file that belongs to an image."""

    root: int
    """The index, in the source's list of URIs, of the URI below which the file was found."""
    path: str
    """The path relative to the URI with the index `root`, in UTF-8."""
    entry: Entry
    subset: str
    folders: Sequence[str]
    """The names of the folders between the subset's folder and the file, outermost first. If the URI is a file or a glob, these names
    include at least the name of the file's folder."""


@dataclass(frozen=True, slots=True)
class ImagesOfFolder:
    """Some images of one folder, which have the same subset."""

    files: FilesOfFolder
    subset: str
    folders: Sequence[str]
    """The names of the folders; see `ListedFile`."""


@dataclass
class IgnoredFiles:
    """Counts the input files that the source doesn't read."""

    count: int = 0


def images_below(
    access: Access,
    uris: Sequence[str],
    *,
    extensions: Sequence[str],
    recursive: bool,
    subset_from: str,
    ignored: IgnoredFiles,
) -> Iterator[ListedFile]:
    """Yields the images in the order of the URIs and, for each URI, sorted by path. Files that have none of the extensions are counted in
    `ignored`.

    Raises NotFound for a URI without files, and BadSpec for an image without a subset.
    """
    folders = folders_of_images(access, uris, extensions=extensions, recursive=recursive, subset_from=subset_from, ignored=ignored)
    for images in folders:
        files = images.files
        for path, uri, size, pin in zip(files.paths, files.uris, files.sizes, files.pins, strict=True):
            yield ListedFile(files.root, path, Entry(uri, size, pin), images.subset, images.folders)


def folders_of_images(
    access: Access,
    uris: Sequence[str],
    *,
    extensions: Sequence[str],
    recursive: bool,
    subset_from: str,
    ignored: IgnoredFiles,
) -> Iterator[ImagesOfFolder]:
    """Like `images_below`, but yields groups of images from the same folder."""
    endings = tuple(f".{extension}" for extension in extensions)
    for folder in input_folders(access, uris) if recursive else _flat(access, uris):
        files = folder
        if not _all_end_alike(folder.names, endings):
            files = folder.only([name.endswith(endings) or extension_of(name) in extensions for name in folder.names])
        ignored.count += len(folder.names) - len(files.names)
        if files.names:
            uri = uris[files.root]
            subset, folders = _subset(files.folder + files.names[0], folders=_folders(uri, files), uri=uri, subset_from=subset_from)
            yield ImagesOfFolder(files, subset, folders)


def listed(root: int, path: str, entry: Entry, *, folders: Sequence[str], uri: str, subset_from: str) -> ListedFile:
    """The file with its subset. Raises BadSpec if the file is in no folder that names its subset."""
    return ListedFile(root, path, entry, *_subset(entry.uri, folders=folders, uri=uri, subset_from=subset_from))


def _subset(file: str, *, folders: Sequence[str], uri: str, subset_from: str) -> tuple[str, Sequence[str]]:
    """The subset of a file, and the folders between the subset's folder and the file."""
    if subset_from == "Root":
        return uri.rstrip("/").rpartition("/")[2], folders
    if subset_from != "FirstFolder":
        return "", folders
    if not folders:
        raise BadSpec(f"{file} isn't in a folder whose name could be its subset (subsetFrom: FirstFolder).")
    return folders[0], folders[1:]


def _all_end_alike(names: Sequence[str], endings: Sequence[str]) -> bool:
    """Whether all names end with the same one of the given endings. Searches all names as one string, which is faster than a loop."""
    text = "/".join([*names, ""])
    return any(text.count(f"{ending}/") == len(names) for ending in endings)


def extension_of(path: str) -> str:
    """The path's extension in lower case, without the dot. Empty if the path has no extension."""
    _, dot, extension = path.rpartition("/")[2].rpartition(".")
    return extension.lower() if dot else ""


def _flat(access: Access, uris: Sequence[str]) -> Iterator[FilesOfFolder]:
    """Like `input_folders`, but without the files in subfolders."""
    for root, uri in enumerate(uris):
        is_folder = False
        hidden = 0
        for all_files in folders_of(access.store(uri), uri, recursive=False):
            is_folder = True
            files = visible_files(all_files, folder=uri, root=root)
            hidden += hidden_files(all_files, files)
            yield files
        access.skipped.hidden[uri] = hidden
        if not is_folder:
            yield from (replace(files, root=root) for files in input_folders(access, [uri]) if not _is_below(uri, files.uris[0]))


def _folders(uri: str, files: FilesOfFolder) -> list[str]:
    folders = files.below.split("/")[:-1]
    if folders or _is_below(uri, files.folder):
        return folders
    return [name for name in files.folder.split("/")[-2:-1] if name]


def _is_below(folder: str, uri: str) -> bool:
    return uri.startswith(folder.rstrip("/") + "/")
