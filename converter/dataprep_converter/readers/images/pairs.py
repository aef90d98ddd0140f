"""Pairs images with their partner files in another folder tree. Except for suffix and extension, an image and its partner have the same
relative path.

Each image is a unit. The unit's `extra` is a JSON object that has the partner's extension, size and pin, or the reason why the unit is a
bad sample.
"""

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Final

from dataprep_converter.core.errors import BadSample, BadSpec, NotFound
from dataprep_converter.inputs.access import Access
from dataprep_converter.readers.base.files_ahead import File, Row
from dataprep_converter.readers.base.listing import input_files
from dataprep_converter.readers.images.image_listing import IgnoredFiles, ListedFile, extension_of, images_below, listed
from dataprep_converter.sampling.units import Unit

_SHOWN: Final = 20


@dataclass(frozen=True, slots=True)
class Tree:
    """A folder tree of images or partners. The file names of an image and its partner differ at most in suffix and extension."""

    uris: Sequence[str]
    extensions: Sequence[str]
    suffix: str = ""
    """The suffix that each file name has before its extension."""

    def stem(self, path: str) -> str | None:
        """The part of a path that an image and its partner have in common.

        Returns None if the path lacks the tree's suffix or has none of the tree's extensions.
        """
        extension = extension_of(path)
        stem = path[: -1 - len(extension)]
        return stem.removesuffix(self.suffix) if extension in self.extensions and stem.endswith(self.suffix) else None


@dataclass(frozen=True, slots=True)
class Pair:
    """An image and its partner file, either of which can be missing."""

    image: ListedFile | None
    partner: ListedFile | None

    @property
    def present(self) -> ListedFile:
        """The image, or the partner if there is no image."""
        file = self.image or self.partner
        if file is None:
            raise ValueError("a pair without files")
        return file


@dataclass
class UnmatchedFiles:
    """Counts the images and partners without a counterpart, and keeps the first few as examples."""

    option: str
    """The path of the source in the spec, such as `source.masks`."""
    partner: str
    """The word for an image's partner in messages, such as `mask`."""
    policy: str
    images: int = 0
    """The number of images without a partner."""
    partners: int = 0
    """The number of partners without an image."""
    examples: list[str] = field(default_factory=list)

    def takes(self, pair: Pair) -> bool:
        """Whether an incomplete pair becomes a unit. An incomplete pair that doesn't become a unit is only counted."""
        if self.policy == "BadRecord" or (self.policy == "Empty" and pair.image is not None):
            return True
        self.add(pair.present.entry.uri, is_image=pair.image is not None)
        return False

    def add(self, uri: str, *, is_image: bool) -> None:
        """Counts a file that has no counterpart."""
        self.images += is_image
        self.partners += not is_image
        if len(self.examples) < _SHOWN:
            self.examples.append(uri)

    def conclude(self) -> list[str]:
        """For files without a counterpart, returns a warning if the policy is Skip.

        With any other policy, raises NotFound, which names the first of these files.
        """
        count = self.images + self.partners
        if not count:
            return []
        counts = f"images without {_a(self.partner)}: {self.images:,}, {self.partner}s without an image: {self.partners:,}"
        examples = ", ".join(self.examples) + (f" … and {count - len(self.examples)} more" if count > len(self.examples) else "")
        if self.policy == "Skip":
            return [f"left out ({counts}): {examples}"]
        raise NotFound(f"{self.option}.missing: {self.policy} ({counts}): {examples}", uri=self.examples[0])

    def reason(self, pair: Pair) -> str:
        """The reason why an incomplete pair is a bad sample."""
        return f"the image has no {self.partner}" if pair.image is not None else f"the {self.partner} has no image"


