"""Reads a finished data set for an engine: its columns, its partitions, and the batches of a partition.

The driver reads the manifest. Each partition contains the manifest's entries for its shards, so the tasks read only the shards.
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final

import pyarrow as pa

from dataprep_api import names
from dataprep_api.dataset.report import Manifest, ManifestFile, MetadataFile
from dataprep_converter.core.errors import BadData, BadSpec, ConvertError, NewerFormat, NotWhole
from dataprep_converter.dataset.frame_rows import Engine, engine_of_content
from dataprep_converter.dataset.listing import load_manifest
from dataprep_converter.dataset.output_folder import OutputFolder
from dataprep_converter.formats.columnar.hugging_face import unwrapped
from dataprep_converter.formats.format import ReadUnit
from dataprep_converter.formats.nested.descriptions import parse_description
from dataprep_converter.formats.registry import format_of
from dataprep_converter.inputs.access import Access
from dataprep_converter.readers.columnar.tables import columns_from
from dataprep_converter.records.columns import similar
from dataprep_converter.stores import StoreSettings
from dataprep_frames.options import ReadOptions, found_name
from dataprep_frames.replacement import check_not_replaced
from dataprep_reader.dataset import DataSet
from dataprep_reader.shards import ShardLayout

PARTITION_BYTES: Final = 128 << 20
"""Consecutive shards of a split are read together, up to this many bytes. Spark's own sources have the same limit by default."""
_TYPED: Final = (ReadUnit.ROW_GROUPS, ReadUnit.RECORD_BATCHES)
"""How to read files that store times, decimals and nested values in their own types."""

_arrow: Any = pa  # the stubs lack some functions


@dataclass(frozen=True)
class Types:
    """The types of an engine's columns."""

    engine: Engine
    type_of: Callable[[Any, str], pa.DataType]
    """Returns the engine's type for values of an Arrow type. Raises BadSpec, naming the column, if there is none."""
    converted: Callable[[Any, Any], Any]
    """Converts a column to a type that `type_of` has returned. Raises ArrowInvalid for a value that this type can't hold."""


@dataclass(frozen=True)
class Partition:
    """Shards of one split that one task reads."""

    split: str
    files: tuple[ManifestFile, ...]
    indexes: tuple[MetadataFile, ...]
    """The record indexes of these shards."""


@dataclass(frozen=True)
class Source:
    """The information about a finished data set that the driver sends to the tasks."""

    options: ReadOptions
    types: Types
    settings: tuple[StoreSettings, ...]
    manifest: Manifest
    """The manifest without its files."""
    schema: pa.Schema
    """The columns in the engine's types: the requested features, then the split."""

    def partitions(self, manifest: Manifest, count: int = 1) -> list[Partition]:
        """Divides the requested splits into about `count` partitions of about the same size. `manifest` is the complete manifest.

        There are more partitions if a partition would otherwise have several splits, or several shards that together exceed
        PARTITION_BYTES.
        """
        wanted = self.options.splits
        indexes = {each.file: each for each in manifest.metadata if each.file.startswith(f"{names.INDEX}/")}
        files = [file for file in manifest.files if file.records and (wanted is None or file.split in wanted)]
        return [
            Partition(
                group[0].split,
                tuple(group),
                tuple(indexes[path] for file in group if (path := names.index_file(file.file)) in indexes),
            )
            for group in _grouped(files, count)
        ]

    def with_columns(self, schema: pa.Schema) -> "Source":
        """Returns the source with the columns of the user's schema. Raises BadSpec if a column doesn't exist or has another type."""
        for field in schema:
            if field.name not in self.schema.names:
                raise BadSpec(
                    f"{self.options.uri} has no column {field.name!r}.{similar(field.name, self.schema.names)} It has "
                    f"{', '.join(self.schema.names)}."
                )
            own = self.schema.field(field.name).type
            if field.type != own:
                raise BadSpec(
                    f"The schema gives the column {field.name!r} the type {field.type}, but in {self.options.uri} it is {own}. Read the column "
                    "without a schema, and cast it."
                )
        return replace(self, schema=schema)

    def batches(self, partition: Partition) -> Iterator[pa.RecordBatch]:
        """Yields the records of a partition. Raises BadData if a file is damaged, or if the data set was replaced in the meantime."""
        access = Access(self.settings)
        try:
            yield from self._batches(partition, access)
        except ConvertError as exc:
            check_not_replaced(self.options.uri, self.manifest.run_id, partition.files, access, exc)
            raise
        check_not_replaced(self.options.uri, self.manifest.run_id, partition.files, access)

    def _batches(self, partition: Partition, access: Access) -> Iterator[pa.RecordBatch]:
        features = [name for name in self.schema.names if name != self.options.split_column]
        # If only the split is requested, read another column too, to get the number of records.
        read = features or [self.manifest.features[0]["name"]]
        manifest = self.manifest.model_copy(update={"metadata": list(partition.indexes)})
        data_set = DataSet(self.options.uri, manifest, partition.files)
        layout = _Layout(data_set, access, tuple(read))
        for shard in layout.shards():
            for part, records in enumerate(shard.parts.tolist()):
                for batch in shard.read(part, 0, records):
                    yield self._converted(batch, partition.split)

    def _converted(self, batch: pa.RecordBatch, split: str) -> pa.RecordBatch:
        columns = [
            _arrow.repeat(pa.scalar(split, pa.string()), batch.num_rows)
            if field.name == self.options.split_column
            else self._in_type_of_engine(batch.column(field.name), field)
            for field in self.schema
        ]
        return pa.RecordBatch.from_arrays(columns, schema=self.schema)

    def _in_type_of_engine(self, column: Any, field: "pa.Field[Any]") -> Any:
        try:
            return self.types.converted(column, field.type)
        except pa.ArrowInvalid as exc:
            raise BadData(
                f"{self.options.uri}: the column {field.name!r} has a value that {self.types.engine.name} can't hold ({exc}). Leave the column "
                "out: set the option columns to the other columns.",
                uri=self.options.uri,
            ) from exc


