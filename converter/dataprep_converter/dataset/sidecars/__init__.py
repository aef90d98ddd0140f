"""Metadata: the small files around a finished data set that its readers expect. One file per kind.

Nothing of it has a visible name: a reader that takes every visible file of the folder finds data and nothing else. (The exception is what a
format's own reader asks for by name: `names.split_files`.) The commit step writes these files before the manifest, which has their sizes and digests.
"""

import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pkgutil import resolve_name
from typing import Final, TypeAlias

from dataprep_api.dataset.report import Manifest, ShardReport
from dataprep_api.spec import DataPrepJobSpec
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
"""Kind → function. Adding a kind is one line here and one file, and a word in the entries of the formats (`FORMATS`) that alone have it."""

_OF_SOME_FORMATS: Final = frozenset(kind for format_ in FORMATS.values() for kind in format_.sidecars)

PLACED: Final[Mapping[str, str]] = {
    "paths": "dataprep_converter.dataset.sidecars.paths:place",
    "sagemaker": "dataprep_converter.dataset.sidecars.sagemaker:place",
}
"""The same of files that say where the data set lies. The manifest, which is equal wherever it lies, doesn't name them; a copy gets its own."""


@dataclass(frozen=True)
class Finished:
    """All that is known of a data set when its last shard is there."""

    spec: DataPrepJobSpec
    uri: str
    """Where it lies. Not for the contents of these files: a copy of the folder must stay right. Those of `PLACED` say it."""
    manifest: Manifest
    """Without the metadata files themselves."""
    reports: Sequence[ShardReport]
    """In the order of `manifest.files`."""
    features: Sequence[FeatureSpec]
    statistics: Mapping[str, SplitStatistics] = field(default_factory=dict)
    """By split, of all reports."""


Made: TypeAlias = Iterator[tuple[str, bytes]]
"""(path relative to the output, content) of each file; a part of each path begins with `_`."""


def files(finished: Finished) -> Made:
    """All files of all kinds, in the registry's order. Deterministic: equal data sets have equal metadata."""
    own = format_of(finished.manifest.format).sidecars
    for kind, place in METADATA.items():
        if kind in own or kind not in _OF_SOME_FORMATS:
            make: Callable[[Finished], Made] = resolve_name(place)
            yield from make(finished)


def placed(uri: str, manifest: Manifest) -> Made:
    """The files that say where the data set lies, for a folder. Those that the manifest names are left out: older versions made them for any place."""
    known = {file.file for file in manifest.metadata}
    for place in PLACED.values():
        make: Callable[[str, Manifest], Made] = resolve_name(place)
        yield from (made for made in make(uri, manifest) if made[0] not in known)


def absolute(uri: str) -> str:
    """The URI of a folder as others read it, from anywhere: a path of this machine becomes `file:///…`."""
    path = uri.removeprefix("file://")
    return uri.rstrip("/") if "://" in path else f"file://{os.path.abspath(path)}"  # noqa: PTH100 - links stay links
