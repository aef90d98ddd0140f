"""Infers a job from the files below a URI. `file_types.py` detects the kind of source, and the source's reader determines the columns.

The effort is bounded: at most MOST_NAMES names are listed, and only the beginning of some files is read. In addition, the columns and first
records of one file are read; for images and IDX, all files are listed. The result is an ordinary, complete job that the user can change.
"""

import itertools
import os
import re
import tempfile
from collections import Counter
from collections.abc import Mapping, Sequence
from contextlib import ExitStack, closing
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

import numpy as np
import pyarrow as pa

from dataprep_api import API_VERSION, KIND, names
from dataprep_api.redaction import one_line
from dataprep_api.resources.job import DataPrepJob
from dataprep_api.spec import Feature, LabelFeature, Output, Source
from dataprep_api.spec.splits import MOST_SPLITS
from dataprep_converter.core.errors import BadData, BadSpec, NotFound, NotWhole
from dataprep_converter.core.redaction import yaml_text
from dataprep_converter.core.tensors import is_tensor, pc, shape_of, value_type
from dataprep_converter.dataset.output_folder import OutputFolder
from dataprep_converter.inputs.access import Access
from dataprep_converter.inputs.compressions import MAGIC_BYTES, compression_of, without_suffix
from dataprep_converter.inputs.pinned import ForwardReader
from dataprep_converter.pipeline.features import resolve
from dataprep_converter.readers import READERS, reader_class
from dataprep_converter.readers.base.listing import input_files
from dataprep_converter.readers.base.partitions import keys_of
from dataprep_converter.records.batch import SAMPLE
from dataprep_converter.sampling.units import UnitTable
from dataprep_converter.stores import Entry
from dataprep_converter.tools.csv_layout import layout_of, notes_on
from dataprep_converter.tools.file_types import extension, kind_of
from dataprep_converter.tools.text_heads import HEAD_BYTES, text_of

MOST_NAMES: Final = 100_000
_HEADS: Final = 3
"""For each extension, the number of files whose first bytes are read."""
_FIRST_RECORDS: Final = 1000
_MOST_CLASSES: Final = 100
_MOST_SHOWN: Final = 20
_NO_DATA: Final = (".md", ".rst", "LICENSE", "README")
"""Endings of the names of files that accompany data but are not data."""
_LABELS: Final = ("label", "labels", "class", "target", "category", "species", "y", "outcome")
_SUBSETS: Final = {
    "train": "train", "training": "train", "val": "validation", "valid": "validation", "validation": "validation", "dev": "validation",
    "test": "test", "testing": "test", "t10k": "test",
}  # fmt: skip
_OUTPUT: Final = Output(uri="dataset")
"""The default output. Columns that can't be stored in the format of this output are left out."""
_BY_HEAD: Final = frozenset({"csv", "jsonl", "text", "libsvm"})
"""Sources whose columns can be read from the beginning of a file."""
_WITH_PARTITIONS: Final = frozenset({"csv", "jsonl", "text", "parquet", "arrow"})
"""Sources that support Hive partitions."""
_BY_ALL: Final = frozenset({"images", "idx"})
"""Sources that are inspected completely, because listing the files or reading their headers is enough."""


@dataclass(frozen=True)
class _File:
    """A file below the URI."""

    path: str
    entry: Entry


@dataclass(frozen=True)
class _Listing:
    """The files below the URI."""

    kind: str
    files: Sequence[_File]
    chosen_files: Sequence[_File]
    """The files of this kind."""

    def uris(self, uri: str) -> list[str]:
        """Returns the URI itself if all its files are of the chosen kind, or else a glob for each extension of that kind."""
        if len(self.files) == len(self.chosen_files):
            return [uri]
        names = [file.path.rpartition("/")[2] for file in self.chosen_files]
        endings = sorted({name[name.lower().rindex("." + extension(name)) :] for name in names if extension(name)})
        return [f"{uri.rstrip('/')}/**/*{ending}" for ending in endings][:64] or [uri]


@dataclass
class _Draft:
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


