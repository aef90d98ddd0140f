"""Inferring: a ready job for what a URI holds. What is there is found by `file_types.py`; the readers themselves then say what is in it.

Looked at is a bounded part: names up to MOST_NAMES, the head of some files, and of one file (for images and IDX, of the listing) its columns
and first records. What is written is a job like any other: nothing of it is hidden, and all of it may be changed.
"""

import itertools
import os
import re
import tempfile
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

import numpy as np
import pyarrow as pa

from dataprep_api import API_VERSION, KIND, names
from dataprep_api.resources.job import DataPrepJob
from dataprep_api.shown import one_line
from dataprep_api.spec import Feature, LabelFeature, Output, Source
from dataprep_api.spec.splits import MOST_SPLITS
from dataprep_converter.core.errors import BadData, BadSpec, NotFound, NotWhole
from dataprep_converter.core.redaction import yaml_text
from dataprep_converter.core.tensors import is_tensor, pc, shape_of, value_type
from dataprep_converter.dataset.output_folder import OutputFolder
from dataprep_converter.inputs.access import Access
from dataprep_converter.pipeline.features import resolve
from dataprep_converter.readers import READERS, reader_class
from dataprep_converter.readers.base.listing import input_files
from dataprep_converter.readers.base.partitions import keys_of
from dataprep_converter.records.batch import SAMPLE
from dataprep_converter.sampling.units import UnitTable
from dataprep_converter.stores import Entry
from dataprep_converter.tools.file_types import HEAD_BYTES, dialect, extension, kind_of, unzipped

MOST_NAMES: Final = 100_000
_HEADS: Final = 3
"""Files of one extension whose first bytes are read."""
_FIRST_RECORDS: Final = 1000
_MOST_CLASSES: Final = 100
_SHOWN: Final = 20
_NO_DATA: Final = (".md", ".rst", "LICENSE", "README")
"""Ends of names that come with data and are none."""
_LABELS: Final = ("label", "labels", "class", "target", "category", "species", "y", "outcome")
_SUBSETS: Final = {
    "train": "train", "training": "train", "val": "validation", "valid": "validation", "validation": "validation", "dev": "validation",
    "test": "test", "testing": "test", "t10k": "test",
}  # fmt: skip
_OUTPUT: Final = Output(uri="dataset")
"""The default format: what it can't hold is left out."""
_BY_HEAD: Final = frozenset({"csv", "jsonl", "text", "libsvm"})
"""Sources whose columns are told by the head of a file as well as by the whole."""
_WITH_PARTITIONS: Final = frozenset({"csv", "jsonl", "text", "parquet", "arrow"})
"""Sources that have columns in the names of folders."""
_BY_ALL: Final = frozenset({"images", "idx"})
"""Sources whose listing says everything, or whose files are known by their headers."""


@dataclass(frozen=True)
class _File:
    """One file below the URI."""

    path: str
    entry: Entry


@dataclass(frozen=True)
class _Looked:
    """What lies below the URI."""

    kind: str
    files: Sequence[_File]
    """All of them."""
    chosen: Sequence[_File]
    """Those of this kind."""

    def uris(self, uri: str) -> list[str]:
        """The URI itself when all files are of the kind, else globs for their extensions."""
        if len(self.files) == len(self.chosen):
            return [uri]
        names = [file.path.rpartition("/")[2] for file in self.chosen]
        endings = sorted({name[name.lower().rindex("." + extension(name)) :] for name in names if extension(name)})
        return [f"{uri.rstrip('/')}/**/*{ending}" for ending in endings][:64] or [uri]


@dataclass
class _Found:
    """A source, and what a person would want to know about it."""

    kind: str
    source: dict[str, Any]
    spec: dict[str, Any] = field(default_factory=dict)
    """More fields of the spec: features, labels."""
    notes: list[str] = field(default_factory=list)

    @property
    def name(self) -> str:
        """The member of `spec.source`, as it is written."""
        return Source.model_fields[self.kind].alias or self.kind


