"""Infers a job from the files below a URI. `file_types.py` detects the kind of source, and the source's reader determines the columns.

The effort is bounded: at most MOST_NAMES names are listed, and only the beginnings of a few files are read. In addition, the columns and
first records of one file are read; for images and IDX, all files are listed. The result is an ordinary, complete job that the user can
edit.
"""

import itertools
import re
import tempfile
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any, Final

import numpy as np
import pyarrow as pa

from dataprep_api import API_VERSION, KIND
from dataprep_api.redaction import one_line
from dataprep_api.resources.job import DataPrepJob
from dataprep_api.spec import Feature, LabelFeature, Output, Source
from dataprep_converter.core.errors import BadData, BadSpec, NotFound, NotWhole
from dataprep_converter.core.redaction import yaml_text
from dataprep_converter.dataset.output_folder import OutputFolder
from dataprep_converter.inputs.access import Access
from dataprep_converter.inputs.compressions import without_suffix
from dataprep_converter.pipeline.features import resolve
from dataprep_converter.readers import reader_class
from dataprep_converter.readers.base.listing import input_files
from dataprep_converter.readers.base.partitions import keys_of
from dataprep_converter.readers.text import json_arrays
from dataprep_converter.records.batch import SAMPLE
from dataprep_converter.sampling.units import UnitTable
from dataprep_converter.tools.infer.column_notes import class_values, likely_mistakes, note_on
from dataprep_converter.tools.infer.file_types import extension, kind_of
from dataprep_converter.tools.infer.foreign_files import description_of
from dataprep_converter.tools.infer.image_table_drafts import table_of
from dataprep_converter.tools.infer.source_drafts import (
    DRAFTS,
    HEADS,
    Draft,
    File,
    Listing,
    add_encoding,
    by_uri,
    head_of,
    mds_of,
    whole_rows,
)
from dataprep_converter.tools.infer.text_heads import HEAD_BYTES, text_of

MOST_NAMES: Final = 100_000
_FIRST_RECORDS: Final = 1000
_MOST_SHOWN: Final = 20
_NO_DATA: Final = (".md", ".rst", "LICENSE", "README")
"""Name endings of files that accompany data but are not data."""
_LABELS: Final = ("label", "labels", "class", "target", "category", "species", "y", "outcome")
_OUTPUT: Final = Output(uri="dataset")
"""The default output. Columns that can't be stored in this output's format are left out."""
_BY_HEAD: Final = frozenset({"csv", "jsonl", "text", "libsvm"})
"""Sources whose columns can be read from the beginning of a file."""
_WITH_PARTITIONS: Final = frozenset({"csv", "jsonl", "text", "parquet", "arrow", "avro", "orc"})
"""Sources that support Hive partitions."""
_TABLES: Final = frozenset({"csv", "jsonl", "parquet", "arrow", "avro", "orc"})
"""Sources whose columns were chosen by people. So comments can point out likely mistakes in these columns."""
_BY_ALL: Final = frozenset({"images", "idx", "mds"})
"""Sources that are inspected completely, because listing the files or reading their headers is enough."""


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


def _from_data_set(uri: str, access: Access) -> Draft | None:
    """Returns the source for a finished dataprep data set, or None for anything else."""
    if access.store(uri).stat(uri) is not None:
        return None  # Don't look below a file's URI: no path can be appended to a web address that ends in a signature.
    folder = OutputFolder(uri, access)
    try:
        success = folder.success()
    except NotWhole:
        return None  # another program, such as Spark, wrote this `_SUCCESS`
    if success is None:
        return None
    manifest = folder.manifest(success)
    columns = ", ".join(feature["name"] for feature in manifest.features)
    size = (
        f"{manifest.records_out} record{'s' * (manifest.records_out != 1)} in {len(manifest.files)} file{'s' * (len(manifest.files) != 1)} "
        f"of the format {manifest.format}"
    )
    return Draft("dataset", {"uri": uri, "digest": manifest.digest}, notes=[f"{uri}: a finished data set, {size}", f"columns: {columns}"])