class Pairing:
    """Finds the pairs of files in two trees for the planner, and the files of a pair for workers."""

    def __init__(self, images: Tree, partners: Tree, folders: Sequence[str] = ()) -> None:
        """`folders` lists the partners' folders, which are known only after planning."""
        self._images = images
        self._partners = partners
        self.folders = list(folders)
        """For each URI, the folder of its partners. `pairs` fills this list."""

    def pairs(self, access: Access, *, subset_from: str, ignored: IgnoredFiles) -> Iterator[Pair]:
        """Yields the images with their partners, in the order of the URIs and, for each URI, sorted by path.

        The images of each URI are followed by the URI's partners that have no image. Only one URI's partners are held in memory at a time.
        Raises NotFound for a URI without files, and BadSpec for two files that have the same partner.
        """
        for root, (uri, partner_uri) in enumerate(zip(self._images.uris, self._partners.uris, strict=True)):
            partners, others = self._partners_at(access, root, partner_uri, subset_from)
            is_common = uri.rstrip("/") == partner_uri.rstrip("/")
            own = {partner.entry.uri for partner in partners.values()} if is_common else set()
            # If images and partners are in the same folder, the listing of the images counts the partners as ignored. Subtract them.
            counted_there = sum(extension_of(partner) not in self._images.extensions for partner in own)
            ignored.count += -counted_there if is_common else others
            image_uris: dict[str, str] = {}
            images = images_below(
                access, [uri], extensions=self._images.extensions, recursive=True, subset_from=subset_from, ignored=ignored
            )
            for image in images:
                stem = self._images.stem(image.path)
                if stem is None or image.entry.uri in own:
                    ignored.count += stem is None
                    continue
                if stem in image_uris:
                    raise BadSpec(
                        f"{image_uris[stem]} and {image.entry.uri} would both get the same annotation or mask; leave the "
                        "extension of one of them out of `extensions`."
                    )
                image_uris[stem] = image.entry.uri
                yield Pair(replace(image, root=root), partners.pop(stem, None))
            for partner in partners.values():
                yield Pair(None, partner)

    def _partners_at(self, access: Access, root: int, uri: str, subset_from: str) -> tuple[dict[str, ListedFile], int]:
        """The partners at a URI, and the number of files that are not partners. The key of each partner is the part of the
        path that the partner and its image have in common."""
        partners: dict[str, ListedFile] = {}
        folder, others = "", 0
        for _, path, entry in input_files(access, [uri]):
            folder = entry.uri.removesuffix(path)
            stem = self._partners.stem(path)
            if stem is None:
                others += 1
                continue
            if stem in partners:
                raise BadSpec(f"{partners[stem].entry.uri} and {entry.uri} would belong to the same image; leave out one of them.")
            partners[stem] = listed(root, path, entry, folders=path.split("/")[:-1], uri=uri, subset_from=subset_from)
        self.folders.append(folder)
        return partners, others

    def unit(self, pair: Pair, *, reason: str = "", **more: Any) -> Unit:
        """The unit of a pair. With a `reason`, the unit is a bad sample."""
        extra: dict[str, Any] = {"bad": reason} if reason else more
        if not reason and pair.partner is not None:
            entry = pair.partner.entry
            extra = {"extension": entry.uri.rpartition(".")[2], "size": entry.size, "pin": entry.pin, **more}
        return unit_of(pair, extra)

    def files(self, row: Row, extra: Mapping[str, Any]) -> list[File]:
        """The image and, if it has one, its partner."""
        if "bad" in extra:
            return []
        image = File(row["uri"], row["size"] - extra.get("size", 0), row["pin"])
        if "pin" not in extra:
            return [image]
        stem = self._images.stem(row["path"])
        uri = f"{self.folders[row['root']]}{stem}{self._partners.suffix}.{extra['extension']}"
        return [image, File(uri, extra["size"], extra["pin"])]


def unit_of(pair: Pair, extra: Mapping[str, Any]) -> Unit:
    """The unit of a pair, or of a file without a counterpart. The unit's size is the total size of its files."""
    main = pair.present
    size = sum(file.entry.size for file in (pair.image, pair.partner) if file is not None)
    return Unit(
        root=main.root,
        path=main.path,
        uri=main.entry.uri,
        records=1,
        size=size,
        pin=main.entry.pin,
        subset=main.subset,
        extra=json.dumps(extra, separators=(",", ":"), sort_keys=True) if extra else "",
    )


def extra_of(row: Row) -> dict[str, Any]:
    """The JSON object in a unit's `extra`. Empty if the unit's `extra` is empty."""
    extra: dict[str, Any] = json.loads(row["extra"]) if row["extra"] else {}
    return extra


def refuse_bad(extra: Mapping[str, Any]) -> None:
    """Raises BadSample if the planner marked the unit as bad."""
    if "bad" in extra:
        raise BadSample(extra["bad"])


def _a(noun: str) -> str:
    return f"an {noun}" if noun[0] in "aeiou" else f"a {noun}"