def infer(uri: str, access: Access, *, output: str | None = None, stores: Sequence[Mapping[str, Any]] = ()) -> str:
    """A job in YAML, with what was found as comments. Raises NotFound for a URI without files, BadSpec when what is there can't be read."""
    found = _finished(uri, access) or _from_files(uri, access)
    spec = {"source": {found.name: found.source}, **found.spec, "output": {"uri": output or _beside(uri)}}
    document = {
        "apiVersion": API_VERSION,
        "kind": KIND,
        "metadata": {"name": _name_of(uri)},
        "spec": spec | ({"stores": [dict(store) for store in stores]} if stores else {}),
    }
    DataPrepJob.parse(document)
    comments = "".join(f"# {one_line(' '.join(note.split()))}\n" for note in found.notes)
    return comments + yaml_text(document)


def _finished(uri: str, access: Access) -> _Found | None:
    """What dataprep made itself, when it is that."""
    if access.store(uri).stat(uri) is not None:
        return None  # below a file nothing is looked for: a web address may end in a signature
    folder = OutputFolder(uri, access)
    try:
        success = folder.success()
    except NotWhole:
        return None  # another program's mark, such as Spark's
    if success is None:
        return None
    manifest = folder.manifest(success)
    columns = ", ".join(feature["name"] for feature in manifest.features)
    counted = f"{manifest.records_out} records in {len(manifest.files)} files of the format {manifest.format}"
    return _Found(
        "dataset", {"uri": uri, "digest": manifest.digest}, notes=[f"{uri}: a finished data set, {counted}", f"columns: {columns}"]
    )


def _from_files(uri: str, access: Access) -> _Found:
    files = [
        _File(path, entry)
        for _, path, entry in itertools.islice(input_files(access, [uri]), MOST_NAMES)
        if entry.size and not path.endswith(_NO_DATA)
    ]
    if not files:
        raise NotFound(f"{uri} holds nothing but empty files.", uri=uri)
    kind, chosen = _most_common_kind(files, access)
    found = _FINDERS.get(kind, _by_uri)(uri, _Looked(kind, files, chosen), access)
    if kind in _WITH_PARTITIONS and "=" not in uri and _are_partitions(chosen):
        found.source["hivePartitions"] = "Infer"
    found.notes = [*_overview(uri, found, files, chosen), *found.notes]
    _look_inside(found, chosen, access)
    return found


def _most_common_kind(files: Sequence[_File], access: Access) -> tuple[str, list[_File]]:
    """The kind of source that most files are, and these files. What has another extension is told by its own first files."""
    kinds: dict[str, str] = {}
    for ending, group in itertools.groupby(sorted(files, key=lambda file: extension(file.path)), key=lambda file: extension(file.path)):
        seen = Counter(kind_of(file.path, _head(file, access)) for file in itertools.islice(group, _HEADS))
        kinds[ending] = next((kind for kind, _ in seen.most_common() if kind in READERS), "whole_file")
    # A file that only fits as a whole is no reason to leave those out that are more.
    counts = Counter(kinds[extension(file.path)] for file in files)
    kind = max(counts, key=lambda each: (each != "whole_file", counts[each]))
    if kind not in READERS:
        raise BadSpec(f"{files[0].entry.uri} is nothing that a source reads by itself; a plugin could.")
    return kind, [file for file in files if kinds[extension(file.path)] == kind]


def _are_partitions(files: Sequence[_File]) -> bool:
    """Whether all of them lie in folders named `KEY=VALUE`, with the same keys."""
    try:
        keys = {frozenset(name for name, _ in keys_of("", file.path, file.entry.uri)) for file in files}
    except BadSpec:
        return False
    return len(keys) == 1 and all(keys)