def _from_files(uri: str, access: Access) -> Draft:
    files = [
        File(path, entry)
        for _, path, entry in itertools.islice(input_files(access, [uri]), MOST_NAMES)
        if entry.size and not path.endswith(_NO_DATA)
    ]
    if not files:
        raise NotFound(f"{uri} has only empty files.", uri=uri)
    mds = mds_of(uri, files, access)
    if mds is not None:
        mds.notes = _overview(uri, mds, files, files)
        _add_contents(mds, files, access)
        return mds
    kind, chosen_files = _most_common_kind(files, access)
    draft = DRAFTS.get(kind, by_uri)(uri, Listing(kind, files, chosen_files), access)
    table = table_of(uri, files, chosen_files, access) if draft.kind == "images" else None
    if table is not None:
        file, fields = table
        kept = (
            ("extensions", "subsetFrom")
            if fields["list"].get("root", file.entry.uri.rpartition("/")[0]) == uri.rstrip("/")
            else ("extensions",)
        )
        draft.source = {name: value for name, value in draft.source.items() if name in kept} | fields
        draft.notes.append(f"{file.entry.uri} lists the images; its other columns are added to them")
        files = [each for each in files if each is not file]
    if kind in _WITH_PARTITIONS and "=" not in uri and _are_partitions(chosen_files):
        draft.source["hivePartitions"] = "Infer"
    if kind in _BY_HEAD:
        add_encoding(draft, chosen_files, access)
    draft.notes = [*_overview(uri, draft, files, chosen_files), *draft.notes]
    _add_contents(draft, chosen_files, access)
    return draft


def _most_common_kind(files: Sequence[File], access: Access) -> tuple[str, list[File]]:
    """Returns the most common kind of source, and its files. The kind for each extension is detected from a few files.

    If no source reads any of the files, raises BadSpec, which names the first file's type.
    """
    kinds: dict[str, str | None] = {}
    for ending, group in itertools.groupby(sorted(files, key=lambda file: extension(file.path)), key=lambda file: extension(file.path)):
        seen = Counter(kind_of(file.path, head_of(file, access)) for file in itertools.islice(group, HEADS))
        kinds[ending] = next((kind for kind, _ in seen.most_common() if kind is not None), None)
    counts = Counter(kind for file in files if (kind := kinds[extension(file.path)]) is not None)
    if not counts:
        name, advice = description_of(head_of(files[0], access))
        raise BadSpec(f"{files[0].entry.uri} is {name}, so infer can't choose a source for it: {advice}.", uri=files[0].entry.uri)
    kind = max(counts, key=lambda each: counts[each])
    return kind, [file for file in files if kinds[extension(file.path)] == kind]


def _are_partitions(files: Sequence[File]) -> bool:
    """Whether all files are in folders named `KEY=VALUE`, with the same keys for all files."""
    try:
        keys = {frozenset(name for name, _ in keys_of("", file.path, file.entry.uri)) for file in files}
    except BadSpec:
        return False
    return len(keys) == 1 and all(keys)


def _overview(uri: str, draft: Draft, files: Sequence[File], chosen_files: Sequence[File]) -> list[str]:
    more = "more than " if len(files) >= MOST_NAMES else ""
    size = sum(file.entry.size for file in chosen_files)
    notes = [f"{uri}: {more}{len(chosen_files):,} file{'s' * (len(chosen_files) != 1)} for source.{draft.name}, {size:,} bytes"]
    chosen_paths = {file.path for file in chosen_files}
    other_endings = Counter(extension(file.path) or "no extension" for file in files if file.path not in chosen_paths)
    if other_endings:
        counts = (f"{count:,} file{'s' * (count != 1)} with {ending}" for ending, count in other_endings.most_common(5))
        notes.append(f"not included:  {', '.join(counts)}")
    return notes


# --- contents -----------------------------------------------------------------------------------------------------


def _add_contents(draft: Draft, chosen_files: Sequence[File], access: Access) -> None:
    """Reads the first records, adds notes on columns, classes and these records, and guesses the label."""
    with (
        tempfile.TemporaryDirectory(prefix="dataprep-") as folder,
        _naming(chosen_files[0], Path(folder)),
        ExitStack() as resources,
    ):
        source = Source.model_validate({draft.name: draft.source | _probe(draft, chosen_files[0], Path(folder), access)})
        reader_type = reader_class(draft.kind)
        units, state = reader_type.discover(source.member, access).collect()
        reader = resources.enter_context(reader_type(source.member, state, access))
        samples = np.arange(min(_FIRST_RECORDS, units.samples), dtype=np.int64)
        batch = next(iter(reader.read(units, iter([samples]))), None) if len(samples) else None
        records = batch.records if batch is not None else None
        schema = reader.schema()
        columns = [name for name in schema.names if name != SAMPLE]
        if draft.kind in _TABLES and len(samples):
            draft.notes.append(f"looked at the first {len(samples):,} record{'s' * (len(samples) != 1)} of {chosen_files[0].entry.uri}")
        for name in columns[:_MOST_SHOWN]:
            draft.notes.append(note_on(name, schema.field(name).type, records if draft.kind in _TABLES else None))
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
        _choose_columns(draft, schema, columns, reader_type.default_label, records)
        if records is not None and draft.kind in _TABLES:
            chosen = [name for name in columns if "features" not in draft.spec or _is_used(draft.spec, name)]
            label = _label_of(draft.spec, columns, reader_type.default_label)
            draft.notes += [f"check: {mistake}" for mistake in likely_mistakes(records, chosen, label=label)]
        resolve(
            [Feature.model_validate(feature) for feature in draft.spec["features"]] if "features" in draft.spec else None,
            [LabelFeature.model_validate(label) for label in draft.spec["labels"]] if "labels" in draft.spec else None,
            schema=schema,
            default_label=reader_type.default_label,
            output=_OUTPUT,
        )


