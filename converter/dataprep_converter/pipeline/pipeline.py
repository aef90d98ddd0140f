"""The pipeline of one process: samples → read → transform → project onto the features. `shard_writer.py` encodes and writes the projected
samples."""

import math
from collections import Counter, defaultdict
from collections.abc import Collection, Generator, Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import replace
from time import perf_counter
from typing import Any, Final

import numpy as np
import pyarrow as pa

from dataprep_api.dataset import sagemaker
from dataprep_api.spec import DataPrepJobSpec, Feature
from dataprep_api.stages import REFUSALS
from dataprep_converter.core.closeable import Closeable
from dataprep_converter.core.tensors import tensor_bytes
from dataprep_converter.formats.encoder import Encoder, TakesClasses
from dataprep_converter.formats.registry import encoder_class
from dataprep_converter.inputs.access import Access
from dataprep_converter.pipeline import provenance
from dataprep_converter.pipeline.features import Projector, resolve
from dataprep_converter.pipeline.kept_types import KeptTypes, original, units_of_times
from dataprep_converter.pipeline.nulls import defaults_of
from dataprep_converter.readers import HasLines, HasSteps, SampleReader, reader_class
from dataprep_converter.readers.base.blocks import BlockReader
from dataprep_converter.records.batch import Batch, marked
from dataprep_converter.records.columns import find_columns
from dataprep_converter.records.exact_decimals import EXACT
from dataprep_converter.records.feature import FeatureSpec
from dataprep_converter.runtime.prefetch import prefetched
from dataprep_converter.sampling.selection import Samples
from dataprep_converter.sampling.units import Units
from dataprep_converter.transforms import (
    ComparesDecimals,
    CutsBatches,
    Fittable,
    FollowsVersions,
    NamesClasses,
    ReordersSteps,
    Step,
    step_class,
)

_TENSOR_BYTES = 8 * 2**20
"""Maximum size of a batch's tensors in bytes, at the step where the tensors are largest."""


_SIZES: Final = frozenset({"height", "width", "depth"})
"""Columns of IDX files that only give the shape of other columns."""


def _with_sparse_feature(spec: DataPrepJobSpec, state: Mapping[str, Any]) -> DataPrepJobSpec:
    """If the job converts libsvm to `recordioProtobuf` and sets no features, returns the spec with one sparse feature."""
    if not sagemaker.is_sparse_libsvm(spec) or spec.data.libsvm is None:
        return spec
    length = spec.data.libsvm.num_features or state[sagemaker.NUM_FEATURES]
    options = spec.output.recordio_protobuf.model_copy(update={"sparse": [sagemaker.sparse(length)]})
    return spec.model_copy(
        update={
            "features": [Feature(name=sagemaker.KEYS), Feature(name=sagemaker.VALUES)],
            "output": spec.output.model_copy(update={"recordio_protobuf": options}),
        }
    )