class _Layout(ShardLayout):
    """A layout for an engine. If files store times, decimals and nested values in their own types, the batches keep these types."""

    def conformed(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        """Returns the columns of a Parquet or Arrow file as they are."""
        return _arrow.RecordBatch.from_arrays(  # type: ignore[no-any-return]  # the stubs lack from_arrays with names
            [unwrapped(batch.column(field.name), field.type) for field in self.schema], names=self.schema.names
        )


def open_source(options: ReadOptions, types: Types, settings: Iterable[StoreSettings] = ()) -> tuple[Source, Manifest]:
    """Reads the manifest of a finished data set. Returns the information for the tasks, and the complete manifest.

    Raises NotFound if there is no finished data set, and BadData if its manifest is damaged. Raises BadSpec for a column or a split that
    the data set doesn't have, and for a column that the engine can't read.
    """
    settings = tuple(settings)
    access = Access(settings)
    manifest = load_manifest(options.uri, access)
    if not manifest.features:
        raise BadSpec(
            f"{options.uri} was made by a script, which doesn't say what its records contain. Read its files with {types.engine.name}'s own "
            "sources."
        )
    for split in options.splits or ():
        if split not in (existing := [each.name for each in manifest.splits]):
            raise BadSpec(f"{options.uri} has no split {split!r}.{similar(split, existing)} It has {', '.join(existing)}.")
    head = manifest.model_copy(update={"files": [], "file_table": None, "metadata": [], "quarantine": []})
    return Source(
        options, types, settings, head, _schema(manifest, options, types, _features_in_order(manifest, options.uri, access))
    ), manifest


def _features_in_order(manifest: Manifest, uri: str, access: Access) -> list[str]:
    """Returns the names of the features: the names in the data frame if an engine has written the data set, otherwise the names in the
    records."""
    features = [feature["name"] for feature in manifest.features]
    if engine_of_content(manifest.content) is None:
        return features
    try:
        found = OutputFolder(uri, access).of_run(manifest.run_id).plan_head()
    except (NotWhole, NewerFormat):
        found = None
    places = {column.name: place for place, column in enumerate(columns_from(found[0].reader_state))} if found is not None else {}
    return sorted(features, key=lambda name: places.get(name, len(places)))


def _schema(manifest: Manifest, options: ReadOptions, types: Types, existing: list[str]) -> pa.Schema:
    """Returns the requested columns in the engine's types, followed by the split. `existing` are all features."""
    columns = [_feature(name, existing, options.uri) for name in options.columns] if options.columns is not None else existing
    repeated = next((name for name in columns if columns.count(name) > 1), None)
    if repeated is not None:
        raise BadSpec(f"The option columns contains {repeated!r} twice.")
    taken = None if options.split_column is None else found_name(options.split_column, columns)
    if taken is not None:
        raise BadSpec(
            f"{options.uri} has a column {taken!r}, which is also the name of the column with the splits. Set the option "
            f"{types.engine.split_column} to another name."
        )
    layout = ShardLayout(DataSet(options.uri, manifest, ()), Access(), tuple(columns))
    is_typed = format_of(manifest.format).read_unit in _TYPED
    own = {**manifest.types, **manifest.nested} if is_typed else {}
    fields = [
        pa.field(field.name, types.type_of(parse_description(own[field.name]) if field.name in own else field.type, field.name))
        for field in layout.schema
    ]
    split = [] if options.split_column is None else [pa.field(options.split_column, pa.string())]
    return pa.schema([*fields, *split])


def _feature(name: str, existing: Sequence[str], uri: str) -> str:
    found = found_name(name, existing)
    if found is None:
        raise BadSpec(f"{uri} has no column {name!r}.{similar(name, existing)} It has {', '.join(existing)}.")
    return found


def _grouped(files: Sequence[ManifestFile], count: int) -> Iterator[Sequence[ManifestFile]]:
    """Groups consecutive files of a split, so that a group has at most PARTITION_BYTES or a single file.

    All bytes are divided into `count` equal parts. A file belongs to the part that contains the file's middle, and the files of a group
    belong to the same part.
    """
    total = max(1, sum(file.size for file in files))
    group: list[ManifestFile] = []
    size = before = last_part = 0
    for file in files:
        part = (2 * before + file.size) * count // (2 * total)
        if group and (file.split != group[0].split or size + file.size > PARTITION_BYTES or part != last_part):
            yield group
            group, size = [], 0
        group.append(file)
        size += file.size
        before += file.size
        last_part = part
    if group:
        yield group