def infer(uri: str, access: Access, *, output: str | None = None, stores: Sequence[Mapping[str, Any]] = ()) -> str:
    """Returns a job as YAML, with notes as comments. Raises NotFound for a URI without files, and BadSpec if the files can't be read."""
    draft = _from_data_set(uri, access) or _from_files(uri, access)
    spec = {"source": {draft.name: draft.source}, **draft.spec, "output": {"uri": output or _default_output(uri)}}
    document = {
        "apiVersion": API_VERSION,
        "kind": KIND,
        "metadata": {"name": _name_of(uri)},
        "spec": spec | ({"stores": [dict(store) for store in stores]} if stores else {}),
    }
    DataPrepJob.parse(document)
    comments = "".join(f"# {one_line(' '.join(note.split()))}\n" for note in draft.notes)
    return comments + yaml_text(document)


def _from_data_set(uri: str, access: Access) -> _Draft | None:
    """Returns the source for a finished data set of dataprep, or None for anything else."""
    if access.store(uri).stat(uri) is not None:
        return None  # A file isn't a data set. List nothing below a file's URI, because a web address may end in a signature.
    folder = OutputFolder(uri, access)
    try:
        success = folder.success()
    except NotWhole:
        return None  # a _SUCCESS of another program, such as Spark
    if success is None:
        return None
    manifest = folder.manifest(success)
    columns = ", ".join(feature["name"] for feature in manifest.features)
    size = (
        f"{manifest.records_out} record{'s' * (manifest.records_out != 1)} in {len(manifest.files)} file{'s' * (len(manifest.files) != 1)} "
        f"of the format {manifest.format}"
    )
    return _Draft("dataset", {"uri": uri, "digest": manifest.digest}, notes=[f"{uri}: a finished data set, {size}", f"columns: {columns}"])


def _from_files(uri: str, access: Access) -> _Draft:
    files = [
        _File(path, entry)
        for _, path, entry in itertools.islice(input_files(access, [uri]), MOST_NAMES)
        if entry.size and not path.endswith(_NO_DATA)
    ]
    if not files:
        raise NotFound(f"{uri} has only empty files.", uri=uri)
    kind, chosen_files = _most_common_kind(files, access)
    draft = _DRAFTS.get(kind, _by_uri)(uri, _Listing(kind, files, chosen_files), access)
    if kind in _WITH_PARTITIONS and "=" not in uri and _are_partitions(chosen_files):
        draft.source["hivePartitions"] = "Infer"
    if kind in _BY_HEAD:
        _add_encoding(draft, chosen_files, access)
    draft.notes = [*_overview(uri, draft, files, chosen_files), *draft.notes]
    _add_contents(draft, chosen_files, access)
    return draft


def _most_common_kind(files: Sequence[_File], access: Access) -> tuple[str, list[_File]]:
    """Returns the most common kind of source, and its files. The kind of each extension is detected from a few of its files."""
    kinds: dict[str, str] = {}
    for ending, group in itertools.groupby(sorted(files, key=lambda file: extension(file.path)), key=lambda file: extension(file.path)):
        seen = Counter(kind_of(file.path, _head(file, access)) for file in itertools.islice(group, _HEADS))
        kinds[ending] = next((kind for kind, _ in seen.most_common() if kind in READERS), "whole_file")
    # A more specific kind takes precedence over whole_file, even if most files fit only whole_file.
    counts = Counter(kinds[extension(file.path)] for file in files)
    kind = max(counts, key=lambda each: (each != "whole_file", counts[each]))
    if kind not in READERS:
        raise BadSpec(f"{files[0].entry.uri} can't be read by a built-in source; use a reader plugin.")
    return kind, [file for file in files if kinds[extension(file.path)] == kind]


def _add_encoding(draft: _Draft, chosen_files: Sequence[_File], access: Access) -> None:
    """Sets the encoding of the files, unless they are UTF-8 or a mark names it. Raises BadSpec if the files have several encodings."""
    texts = [(file, text) for file in chosen_files[:_HEADS] if (text := text_of(_head(file, access))) is not None and not text.is_marked]
    # Files with only ASCII characters fit every encoding except UTF-16.
    telling = [(file, text) for file, text in texts if text.encoding != "Utf8" or text.sample]
    if not telling or {text.encoding for _, text in telling} == {"Utf8"}:
        return
    encodings = {text.encoding for _, text in telling}
    encodings = encodings - {"Latin1"} if "Windows1252" in encodings else encodings
    if len(encodings) > 1:
        found = ", ".join(f"{file.entry.uri} seems to be {text.encoding}" for file, text in telling)
        raise BadSpec(
            f"The files have different encodings, and a job has one: {found}. Convert the files, or give each encoding its own job."
        )
    (encoding,) = encodings
    if draft.kind == "libsvm":
        raise BadSpec(
            f"{telling[0][0].entry.uri} seems to be {encoding} without a byte order mark, and libsvm files are UTF-8: convert it."
        )
    draft.source["encoding"] = encoding
    example = next((text.sample for _, text in telling if text.sample), "")
    shown = f", so the text has words such as {example}" if example else ""
    draft.notes.append(f"the text isn't UTF-8 and is read as {encoding}{shown}; correct source.{draft.name}.encoding if this is wrong")


