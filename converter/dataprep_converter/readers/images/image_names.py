"""Finds images below a folder by their file names, with or without the extension. Used for lists that give names instead of paths."""

from dataprep_api.spec import ImagesSource
from dataprep_converter.core.errors import BadSpec
from dataprep_converter.inputs.access import Access
from dataprep_converter.inputs.pinned import is_hidden
from dataprep_converter.readers.images.image_listing import IgnoredFiles, ImagesOfFolder, ListedFile, extension_of, folders_of_images
from dataprep_converter.stores import Entry


class ImagesByName:
    """The images below a folder. The names of all images are held in memory, at about 300 bytes per image."""

    def __init__(self, access: Access, source: ImagesSource, *, root: str, has_extensions: bool, list_uri: str) -> None:
        """Lists the images. `has_extensions` says whether the names in the list have extensions. Raises NotFound for an empty folder."""
        self._list_uri = list_uri
        self._ignored = IgnoredFiles()
        self._images: dict[str, tuple[ImagesOfFolder, int]] = {}
        self._twice: dict[str, str] = {}
        """Maps each name that several images have to the URI of the second of these images."""
        self._found: set[str] = set()
        self._count = 0
        folders = folders_of_images(
            access,
            [root],
            extensions=source.extensions,
            recursive=source.recursive,
            subset_from=source.subset_from,
            ignored=self._ignored,
        )
        for images in folders:
            for place, name in enumerate(images.files.names):
                key = name if has_extensions else name.rpartition(".")[0]
                if key in self._images:
                    self._twice.setdefault(key, images.files.folder + name)
                else:
                    self._images[key] = (images, place)
                self._count += 1
        # If the list is in the same folder, the listing of the images counts the list as an ignored file; `ignored` subtracts it.
        below = list_uri.removeprefix(f"{root.rstrip('/')}/")
        self._lists = int(below != list_uri and not is_hidden(below) and extension_of(below) not in source.extensions)

    def find(self, name: str, place: str) -> ListedFile | None:
        """The image with the name, or None. Raises BadSpec if several images have the name. The message contains `place`."""
        if name in self._twice:
            images, at = self._images[name]
            raise BadSpec(
                f"{self._list_uri}, {place}: both {images.files.folder}{images.files.names[at]} and {self._twice[name]} have the name {name!r}; "
                "list paths, and set source.images.list.match: Path.",
                uri=self._list_uri,
            )
        if name not in self._images:
            return None
        self._found.add(name)
        images, at = self._images[name]
        files = images.files
        entry = Entry(files.folder + files.names[at], files.sizes[at], files.pins[at])
        return ListedFile(0, files.below + files.names[at], entry, images.subset, images.folders)

    def ignored(self) -> int:
        """The number of files below the folder that the list doesn't name."""
        return self._ignored.count - self._lists + self._count - len(self._found)
