"""Drafts the fields of a source from the files below a URI. There is a function for each kind of source that needs more than the URI."""

import os
import re
from collections.abc import Sequence
from contextlib import closing
from dataclasses import dataclass, field
from typing import Any, Final

from dataprep_api import names
from dataprep_api.spec import Source
from dataprep_api.spec.sources.images import IMAGE_EXTENSIONS
from dataprep_api.spec.splits import MOST_SPLITS
from dataprep_converter.core.errors import BadData, BadSpec
from dataprep_converter.inputs.access import Access
from dataprep_converter.inputs.compressions import MAGIC_BYTES, compression_of
from dataprep_converter.inputs.pinned import ForwardReader
from dataprep_converter.readers import READERS
from dataprep_converter.readers.foreign.mds import INDEX
from dataprep_converter.readers.text.csv_cells import Dialect
from dataprep_converter.stores import Entry
from dataprep_converter.tools.infer.csv_layout import layout_of, notes_on
from dataprep_converter.tools.infer.csv_types import body_of, types_of
from dataprep_converter.tools.infer.file_types import extension
from dataprep_converter.tools.infer.missing_words import missing_words
from dataprep_converter.tools.infer.missing_words import notes_on as notes_on_words
from dataprep_converter.tools.infer.text_heads import HEAD_BYTES, text_of

HEADS: Final = 3
"""For each extension, the number of files whose first bytes are read."""
_ROWS_BYTES: Final = 4 << 20
"""Number of bytes of a CSV file that are searched for missing-value words."""
_MOST_URIS: Final = 64
_SUBSETS: Final = {
    "train": "train", "training": "train", "val": "validation", "valid": "validation", "validation": "validation", "dev": "validation",
    "test": "test", "testing": "test", "t10k": "test",
}  # fmt: skip


@dataclass(frozen=True)
class File:
    """A file below the URI."""

    path: str
    entry: Entry


@dataclass(frozen=True)
class Listing:
    """The files below the URI."""

    kind: str
    files: Sequence[File]
    chosen_files: Sequence[File]
    """The files of this kind."""

    def uris(self, uri: str) -> list[str]:
        """Returns the URI itself if all files below it are of the chosen kind.

        Otherwise returns a glob for each extension of that kind, and the URI of each file without an extension.
        """
        if len(self.files) == len(self.chosen_files):
            return [uri]
        others = [file.entry.uri for file in self.chosen_files if not extension(file.path)]
        names = [file.path.rpartition("/")[2] for file in self.chosen_files]
        endings = sorted({name[name.lower().rindex("." + extension(name)) :] for name in names if extension(name)})
        uris = [*(f"{uri.rstrip('/')}/**/*{ending}" for ending in endings), *others]
        return uris if len(uris) <= _MOST_URIS else [uri]


@dataclass
class Draft:
    """A source, with notes for the user."""

    kind: str
    source: dict[str, Any]
    spec: dict[str, Any] = field(default_factory=dict)
    """Other fields of the spec: features, labels."""
    notes: list[str] = field(default_factory=list)

    @property
    def name(self) -> str:
        """The member of `spec.source`, as spelled in YAML."""
        return Source.model_fields[self.kind].alias or self.kind


def head_of(file: File, access: Access, *, most: int = HEAD_BYTES) -> bytes:
    """Returns the first `most` bytes of the file's decompressed content."""
    with access.store(file.entry.uri).open(file.entry.uri) as source:
        compression = compression_of(source.read_at(0, MAGIC_BYTES))
        if compression is None:
            return source.read_at(0, min(most, file.entry.size))
        with closing(ForwardReader(source, file.entry.uri, compression=compression)) as contents:
            return contents.read(most)