def _are_partitions(files: Sequence[_File]) -> bool:
    """Whether all files are in folders named `KEY=VALUE`, with the same keys for all files."""
    try:
        keys = {frozenset(name for name, _ in keys_of("", file.path, file.entry.uri)) for file in files}
    except BadSpec:
        return False
    return len(keys) == 1 and all(keys)


def _head(file: _File, access: Access) -> bytes:
    """Returns the first bytes of the file's decompressed content."""
    with access.store(file.entry.uri).open(file.entry.uri) as source:
        compression = compression_of(source.read_at(0, MAGIC_BYTES))
        if compression is None:
            return source.read_at(0, min(HEAD_BYTES, file.entry.size))
        with closing(ForwardReader(source, file.entry.uri, compression=compression)) as contents:
            return contents.read(HEAD_BYTES)


def _overview(uri: str, draft: _Draft, files: Sequence[_File], chosen_files: Sequence[_File]) -> list[str]:
    more = "more than " if len(files) >= MOST_NAMES else ""
    size = sum(file.entry.size for file in chosen_files)
    notes = [f"{uri}: {more}{len(chosen_files):,} file{'s' * (len(chosen_files) != 1)} for source.{draft.name}, {size:,} bytes"]
    chosen_paths = {file.path for file in chosen_files}
    other_endings = Counter(extension(file.path) or "no extension" for file in files if file.path not in chosen_paths)
    if other_endings:
        counts = (f"{count:,} file{'s' * (count != 1)} with {ending}" for ending, count in other_endings.most_common(5))
        notes.append(f"not included:  {', '.join(counts)}")
    return notes


# --- the source's fields ------------------------------------------------------------------------------------------


def _by_uri(uri: str, listing: _Listing, access: Access) -> _Draft:  # noqa: ARG001 - all such functions have the same signature
    return _Draft(listing.kind, {"uris": listing.uris(uri)})


def _csv(uri: str, listing: _Listing, access: Access) -> _Draft:
    head = _head(listing.chosen_files[0], access)
    text = text_of(head)
    layout = layout_of(text.lines if text is not None else head)
    source: dict[str, Any] = {"uris": listing.uris(uri)}
    if layout.delimiter != ",":
        source["delimiter"] = layout.delimiter
    skipped = layout.lines_above or (1 if layout.first_is_foreign else 0)
    if skipped:
        source["skipLines"] = skipped
    if layout.header:
        source["header"] = True
    return _Draft(listing.kind, source, notes=list(notes_on(layout)))


def _images(uri: str, listing: _Listing, access: Access) -> _Draft:
    annotations = [file for file in listing.files if extension(file.path) == "xml"]
    if "annotated_images" in READERS and annotations and b"<annotation" in _head(annotations[0], access):
        roots = {"images": _common_folder(uri, listing.chosen_files), "annotations": _common_folder(uri, annotations)}
        return _Draft("annotated_images", {name: [root] for name, root in roots.items()} | {"format": "Voc"})
    folders = [file.path.split("/")[:-1] for file in listing.chosen_files]
    source: dict[str, Any] = {"uris": [uri]}
    if all(parts and parts[0].lower() in _SUBSETS for parts in folders):
        source["subsetFrom"] = "FirstFolder"
        folders = [parts[1:] for parts in folders]
    if not all(folders) or len({parts[-1] for parts in folders}) < 2:
        source["labelFrom"] = "None"
    return _Draft(listing.kind, source)


def _common_folder(uri: str, files: Sequence[_File]) -> str:
    common = os.path.commonpath([file.path.rpartition("/")[0] or "." for file in files]) if files else "."
    return uri.rstrip("/") if common in (".", "") else f"{uri.rstrip('/')}/{common}"