def _head(file: _File, access: Access) -> bytes:
    """The first bytes of its contents."""
    with access.store(file.entry.uri).open(file.entry.uri) as source:
        return unzipped(source.read_at(0, min(HEAD_BYTES, file.entry.size)))


def _overview(uri: str, found: _Found, files: Sequence[_File], chosen: Sequence[_File]) -> list[str]:
    more = "more than " if len(files) >= MOST_NAMES else ""
    size = sum(file.entry.size for file in chosen)
    notes = [f"{uri}: {more}{len(chosen):,} file{'s' * (len(chosen) != 1)} for source.{found.name}, {size:,} bytes"]
    used = {file.path for file in chosen}
    others = Counter(extension(file.path) or "no extension" for file in files if file.path not in used)
    if others:
        notes.append(f"not looked at: {', '.join(f'{count:,} files with {ending}' for ending, count in others.most_common(5))}")
    return notes


# --- the source's fields ------------------------------------------------------------------------------------------


def _by_uri(uri: str, looked: "_Looked", access: Access) -> _Found:  # noqa: ARG001 - one form for all
    return _Found(looked.kind, {"uris": looked.uris(uri)})


def _csv(uri: str, looked: "_Looked", access: Access) -> _Found:
    head = _head(looked.chosen[0], access)
    written = dialect(head if len(head) < HEAD_BYTES else head[: head.rfind(b"\n") + 1])
    source: dict[str, Any] = {"uris": looked.uris(uri)}
    notes = []
    if written.delimiter != ",":
        source["delimiter"] = written.delimiter
    if written.header:
        source["header"] = True
    elif written.first_is_foreign:
        source["skipLines"] = 1
        notes.append(f"the first line is no row like the others: {','.join(written.rows[0])[:100]}")
    return _Found(looked.kind, source, notes=notes)


def _images(uri: str, looked: "_Looked", access: Access) -> _Found:
    annotations = [file for file in looked.files if extension(file.path) == "xml"]
    if "annotated_images" in READERS and annotations and b"<annotation" in _head(annotations[0], access):
        roots = {"images": _common_folder(uri, looked.chosen), "annotations": _common_folder(uri, annotations)}
        return _Found("annotated_images", {name: [root] for name, root in roots.items()} | {"format": "Voc"})
    folders = [file.path.split("/")[:-1] for file in looked.chosen]
    source: dict[str, Any] = {"uris": [uri]}
    if all(parts and parts[0].lower() in _SUBSETS for parts in folders):
        source["subsetFrom"] = "FirstFolder"
        folders = [parts[1:] for parts in folders]
    if not all(folders) or len({parts[-1] for parts in folders}) < 2:
        source["labelFrom"] = "None"
    return _Found(looked.kind, source)


def _common_folder(uri: str, files: Sequence[_File]) -> str:
    shared = os.path.commonpath([file.path.rpartition("/")[0] or "." for file in files]) if files else "."
    return uri.rstrip("/") if shared in (".", "") else f"{uri.rstrip('/')}/{shared}"


def _idx(uri: str, looked: "_Looked", access: Access) -> _Found:
    images: dict[str, _File] = {}
    labels: dict[str, _File] = {}
    for file in looked.chosen:
        head = _head(file, access)
        if len(head) <= 3:
            raise BadData(
                f"{file.entry.uri} is no whole IDX file: it holds {len(head)} bytes, and the header alone has 8.", uri=file.entry.uri
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
            f"{uri} holds {len(subsets):,} IDX files of records, and source.idx takes at most {MOST_SPLITS}: name fewer of them, by a glob.",
            uri=uri,
        )
    subsets.sort(key=lambda subset: str(subset["name"]) != "train")
    if len({subset["name"] for subset in subsets}) < len(subsets):
        subsets = [subset | {"name": f"part{number}"} for number, subset in enumerate(subsets)]
    return _Found(looked.kind, {"subsets": subsets})