def add_encoding(draft: Draft, chosen_files: Sequence[File], access: Access) -> None:
    """Sets the files' encoding, except UTF-8 and encodings given by a byte order mark. Raises BadSpec if the files' encodings differ."""
    texts = [(file, text) for file in chosen_files[:HEADS] if (text := text_of(head_of(file, access))) is not None and not text.is_marked]
    # Files with only ASCII characters fit every encoding except UTF-16.
    telling = [(file, text) for file, text in texts if text.encoding != "Utf8" or text.sample]
    if not telling or {text.encoding for _, text in telling} == {"Utf8"}:
        return
    encodings = {text.encoding for _, text in telling}
    encodings = encodings - {"Latin1"} if "Windows1252" in encodings else encodings
    if len(encodings) > 1:
        found = ", ".join(f"{file.entry.uri} seems to be {text.encoding}" for file, text in telling)
        raise BadSpec(
            f"The files have different encodings, but a job can have only one: {found}. Convert the files, or give each encoding its own job."
        )
    (encoding,) = encodings
    if draft.kind == "libsvm":
        raise BadSpec(
            f"{telling[0][0].entry.uri} seems to be {encoding} without a byte order mark, but libsvm files must be UTF-8; convert the file."
        )
    draft.source["encoding"] = encoding
    example = next((text.sample for _, text in telling if text.sample), "")
    shown = f", so the text has words such as {example}" if example else ""
    draft.notes.append(f"the text isn't UTF-8 and is read as {encoding}{shown}; correct source.{draft.name}.encoding if this is wrong")


def by_uri(uri: str, listing: Listing, access: Access) -> Draft:  # noqa: ARG001 - all such functions have the same signature
    """Drafts a source that needs only the URI."""
    return Draft(listing.kind, {"uris": listing.uris(uri)})


def by_folder(uri: str, listing: Listing, access: Access) -> Draft:  # noqa: ARG001 - all such functions have the same signature
    """Drafts a source that itself ignores files of other kinds."""
    return Draft(listing.kind, {"uris": [uri]})


def mds_of(uri: str, files: Sequence[File], access: Access) -> Draft | None:
    """Drafts the source `mds` if the files include an MDSWriter index, otherwise returns None."""
    indexes = [file for file in files if file.path.rpartition("/")[2] == INDEX]
    for file in sorted(indexes, key=lambda index: index.path.count("/"))[:HEADS]:
        head = head_of(file, access)
        # The head may contain only the beginning of the index, which describes the first shard.
        if b'"shards"' in head and b'"mds"' in head:
            return Draft("mds", {"uris": [uri.removesuffix(f"/{INDEX}")]})
    return None


def _lines_of(file: File, access: Access) -> bytes:
    """Returns the first rows of a CSV file as UTF-8."""
    head = head_of(file, access, most=_ROWS_BYTES)
    text = text_of(head)
    return text.lines if text is not None else head


def whole_rows(lines: bytes, delimiter: str, *, most: int) -> bytes:
    """Returns the rows, leaving out the last one if it is cut off within a quoted cell.

    Only a CSV file of more than `most` bytes is cut off.
    """
    return lines if len(lines) < most // 2 else lines[: Dialect(delimiter, '"').rows(lines, at_end=False).size] or lines


def _csv(uri: str, listing: Listing, access: Access) -> Draft:
    lines = _lines_of(listing.chosen_files[0], access)
    layout = layout_of(lines[:HEAD_BYTES])
    source: dict[str, Any] = {"uris": listing.uris(uri)}
    if layout.delimiter != ",":
        source["delimiter"] = layout.delimiter
    skipped = layout.lines_above or (1 if layout.first_is_foreign else 0)
    if skipped:
        source["skipLines"] = skipped
    if layout.header:
        source["header"] = True
    form: dict[str, Any] = {"delimiter": layout.delimiter, "skip_lines": skipped, "header": layout.header}
    lines = whole_rows(lines, layout.delimiter, most=_ROWS_BYTES)
    names = body_of(lines, **form).names
    others = {
        file.entry.uri: body_of(whole_rows(_lines_of(file, access), layout.delimiter, most=_ROWS_BYTES), **form)
        for file in listing.chosen_files[1:HEADS]
    }
    more = b"".join(body.rows for body in others.values() if body.names == names)
    words = missing_words(lines.rstrip(b"\n") + b"\n" + more, **form)
    found = types_of(lines, words, more=more, **form)
    types = [] if found is None else list(found.types.items())
    if found is not None and layout.short_header:
        types = [(name, kind) for name, (_, kind) in zip(layout.short_header, types, strict=True)]
        words = {layout.short_header[int(at)]: each for at, each in words.items()}
    if found is not None and (layout.short_header or found.must_be_listed):
        source["columns"] = [{"name": name, "type": kind} for name, kind in types]
    if words:
        source["nullWordsOf"] = words
    notes = [*notes_on(layout), *notes_on_words(words), *(found.notes() if found is not None else ())]
    differ = [uri for uri, body in others.items() if body.names is not None and body.names != names]
    notes += [
        f"check: the header of {each} has different columns from {listing.chosen_files[0].entry.uri}, or a different column order"
        for each in differ
    ]
    return Draft(listing.kind, source, notes=notes)