def _idx(uri: str, listing: _Listing, access: Access) -> _Draft:
    images: dict[str, _File] = {}
    labels: dict[str, _File] = {}
    for file in listing.chosen_files:
        head = _head(file, access)
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
    return _Draft(listing.kind, {"subsets": subsets})


def _numpy(uri: str, listing: _Listing, access: Access) -> _Draft:
    """Drafts a source of numpy files.

    Several .npy files with the same number of entries become columns of the same records. Otherwise they hold different records.
    """
    arrays = {
        file.path.rpartition("/")[2].removesuffix(".npy"): file.entry.uri for file in listing.chosen_files if file.path.endswith(".npy")
    }
    are_columns = 1 < len(arrays) == len(listing.chosen_files) <= 64 and len({_entries(file, access) for file in listing.chosen_files}) == 1
    return _Draft(listing.kind, {"arrays": arrays} if are_columns else {"uris": listing.uris(uri)})


def _entries(file: _File, access: Access) -> int:
    """Returns the first dimension of a .npy file, from its header."""
    shape = re.search(rb"'shape': \((\d*)", _head(file, access)[:4096])
    return int(shape[1] or 0) if shape else 0


_DRAFTS: Final = {"csv": _csv, "images": _images, "idx": _idx, "numpy": _numpy}
"""Functions for sources that need more fields than the URI."""


# --- contents -----------------------------------------------------------------------------------------------------


def _add_contents(draft: _Draft, chosen_files: Sequence[_File], access: Access) -> None:
    """Reads the first records, adds notes on columns, classes and these records, and guesses the label."""
    with tempfile.TemporaryDirectory(prefix="dataprep-") as folder, ExitStack() as resources:
        source = Source.model_validate({draft.name: draft.source | _probe(draft, chosen_files[0], Path(folder), access)})
        reader_type = reader_class(draft.kind)
        units, state = reader_type.discover(source.member, access).collect()
        reader = resources.enter_context(reader_type(source.member, state, access))
        samples = np.arange(min(_FIRST_RECORDS, units.samples), dtype=np.int64)
        batch = next(iter(reader.read(units, iter([samples]))), None) if len(samples) else None
        schema = reader.schema()
        columns = [name for name in schema.names if name != SAMPLE]
        for name in columns[:_MOST_SHOWN]:
            draft.notes.append(f"column {name}: {_type_text(schema.field(name).type)}")
        if len(columns) > _MOST_SHOWN:
            draft.notes.append(f"… and {len(columns) - _MOST_SHOWN} more columns")
        for name, classes in reader.classes().items():
            first_classes = ", ".join(classes[:_MOST_SHOWN]) + (", …" if len(classes) > _MOST_SHOWN else "")
            draft.notes.append(f"classes of {name}: {len(classes)} ({first_classes})")
        if draft.kind in _BY_ALL or draft.kind == "annotated_images":
            draft.notes.append(f"{units.samples:,} record{'s' * (units.samples != 1)}{_count_by_subset(units)}")
        if batch is not None and batch.bad:
            reason = batch.bad[0].reason
            draft.notes.append(f"{len(batch.bad)} of the first {len(samples):,} records don't fit, the first: {reason}; see onBadRecord")
        _choose_columns(draft, schema, columns, reader_type.default_label, batch.records if batch is not None else None)
        resolve(
            [Feature.model_validate(feature) for feature in draft.spec["features"]] if "features" in draft.spec else None,
            [LabelFeature.model_validate(label) for label in draft.spec["labels"]] if "labels" in draft.spec else None,
            schema=schema,
            default_label=reader_type.default_label,
            output=_OUTPUT,
        )


def _probe(draft: _Draft, first: _File, folder: Path, access: Access) -> dict[str, Any]:
    """Returns fields that restrict the source to less data with the same columns."""
    if draft.kind in _BY_HEAD:
        head = _head(first, access)
        *above, name = first.path.split("/")
        partitions = [part for part in above if "=" in part] if "hivePartitions" in draft.source else []
        copy = folder.joinpath(*partitions, without_suffix(name))
        copy.parent.mkdir(parents=True, exist_ok=True)
        text = text_of(head)
        copy.write_bytes(text.lines if text is not None else head)
        return {"uris": [str(copy)]} | ({"encoding": "Utf8"} if "encoding" in draft.source else {})
    return {"uris": [first.entry.uri]} if "uris" in draft.source and draft.kind not in _BY_ALL else {}