def _numpy(uri: str, looked: "_Looked", access: Access) -> _Found:
    """Several .npy files of as many entries are columns of the same records; any others are more records of one."""
    arrays = {file.path.rpartition("/")[2].removesuffix(".npy"): file.entry.uri for file in looked.chosen if file.path.endswith(".npy")}
    are_columns = 1 < len(arrays) == len(looked.chosen) <= 64 and len({_entries(file, access) for file in looked.chosen}) == 1
    return _Found(looked.kind, {"arrays": arrays} if are_columns else {"uris": looked.uris(uri)})


def _entries(file: _File, access: Access) -> int:
    """The first dimension of a .npy file, by its header."""
    shape = re.search(rb"'shape': \((\d*)", _head(file, access)[:4096])
    return int(shape[1] or 0) if shape else 0


_FINDERS: Final = {"csv": _csv, "images": _images, "idx": _idx, "numpy": _numpy}
"""Sources of which more than the URI has to be found out."""


# --- what is in it ------------------------------------------------------------------------------------------------


def _look_inside(found: _Found, chosen: Sequence[_File], access: Access) -> None:
    """Columns, classes and first records as the reader itself sees them; the guess of a label."""
    with tempfile.TemporaryDirectory(prefix="dataprep-") as folder:
        source = Source.model_validate({found.name: found.source | _probe(found, chosen[0], Path(folder), access)})
        reader_type = reader_class(found.kind)
        discovery = reader_type.discover(source, access)
        units = UnitTable.of(discovery.units)
        state = dict(discovery.state)
        reader = reader_type(source, state, access)
        samples = np.arange(min(_FIRST_RECORDS, units.samples), dtype=np.int64)
        batch = next(iter(reader.read(units, iter([samples]))), None) if len(samples) else None
        schema = reader.schema()
        columns = [name for name in schema.names if name != SAMPLE]
        for name in columns[:_SHOWN]:
            found.notes.append(f"column {name}: {_described(schema.field(name).type)}")
        if len(columns) > _SHOWN:
            found.notes.append(f"… and {len(columns) - _SHOWN} more columns")
        for name, classes in reader.classes().items():
            shown = ", ".join(classes[:_SHOWN]) + (", …" if len(classes) > _SHOWN else "")
            found.notes.append(f"classes of {name}: {len(classes)} ({shown})")
        if found.kind in _BY_ALL or found.kind == "annotated_images":
            found.notes.append(f"{units.samples:,} records{_by_subset(units)}")
        if batch is not None and batch.bad:
            reason = batch.bad[0].reason
            found.notes.append(f"{len(batch.bad)} of the first {len(samples):,} records don't fit, the first: {reason}; see onBadRecord")
        _choose_columns(found, schema, columns, reader_type.default_label, batch.records if batch is not None else None)
        resolve(
            [Feature.model_validate(feature) for feature in found.spec["features"]] if "features" in found.spec else None,
            [LabelFeature.model_validate(label) for label in found.spec["labels"]] if "labels" in found.spec else None,
            schema=schema,
            default_label=reader_type.default_label,
            output=_OUTPUT,
        )


def _probe(found: _Found, first: _File, folder: Path, access: Access) -> dict[str, Any]:
    """Fields of a source that holds less than all, and has the same columns."""
    if found.kind in _BY_HEAD:
        head = _head(first, access)
        *above, name = first.path.split("/")
        partitions = [part for part in above if "=" in part] if "hivePartitions" in found.source else []
        copy = folder.joinpath(*partitions, name.removesuffix(".gz"))
        copy.parent.mkdir(parents=True, exist_ok=True)
        copy.write_bytes(head if len(head) < HEAD_BYTES else head[: head.rfind(b"\n") + 1])
        return {"uris": [str(copy)]}
    return {"uris": [first.entry.uri]} if "uris" in found.source and found.kind not in _BY_ALL else {}