class Pipeline(Closeable):
    """Reads and transforms the samples of all shards in a process. Closing it closes the reader.

    Raises BadSpec when a step doesn't accept the output of the step before it.
    """

    def __init__(self, spec: DataPrepJobSpec, state: Mapping[str, Any], access: Access, learned: Mapping[str, Any] | None = None) -> None:
        reader_type = reader_class(spec.data.kind)
        spec = _with_sparse_feature(spec, state)
        self.spec = spec
        self.reader: SampleReader = reader_type(access.unsigned(spec.data).member, state, access)
        self._steps: list[Step] = []
        schema = self.reader.schema()
        self.exact_decimals = _exact_decimals(self.reader, schema) if access.compares_all_digits else []
        """The reader's decimal columns for which `deduplicate` and `filter` compare all digits."""
        unique = find_columns(spec.deduplicate.columns, schema, of="deduplicate") if spec.deduplicate and self.exact_decimals else []
        self.compares_decimals = not set(unique).isdisjoint(self.exact_decimals)
        """Whether the job compares any of the columns in `exact_decimals`."""
        schema = marked(schema, EXACT, {name: name for name in self.exact_decimals})
        self.defaults = defaults_of(spec.data, schema)
        """The defaults that the spec can give for the source's columns."""
        widest = tensor_bytes(schema)
        for transform in spec.transforms or []:
            step = step_class(transform.kind)(transform.member, schema)
            if isinstance(step, FollowsVersions):
                step.follow(reads_heif=access.reads_heif)
            if isinstance(step, ComparesDecimals):
                self.compares_decimals |= step.compares_decimals
            schema = step.schema()
            widest = max(widest, tensor_bytes(schema))
            self._steps.append(step)
        self._keeps_steps = not any(isinstance(step, ReordersSteps) and step.moves_steps for step in self._steps)
        for number, parameters in (learned or {}).items():
            self.take(int(number), parameters)
        self.most_records = max(1, _TENSOR_BYTES // max(1, widest))
        """Maximum number of samples in a batch. Samples can be small when they are read, but their tensors must fit into memory."""
        features = spec.features
        if features is None and sagemaker.is_flat_idx(spec):
            label_columns = {column for label in spec.labels or [] for column in label.columns or [label.name]}
            schema = pa.schema([field for field in schema if field.name not in _SIZES or field.name in label_columns])
        if spec.output.provenance:
            schema, features = provenance.schema_with(schema), provenance.features_with(features)
        self._projector: Projector = resolve(
            features,
            spec.labels,
            schema=schema,
            default_label=reader_type.default_label,
            output=spec.output,
            nulls=access.nulls,
            defaults=self.defaults,
            kept=KeptTypes(encoder_class(spec.output.format).keeps, exact=_exact(self.reader)) if access.keeps_types else None,
        )

    def read_from(self, reader: SampleReader) -> None:
        """Switches to another reader.

        The new reader must return the same batches as the previous reader. Closing the new reader must also close the previous reader.
        """
        self.reader = reader

    def close(self) -> None:
        """Closes the reader."""
        self.reader.close()

    @property
    def features(self) -> list[FeatureSpec]:
        """The features of the records."""
        if not sagemaker.is_flat_idx(self.spec):
            return self._projector.features
        return [
            replace(feature, shape=(math.prod(feature.shape),)) if len(feature.shape) > 1 else feature
            for feature in self._projector.features
        ]

    @property
    def warnings(self) -> list[str]:
        """Warnings about the features, such as a float64 that is stored as float32."""
        return list(self._projector.warnings)

    def types(self) -> dict[str, str]:
        """Returns the types in which the format keeps the features, and the units of the source's time columns.

        Each key names a feature or a column as error messages do, for example `the feature 'x'`.
        """
        kept = {f"the feature {feature.name!r}": str(feature.kept or feature.dtype) for feature in self.features}
        return kept | {f"the times of the column {name!r}": unit for name, unit in units_of_times(self.reader.schema()).items()}

    def class_names(self) -> dict[str, list[str]]:
        """Returns the class names of each feature whose column has named classes, keyed by feature."""
        by_column = self.reader.classes()
        for step in self._steps:
            by_column = step.classes(by_column) if isinstance(step, NamesClasses) else by_column
        return {feature: by_column[column] for feature, column in self._projector.sources.items() if column in by_column}

    def unfitted_steps(self) -> list[tuple[int, str]]:
        """Returns (step number, split to learn from) for the steps that must see data before they can be applied."""
        splits = [(number, step.fitted_split) for number, step in enumerate(self._steps) if isinstance(step, Fittable)]
        return [(number, split) for number, split in splits if split is not None]

    def learn(self, number: int, units: Units, samples: Iterator[Samples]) -> Any:
        """Applies the earlier steps to these samples, lets a step learn from the results, and returns the learned values."""
        step = self._steps[number]

        def before() -> Iterator[Batch]:
            for batch in self.reader.read(units, samples):
                for earlier in self._steps[:number]:
                    batch = earlier.apply(batch)
                yield batch

        return step.fit(before()) if isinstance(step, Fittable) else None

    def take(self, number: int, learned: Any) -> None:
        """Gives a step its learned values, which can come from another process."""
        step = self._steps[number]
        if isinstance(step, Fittable):
            step.load(learned)

    def encoder(self) -> Encoder:
        """Returns a new encoder for one shard."""
        encoder = encoder_class(self.spec.output.format)(self.spec.output, self.features)
        if isinstance(encoder, TakesClasses):
            encoder.take_classes(self.class_names())
        return encoder

    def batches(self, units: Units, samples: Iterator[Samples]) -> "BatchStream":
        """Returns the stream of finished batches for arrays of sample numbers. Each array becomes one or more batches."""
        return BatchStream(self, units, samples)

    def read(self, units: Units, samples: Iterator[Samples]) -> Generator[Batch, None, None]:
        """Reads batches ahead of the steps, so that slow sources are read while the steps compute."""
        batches = self.reader.read(units, samples)
        # Don't read ahead if `_with_lines` also uses the reader, because only one thread may use a reader.
        is_alone = not self._steps or isinstance(self.reader, HasLines | HasSteps)
        yield from batches if is_alone else prefetched(batches, depth=1)

    def finish(self, batch: Batch, units: Units) -> Iterator[tuple[Batch, dict[str, int]]]:
        """Applies the steps to a batch, which can split the batch, and projects the results onto the features.

        Yields each resulting batch, and a dict that maps each reason to the number of records that are bad for this reason.
        """
        unreadable = {bad.sample for bad in batch.bad}
        for part in _apply(self._steps, batch):
            bad = [0, sum(rejected.sample in unreadable for rejected in part.bad), len(part.bad)]
            if self.spec.output.provenance:
                part = replace(part, records=provenance.add_columns(part, units, self.reader))
            part = self._with_lines(self._projector.project(part), units, unreadable)
            bad.append(len(part.bad))
            yield part, {reason: after - before for reason, before, after in zip(REFUSALS, bad, bad[1:], strict=False) if after > before}

    def _with_lines(self, batch: Batch, units: Units, unreadable: Collection[int]) -> Batch:
        """If the source has lines, adds the line to the reason of each sample that a step or a feature refused."""
        refused = [bad for bad in batch.bad if bad.sample not in unreadable]
        samples = [bad.sample for bad in refused]
        if refused and isinstance(self.reader, HasSteps):
            places_in_source = self.reader.places(units, [bad if self._keeps_steps else replace(bad, step=None) for bad in refused])
        elif refused and isinstance(self.reader, HasLines):
            places_in_source = [f"line {line}" for line in self.reader.lines(units, np.array(samples, np.int64)).tolist()]
        else:
            return batch
        places = dict(zip(samples, places_in_source, strict=True))
        bad = [replace(bad, reason=f"{places[bad.sample]}: {bad.reason}") if bad.sample in places else bad for bad in batch.bad]
        return replace(batch, bad=bad)

    def encoded_size(self, units: Units, samples: Samples) -> tuple[int, int]:
        """Returns (size of the encoded records, number of good records) for a few samples."""
        size = good = 0
        parts = (samples[first : first + self.most_records].astype(np.int64) for first in range(0, len(samples), self.most_records))
        with self.encoder() as encoder, closing(iter(self.batches(units, parts))) as batches:
            for batch in batches:
                size += len(encoder.encode(batch.records))
                good += batch.records.num_rows
            return size + len(encoder.close()) + sum(map(len, encoder.rest())), good


class BatchStream:
    """Yields the finished batches of some samples, measures the time of each stage, and counts bad records. Can be iterated only once."""

    def __init__(self, pipeline: Pipeline, units: Units, samples: Iterator[Samples]) -> None:
        self.seconds: defaultdict[str, float] = defaultdict(float)
        """Time by stage."""
        self.refused: Counter[str] = Counter()
        """Bad records by reason."""
        self._pipeline = pipeline
        self._units = units
        self._samples = samples

    def __iter__(self) -> Generator[Batch, None, None]:
        with closing(self._pipeline.read(self._units, self._samples)) as batches:
            while True:
                started = perf_counter()
                batch = next(batches, None)
                was_read = perf_counter()
                self.seconds["read"] += was_read - started
                if batch is None:
                    return
                for finished, refused in self._pipeline.finish(batch, self._units):
                    self.refused.update(refused)
                    self.seconds["transform"] += perf_counter() - was_read
                    yield finished
                    was_read = perf_counter()


def _exact(reader: SampleReader) -> Collection[str]:
    """Returns the decimal columns for which the reader also returns the original text if digits are lost."""
    return reader.lost_of if isinstance(reader, BlockReader) else ()


def _exact_decimals(reader: SampleReader, schema: pa.Schema) -> list[str]:
    """Returns the columns from `_exact` whose original type is a decimal type and whose values aren't lists."""
    were = {name: original(schema.field(name)) for name in _exact(reader) if schema.field(name).type == pa.float64()}
    return [name for name, was in were.items() if was is not None and pa.types.is_decimal(was.type)]


def _apply(steps: Sequence[Step], batch: Batch) -> Iterator[Batch]:
    """Applies all steps to the batch. If a step splits the batch, the following steps are applied to each part."""
    for number, step in enumerate(steps):
        batch = step.apply(batch)
        if isinstance(step, CutsBatches):
            for part in step.cut(batch):
                yield from _apply(steps[number + 1 :], part)
            return
    yield batch