def _images(uri: str, listing: Listing, access: Access) -> Draft:
    annotations = [file for file in listing.files if extension(file.path) == "xml"]
    if "annotated_images" in READERS and annotations and b"<annotation" in head_of(annotations[0], access):
        roots = {"images": _common_folder(uri, listing.chosen_files), "annotations": _common_folder(uri, annotations)}
        return Draft("annotated_images", {name: [root] for name, root in roots.items()} | {"format": "Voc"})
    folders = [file.path.split("/")[:-1] for file in listing.chosen_files]
    source: dict[str, Any] = {"uris": [uri]}
    if all(parts and parts[0].lower() in _SUBSETS for parts in folders):
        source["subsetFrom"] = "FirstFolder"
        folders = [parts[1:] for parts in folders]
    if not all(folders) or len({parts[-1] for parts in folders}) < 2:
        source["labelFrom"] = "None"
    found = {extension(file.path) for file in listing.chosen_files} - set(IMAGE_EXTENSIONS)
    if found:
        source["extensions"] = [*IMAGE_EXTENSIONS, *sorted(found)]
    return Draft(listing.kind, source)


def _common_folder(uri: str, files: Sequence[File]) -> str:
    common = os.path.commonpath([file.path.rpartition("/")[0] or "." for file in files]) if files else "."
    return uri.rstrip("/") if common in (".", "") else f"{uri.rstrip('/')}/{common}"


def _idx(uri: str, listing: Listing, access: Access) -> Draft:
    images: dict[str, File] = {}
    labels: dict[str, File] = {}
    for file in listing.chosen_files:
        head = head_of(file, access)
        if len(head) <= 3:
            raise BadData(
                f"{file.entry.uri} is not a complete IDX file: it holds {len(head)} bytes, and the header alone has 8.", uri=file.entry.uri
            )
        dimensions = head[3]
        pair = re.sub(r"(images?|labels?|idx\d)", "", file.path)
        (labels if dimensions == 1 else images).setdefault(pair, file)
    if not images:
        images, labels = labels, {}
    subsets = []
    for pair, file in images.items():
        word = re.split(r"[-_./]", file.path.rpartition("/")[2])[0]
        subset = {"name": _SUBSETS.get(word.lower()) or names.split_name(word) or "part", "images": file.entry.uri}
        subsets.append(subset | ({"labels": labels[pair].entry.uri} if pair in labels else {}))
    if len(subsets) > MOST_SPLITS:
        raise BadSpec(
            f"{uri} holds {len(subsets):,} IDX files of records, and source.idx takes at most {MOST_SPLITS}: select fewer with a glob.",
            uri=uri,
        )
    subsets.sort(key=lambda subset: str(subset["name"]) != "train")
    if len({subset["name"] for subset in subsets}) < len(subsets):
        subsets = [subset | {"name": f"part{number}"} for number, subset in enumerate(subsets)]
    return Draft(listing.kind, {"subsets": subsets})


def _numpy(uri: str, listing: Listing, access: Access) -> Draft:
    """Drafts a source for NumPy files.

    Several .npy files with the same number of entries become columns of the same records. Otherwise, each file holds different records.
    """
    arrays = {
        file.path.rpartition("/")[2].removesuffix(".npy"): file.entry.uri for file in listing.chosen_files if file.path.endswith(".npy")
    }
    are_columns = 1 < len(arrays) == len(listing.chosen_files) <= 64 and len({_entries(file, access) for file in listing.chosen_files}) == 1
    return Draft(listing.kind, {"arrays": arrays} if are_columns else {"uris": listing.uris(uri)})


def _entries(file: File, access: Access) -> int:
    """Returns the first dimension of a .npy file, from its header."""
    shape = re.search(rb"'shape': \((\d*)", head_of(file, access)[:4096])
    return int(shape[1] or 0) if shape else 0


DRAFTS: Final = {"csv": _csv, "images": _images, "idx": _idx, "numpy": _numpy, "webdataset": by_folder}
"""Functions for sources that need more fields than the URI."""