def _type_text(kind: pa.DataType) -> str:
    return f"{value_type(kind)}{list(shape_of(kind))}" if is_tensor(kind) else str(kind)


def _count_by_subset(units: UnitTable) -> str:
    counts: dict[str, int] = {}
    for row in units.table.select(["subset", "records"]).to_pylist():
        counts[str(row["subset"])] = counts.get(str(row["subset"]), 0) + int(row["records"])
    parts = [f"{subset} {count:,}" for subset, count in counts.items() if subset]
    return f": {', '.join(parts)}" if parts else ""


def _choose_columns(draft: _Draft, schema: pa.Schema, columns: Sequence[str], default_label: str, records: pa.RecordBatch | None) -> None:
    """Picks the label by name, or the last column if the columns have no names.

    Lists the features if some columns can't be written, or if unnamed columns of numbers should form one feature.
    """
    writable = [name for name in columns if _can_be_written(name, schema)]
    label = next((name for label_name in _LABELS for name in writable if name.lower() == label_name), None)
    unnamed = draft.kind == "csv" and columns == [str(number) for number in range(len(columns))]
    if unnamed and len(columns) > 1 and pa.types.is_integer(schema.field(columns[-1]).type) and _class_values(records, columns[-1]):
        label = columns[-1]
    if label is not None and label != default_label:
        draft.spec["labels"] = [{"name": "label", "columns": ["-1"]}] if unnamed else [{"name": label}]
    if label is not None and label in columns and (values := _class_values(records, label)):
        draft.notes.append(f"guessed label: column {label} ({len(values)} values in the first records: {', '.join(values[:_MOST_SHOWN])})")
    left_out = [name for name in columns if name not in writable]
    if left_out:
        draft.spec["features"] = [{"name": name} for name in writable if name not in (label, default_label)][:256]
        draft.notes.append(f"left out, because records can't contain them: {', '.join(left_out[:_MOST_SHOWN])}")
    elif unnamed and label is not None and all(_is_number(schema.field(name).type) for name in columns[:-1]):
        draft.spec["features"] = [{"name": "features", "columns": ["0..-2"]}]
    elif len(columns) > 256:
        draft.notes.append(
            "a record can list at most 256 features by name; group columns, for example features: [{name: x, columns: [0..99]}]"
        )


def _is_number(kind: pa.DataType) -> bool:
    return bool(pa.types.is_integer(kind) or pa.types.is_floating(kind))


def _can_be_written(name: str, schema: pa.Schema) -> bool:
    try:
        resolve([Feature(name=name)], [], schema=schema, default_label="", output=_OUTPUT)
    except BadSpec:
        return False
    return True


def _class_values(records: pa.RecordBatch | None, column: str) -> list[str]:
    """Returns the distinct values in the first records if they are few enough to be classes, otherwise an empty list."""
    if records is None or is_tensor(records.schema.field(column).type) or pa.types.is_nested(records.schema.field(column).type):
        return []
    values = pc.unique(records.column(column)).to_pylist()
    return [_short_value(value) for value in sorted(values, key=str)] if 1 < len(values) <= _MOST_CLASSES else []


def _short_value(value: object) -> str:
    return (value.decode("utf-8", "replace") if isinstance(value, bytes) else str(value))[:40]


# --- names --------------------------------------------------------------------------------------------------------


def _default_output(uri: str) -> str:
    """Returns a folder next to the input, which later runs do not read as input."""
    base = re.split(r"/?[^/]*[*?\[]", uri, maxsplit=1)[0].rstrip("/")
    if base in ("", ".", ".."):
        base = str(Path(base or ".").resolve())
    folder, _, name = base.rpartition("/")
    stem = re.sub(r"\.[A-Za-z0-9]{1,10}$", "", without_suffix(name)) or name
    return f"{folder}/{stem}-dataset" if "/" in base else f"{stem}-dataset"


def _name_of(uri: str) -> str:
    name = _default_output(uri).rpartition("/")[2].removesuffix("-dataset")
    return re.sub(r"[^a-z0-9]+", "-", name.lower()).strip("-")[:40].strip("-") or "dataset"