@contextmanager
def _naming(file: File, folder: Path) -> Iterator[None]:
    """Makes errors name the file's URI instead of the path of its partial copy in `folder`."""
    copy = re.compile(rf"{re.escape(str(folder))}/(.*/)?{re.escape(without_suffix(file.path.rpartition('/')[2]))}")
    try:
        yield
    except (BadSpec, BadData) as exc:
        raise type(exc)(copy.sub(lambda _: file.entry.uri, str(exc)), uri=file.entry.uri) from exc


def _label_of(spec: Mapping[str, Any], columns: Sequence[str], default_label: str) -> str | None:
    """Returns the name of the label column, or None if no column is the label."""
    if "labels" not in spec:
        return default_label if default_label in columns else None
    entry = spec["labels"][0]
    return str(columns[-1] if "columns" in entry else entry["name"])


def _is_used(spec: Mapping[str, Any], name: str) -> bool:
    entries = [*spec["features"], *spec.get("labels", [])]
    return any(entry["name"] == name or "columns" in entry for entry in entries)


def _probe(draft: Draft, first: File, folder: Path, access: Access) -> dict[str, Any]:
    """Returns fields that restrict the source to less data with the same columns."""
    if draft.kind in _BY_HEAD:
        head = head_of(first, access)
        *above, name = first.path.split("/")
        partitions = [part for part in above if "=" in part] if "hivePartitions" in draft.source else []
        copy = folder.joinpath(*partitions, without_suffix(name))
        copy.parent.mkdir(parents=True, exist_ok=True)
        text = text_of(head)
        lines = head if text is None else json_arrays.closed(text.lines)
        copy.write_bytes(whole_rows(lines, draft.source.get("delimiter", ","), most=HEAD_BYTES) if draft.kind == "csv" else lines)
        return {"uris": [str(copy)]} | ({"encoding": "Utf8"} if "encoding" in draft.source else {})
    return {"uris": [first.entry.uri]} if "uris" in draft.source and draft.kind not in _BY_ALL else {}


def _count_by_subset(units: UnitTable) -> str:
    counts: dict[str, int] = {}
    for row in units.table.select(["subset", "records"]).to_pylist():
        counts[str(row["subset"])] = counts.get(str(row["subset"]), 0) + int(row["records"])
    parts = [f"{subset} {count:,}" for subset, count in counts.items() if subset]
    return f": {', '.join(parts)}" if parts else ""


def _choose_columns(draft: Draft, schema: pa.Schema, columns: Sequence[str], default_label: str, records: pa.RecordBatch | None) -> None:
    """Picks the label by its name. If the columns have no names, the last column is the label if its values look like classes.

    Lists the features if some columns can't be written, or if unnamed numeric columns should form one feature.
    """
    writable = [name for name in columns if _can_be_written(name, schema)]
    label = next((name for label_name in _LABELS for name in writable if name.lower() == label_name), None)
    unnamed = draft.kind == "csv" and columns == [str(number) for number in range(len(columns))]
    if unnamed and len(columns) > 1 and pa.types.is_integer(schema.field(columns[-1]).type) and class_values(records, columns[-1]):
        label = columns[-1]
    if label is not None and label != default_label:
        draft.spec["labels"] = [{"name": "label", "columns": ["-1"]}] if unnamed else [{"name": label}]
    if label is not None and label in columns and (values := class_values(records, label)):
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


# --- names --------------------------------------------------------------------------------------------------------


def _default_output(uri: str) -> str:
    """Returns a folder next to the input. Later runs don't read this folder as input."""
    base = re.split(r"/?[^/]*[*?\[]", uri, maxsplit=1)[0].rstrip("/")
    if base in ("", ".", ".."):
        base = str(Path(base or ".").resolve())
    folder, _, name = base.rpartition("/")
    stem = re.sub(r"\.[A-Za-z0-9]{1,10}$", "", without_suffix(name)) or name
    return f"{folder}/{stem}-dataset" if "/" in base else f"{stem}-dataset"


def _name_of(uri: str) -> str:
    name = _default_output(uri).rpartition("/")[2].removesuffix("-dataset")
    return re.sub(r"[^a-z0-9]+", "-", name.lower()).strip("-")[:40].strip("-") or "dataset"
