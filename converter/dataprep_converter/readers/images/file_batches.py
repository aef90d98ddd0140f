"""Reads images from FileBatch files, which are DL4J's zip files of unmodified files. The class of an image comes from its original URI.

`formats/archives/file_batch_encoder.py` shows the layout of a FileBatch file.
"""

import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Final
from urllib.parse import unquote

from dataprep_converter.core.errors import BadData, BadSpec
from dataprep_converter.formats.archives.file_batch_encoder import URIS
from dataprep_converter.inputs.access import Access
from dataprep_converter.inputs.archive_uris import split_archive_uri
from dataprep_converter.readers.images.image_listing import IgnoredFiles, extension_of, folders_of_images
from dataprep_converter.sampling.units import Files
from dataprep_converter.stores import Entry

LARGEST_LIST: Final = 64 << 20
_NAME: Final = re.compile(r"file_([0-9]{1,9})\..+")
_BEFORE_A_PATH: Final = re.compile(r"[A-Za-z][A-Za-z0-9+.-]*:(//[^/]*)?")


def images_of_batches(
    access: Access, uris: Sequence[str], *, extensions: Sequence[str], recursive: bool, subset_from: str, ignored: IgnoredFiles
) -> Iterator[Files]:
    """Yields the images of all zip files at the URIs. Within a zip file, images are ordered by the numbers in their names. `extras`
    contains the names of the images' original folders.

    `ignored` counts files that aren't zip files, and members of zip files whose names have none of the extensions. Only the member's own
    name counts, not its original URI. Raises NotFound for a URI without files, and BadData for a zip file that isn't a FileBatch.
    """
    for uri in uris:
        if split_archive_uri(uri) is not None:
            raise BadSpec(f"{uri}: labelFrom: OriginalUri reads FileBatch files; name a zip file, or a folder of zip files.", uri=uri)
    folders = folders_of_images(access, uris, extensions=["zip"], recursive=recursive, subset_from=subset_from, ignored=ignored)
    for batches in folders:
        files = batches.files
        for path, uri in zip(files.paths, files.uris, strict=True):
            images = _images(access, uri, extensions, ignored)
            entries = [entry for entry, _ in images]
            yield Files(
                root=files.root,
                paths=[path + entry.uri.removeprefix(uri) for entry in entries],
                uris=[entry.uri for entry in entries],
                sizes=[entry.size for entry in entries],
                pins=[entry.pin for entry in entries],
                subsets=[batches.subset] * len(images),
                extras=[label for _, label in images],
            )


def _images(access: Access, uri: str, extensions: Sequence[str], ignored: IgnoredFiles) -> list[tuple[Entry, str]]:
    """The (file, class) of each image in a zip file."""
    within = f"{uri}!/"
    members = {entry.uri.removeprefix(within): entry for entry in access.store(within).list(within)}
    originals = _originals(access, uri, members)
    names = {int(match[1]): name for name in members if (match := _NAME.fullmatch(name))}
    if len(names) != len(members) - 1 or set(names) != set(range(len(originals))):
        raise BadData(
            f"{uri} is not a FileBatch: {URIS} has {len(originals):,} line{'s' * (len(originals) != 1)}; expected one member file_<n> for each line, but the "
            f"other {len(members) - 1:,} members don't match.",
            uri=uri,
        )
    numbers = [number for number in range(len(originals)) if extension_of(names[number]) in extensions]
    ignored.count += len(originals) - len(numbers)
    return [(members[names[number]], _folder(originals[number], where=f"{uri}: line {number + 1} of {URIS}")) for number in numbers]


def _originals(access: Access, uri: str, members: Mapping[str, Entry]) -> list[str]:
    """The original URIs of the files in a zip file."""
    entry = members.get(URIS)
    if entry is None:
        raise BadData(f"{uri} is not a FileBatch: it has no {URIS} (labelFrom: OriginalUri).", uri=uri)
    if entry.size > LARGEST_LIST:
        raise BadData(f"{uri}: its {URIS} has {entry.size:,} bytes; the limit is {LARGEST_LIST >> 20} MiB.", uri=uri)
    try:
        text = access.store(entry.uri).get(entry.uri).decode()
    except UnicodeDecodeError as exc:
        raise BadData(f"{uri}: its {URIS} is not UTF-8 at byte {exc.start}.", uri=uri) from exc
    return text.removesuffix("\n").split("\n") if text else []


def _folder(original: str, *, where: str) -> str:
    """The name of the folder that contains the file with this URI or path. If the file is in no folder, raises BadData, which names
    `where`."""
    path = _BEFORE_A_PATH.sub("", original.rstrip("\r"), count=1)
    try:
        folder = unquote(path.rpartition("/")[0].rpartition("/")[2], errors="strict")
    except UnicodeDecodeError:
        folder = ""
    if not folder:
        raise BadData(f"{where}, {original!r}, contains no folder name to use as the class (labelFrom: OriginalUri).")
    return folder
