"""Makes the metadata of a finished data set: small files that its readers expect. Each kind of metadata has its own module.

These files have hidden names, so that a reader of all visible files in the folder finds only data. The only metadata files with visible
names are the files that a format's own reader opens by name (`names.split_files`). The commit step writes the metadata before the manifest,
which contains the files' sizes and digests.
"""

import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pkgutil import resolve_name
from typing import Final, TypeAlias

from dataprep_api.dataset.report import Manifest
from dataprep_api.spec import DataPrepJobSpec
from dataprep_converter.dataset.manifest_table import listed_metadata
from dataprep_converter.formats.registry import FORMATS, format_of
from dataprep_converter.records.feature import FeatureSpec
from dataprep_converter.statistics.statistics import SplitStatistics

METADATA: Final[Mapping[str, str]] = {
    "statistics": "dataprep_converter.dataset.sidecars.statistics:make",
    "labels": "dataprep_converter.dataset.sidecars.labels:make",
    "paths": "dataprep_converter.dataset.sidecars.paths:make",
    "tfds": "dataprep_converter.dataset.sidecars.tfds:make",
    "croissant": "dataprep_converter.dataset.sidecars.croissant:make",
    "loaders": "dataprep_converter.dataset.sidecars.loaders:make",
    "mds_index": "dataprep_converter.dataset.sidecars.mds_index:make",
}
"""Maps each kind of metadata to the function that makes it.

To add a kind, add one entry to this table, and one module. If only some formats have this kind of metadata, also name the kind in the
entries of these formats in `FORMATS`. Kinds of files with visible names come last, so that a failure before them leaves no visible file.
"""

_OF_SOME_FORMATS: Final = frozenset(kind for format_ in FORMATS.values() for kind in format_.sidecars)

PLACED: Final[Mapping[str, str]] = {
    "paths": "dataprep_converter.dataset.sidecars.paths:place",
    "sagemaker": "dataprep_converter.dataset.sidecars.sagemaker:place",
}
"""Maps each kind of metadata that contains the data set's location to the function that makes it.

The manifest is the same at any location, so it doesn't list these files. A copy of the data set gets new files with its own location.
"""


@dataclass(frozen=True)
class FinishedDataSet:
    """Everything that is known about a data set when its last shard is finished."""

    spec: DataPrepJobSpec
    uri: str
    """The data set's location.

    Only the files of `PLACED` may contain the location. In any other file, the location would be wrong in a copy of the folder.
    """
    manifest: Manifest
    """The manifest as it is before the metadata files are added."""
    features: Sequence[FeatureSpec]
    raw_sizes: Sequence[int]
    """The size of each shard before compression, in the order of `manifest.files`."""
    unindexed: int
    """The number of shards without a record index."""
    statistics: Mapping[str, SplitStatistics] = field(default_factory=dict)
    """The statistics of each split, from all reports."""

    @property
    def nullable(self) -> frozenset[str]:
        """The names of the features that have nulls in any split. Empty if the job computes no statistics of features."""
        return frozenset(name for split in self.statistics.values() for name, summary in split.features.items() if summary.missing)


Made: TypeAlias = Iterator[tuple[str, bytes]]
"""A pair (path relative to the output, content) for each file. In each path, at least one part begins with `_`."""


def files(finished: FinishedDataSet) -> Made:
    """Yields the files of all kinds, in the order of `METADATA`. Equal data sets have equal metadata."""
    own = format_of(finished.manifest.format).sidecars
    for kind, place in METADATA.items():
        if kind in own or kind not in _OF_SOME_FORMATS:
            make: Callable[[FinishedDataSet], Made] = resolve_name(place)
            yield from make(finished)


def location_files(uri: str, manifest: Manifest) -> Made:
    """For a data set in the folder `uri`, yields the files that contain the data set's location.

    Files that the manifest lists aren't yielded, because older versions of dataprep made these files without the data set's location.
    """
    manifest_files = {file.file for file in listed_metadata(manifest)}
    for place in PLACED.values():
        make: Callable[[str, Manifest], Made] = resolve_name(place)
        yield from filter(lambda file: file[0] not in manifest_files, make(uri, manifest))


def absolute(uri: str) -> str:
    """Returns the absolute URI of a folder. A local path becomes `file:///…`."""
    path = uri.removeprefix("file://")
    return uri.rstrip("/") if "://" in path else f"file://{os.path.abspath(path)}"  # noqa: PTH100 - symbolic links are kept