def _described(kind: pa.DataType) -> str:
    return f"{value_type(kind)}{list(shape_of(kind))}" if is_tensor(kind) else str(kind)


def _by_subset(units: UnitTable) -> str:
    counts: dict[str, int] = {}
    for row in units.table.select(["subset", "records"]).to_pylist():
        counts[str(row["subset"])] = counts.get(str(row["subset"]), 0) + int(row["records"])
    named = [f"{subset} {count:,}" for subset, count in counts.items() if subset]
    return f": {', '.join(named)}" if named else ""


def _choose_columns(found: _Found, schema: pa.Schema, columns: Sequence[str], default_label: str, records: pa.RecordBatch | None) -> None:
    """A label by its name, or the last of columns without names; features only where not all columns can be."""
    writable = [name for name in columns if _can_be_written(name, schema)]
    label = next((name for wanted in _LABELS for name in writable if name.lower() == wanted), None)
    unnamed = found.kind == "csv" and columns == [str(number) for number in range(len(columns))]
    if unnamed and len(columns) > 1 and pa.types.is_integer(schema.field(columns[-1]).type) and _values(records, columns[-1]):
        label = columns[-1]
    if label is not None and label != default_label:
        found.spec["labels"] = [{"name": "label", "columns": ["-1"]}] if unnamed else [{"name": label}]
    if label is not None and label in columns and (values := _values(records, label)):
        found.notes.append(f"label, as a guess: column {label} ({len(values)} values in the first records: {', '.join(values[:_SHOWN])})")
    left = [name for name in columns if name not in writable]
    if left:
        found.spec["features"] = [{"name": name} for name in writable if name not in (label, default_label)][:256]
        found.notes.append(f"left out, because records can't hold them: {', '.join(left[:_SHOWN])}")
    elif unnamed and label is not None and all(_is_number(schema.field(name).type) for name in columns[:-1]):
        found.spec["features"] = [{"name": "features", "columns": ["0..-2"]}]
    elif len(columns) > 256:
        found.notes.append("a record has at most 256 features by name; group columns: features: [{name: x, columns: [0..99]}]")


def _is_number(kind: pa.DataType) -> bool:
    return bool(pa.types.is_integer(kind) or pa.types.is_floating(kind))


def _can_be_written(name: str, schema: pa.Schema) -> bool:
    try:
        resolve([Feature(name=name)], [], schema=schema, default_label="", output=_OUTPUT)
    except BadSpec:
        return False
    return True


def _values(records: pa.RecordBatch | None, column: str) -> list[str]:
    """The distinct values of a class in the first records; empty when they are too many for a class, or none."""
    if records is None or is_tensor(records.schema.field(column).type) or pa.types.is_nested(records.schema.field(column).type):
        return []
    values = pc.unique(records.column(column)).to_pylist()
    return [_shown_value(value) for value in sorted(values, key=str)] if 1 < len(values) <= _MOST_CLASSES else []


def _shown_value(value: object) -> str:
    """One value of a class, short."""
    return (value.decode("utf-8", "replace") if isinstance(value, bytes) else str(value))[:40]


# --- names --------------------------------------------------------------------------------------------------------


def _beside(uri: str) -> str:
    """A folder next to the input, which no later run takes for input."""
    base = re.split(r"/?[^/]*[*?\[]", uri, maxsplit=1)[0].rstrip("/")
    if base in ("", ".", ".."):
        base = str(Path(base or ".").resolve())
    folder, _, name = base.rpartition("/")
    stem = re.sub(r"\.[A-Za-z0-9]{1,10}(\.gz)?$", "", name) or name
    return f"{folder}/{stem}-dataset" if "/" in base else f"{stem}-dataset"


def _name_of(uri: str) -> str:
    name = _beside(uri).rpartition("/")[2].removesuffix("-dataset")
    return re.sub(r"[^a-z0-9]+", "-", name.lower()).strip("-")[:40].strip("-") or "dataset"
