"""The reader: yields a data set's batches, epoch after epoch, and keeps its position. `passes.py` reads the batches."""

import hashlib
import os
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, replace
from functools import cached_property
from typing import Any, NamedTuple

import pyarrow as pa

from dataprep_api.dataset.report import Manifest
from dataprep_converter.inputs.access import Access
from dataprep_converter.sampling.selection import SHUFFLE
from dataprep_converter.stores import StoreSettings, scheme_of
from dataprep_reader import flow, position
from dataprep_reader.arrays import as_numpy, mask_name, rows_of
from dataprep_reader.dataset import DataSet
from dataprep_reader.notebook import html_table
from dataprep_reader.options import Options
from dataprep_reader.passes import Passes
from dataprep_reader.position import Place
from dataprep_reader.shards import ShardLayout


class Feature(NamedTuple):
    """The type and shape of a feature's arrays."""

    dtype: str
    """numpy's type name, or `bytes`, or `text` for str."""
    shape: tuple[int, ...]
    """The shape of one record's value: () for one number. -1 stands for any length."""


class Reader:
    """Batches of a finished data set, made by `dataprep_reader.open`.

    Each `for` loop is a pass through `epochs` epochs. The next loop continues with the epochs that follow, so every epoch has its own
    order. After a `break`, the next loop starts the interrupted pass again, unless `restore` sets another position. A reader can be
    pickled; the unpickled copy opens its own clients.
    """

    def __init__(
        self,
        data_set: DataSet,
        *,
        columns: Sequence[str] | None,
        masks: Sequence[str] = (),
        settings: Sequence[StoreSettings],
        options: Options,
    ) -> None:
        self._data_set = data_set
        self._columns = None if columns is None else tuple(columns)
        self._masks = tuple(masks)
        self._settings = tuple(settings)
        self._options = options
        self._passes = Passes(data_set, columns=self._columns, settings=self._settings, options=options)
        self._place = Place(0, 0, 0)
        self._resumes = False
        self._states: list[Mapping[str, Any]] = []
        self._begun: Place | None = None
        self._process = os.getpid()
        self._check_masks(ShardLayout(data_set, Access(settings), self._columns).features)

    def _check_masks(self, features: Sequence[Mapping[str, Any]]) -> None:
        """Raises ValueError for masks that the batches can't have."""
        if self._masks and not self.yields_numpy:
            raise ValueError(
                "masks need numpy batches, because Arrow batches contain the nulls themselves: leave out masks or as_='arrow'."
            )
        by_name = {feature["name"]: feature for feature in features}
        for name in self._masks:
            if name not in by_name:
                raise ValueError(f"masks: the batches have no feature {name!r}. Their features are {', '.join(by_name)}.")
            if -1 in by_name[name]["shape"]:
                raise ValueError(
                    f"masks: {name!r} can't have a mask, because it contains lists of any length, whose nulls are read as empty lists."
                )
            if mask_name(name) in by_name:
                raise ValueError(f"masks: the mask of {name!r} would be named {mask_name(name)!r}, but there is a feature with this name.")

    # --- the data set -----------------------------------------------------------------------------------------

    @property
    def manifest(self) -> Manifest:
        """The data set's manifest, with splits, files and digests."""
        return self._data_set.manifest

    @property
    def records(self) -> int:
        """Number of records in an epoch, for all ranks together."""
        return self._data_set.records

    @property
    def batches(self) -> int:
        """Number of batches in an epoch, for this rank."""
        return self._passes.share.batches

    @property
    def fixed_batch_size(self) -> int | None:
        """The number of records in every batch, or None if the last batch of an epoch may be smaller."""
        return self._options.batch_size if self._options.drop_remainder else None

    @property
    def yields_numpy(self) -> bool:
        """Whether batches are dictionaries of numpy arrays, rather than Arrow batches."""
        return self._options.as_ == "numpy"

    @property
    def masks(self) -> tuple[str, ...]:
        """The features that have a mask in the batches."""
        return self._masks

    @property
    def classes(self) -> dict[str, list[str]]:
        """Maps each label to its class names, in the order of the classes' numbers. Only labels with class names are included."""
        return {name: list(class_names) for name, class_names in self.manifest.labels.items()}

    @property
    def features(self) -> dict[str, Feature]:
        """Maps the name of each feature in the batches to the feature's type and shape. The mask of a feature follows the feature."""
        described: dict[str, Feature] = {}
        for feature in ShardLayout(self._data_set, Access(), self._columns).features:
            name = feature["name"]
            described[name] = Feature("text" if feature.get("text") else feature["dtype"], tuple(feature["shape"]))
            if name in self._masks:
                described[mask_name(name)] = Feature("bool", ())
        return described

    @property
    def schema(self) -> pa.Schema:
        """The columns of Arrow batches: tensors, large lists, large strings and binaries."""
        return ShardLayout(self._data_set, Access(), self._columns).schema

    def __len__(self) -> int:
        """Number of batches in one pass, for this rank. Raises TypeError if the pass never ends."""
        if self._options.epochs is None:
            raise TypeError("A reader with epochs=None has no length; `batches` is the number of batches in one epoch.")
        return self.batches * self._options.epochs

    def __repr__(self) -> str:
        return f"<Reader of {self._data_set.uri}: {self.records:,} records, {len(self.features)} features>"

    def _repr_html_(self) -> str:
        """Returns the features and the number of records, for a notebook."""
        features = {name: f"{feature.dtype} {list(feature.shape) or ''}" for name, feature in self.features.items()}
        return html_table(f"{self._data_set.uri}: {self.records:,} records", features)

    def part(self, number: int, parts: int) -> "Reader":
        """Returns a reader of one part of this rank's records. Parts are numbered from 0.

        The records are divided into `parts` equal parts, as if there were `parts` times as many ranks. If the states of all ranks have been
        restored, the parts continue where these ranks stopped. Raises ValueError if only this rank's state has been restored and its
        position is in the middle of an epoch.
        """
        mine = self._options
        part = Reader(
            self._data_set,
            columns=self._columns,
            masks=self._masks,
            settings=self._settings,
            options=replace(mine, rank=mine.rank * parts + number, world_size=mine.world_size * parts),
        )
        part._process = self._process
        start = self._start
        if self._states:
            part.restore(self._states)
        elif start.batch and parts > 1:
            raise ValueError(
                f"The state of rank {mine.rank} can't be divided into {parts} parts in the middle of an epoch: restore the states of all"
                " ranks, as a list."
            )
        else:
            part._place, part._resumes = start, True
        return part

    # --- the position --------------------------------------------------------------------------------------------

    def state(self, *, batches: int | None = None) -> dict[str, Any]:
        """Returns the position after the last batch that the reader yielded. Pass this position to `restore`.

        If something between the reader and the loop takes batches in advance, set `batches` to the number of batches that the loop has used
        since its start. The position is a small dictionary that can be stored as JSON. Raises ValueError if the loop has fewer than
        `batches` batches.
        """
        place = self._place if batches is None else self._passes.after(self._begun or self._start, batches)
        return position.described(place, self._identity)

    def restore(self, state: Mapping[str, Any] | Sequence[Mapping[str, Any]]) -> None:
        """Makes the next `for` loop continue at the position that `state` describes.

        `state` is the state of this rank, or a list of the states of all ranks, which were taken at the same time. With a list, the number
        of ranks and the batch size may have changed: the unread records of the epoch are divided among the current ranks, so that each
        record is read once. The states of loaders, such as torchdata's StatefulDataLoader, are also accepted, because they contain the
        states of the loaders' workers.

        Raises ValueError if the state was taken from a reader with a different record order; the message names the difference.
        """
        states: list[Mapping[str, Any]] = position.found(state)
        own = next((each for each in states if each["of"] == self._identity), None)
        if isinstance(state, Mapping) and (position.is_state(state) or not states):
            own, states = state, []
        if own is None:
            place = position.merged(states, self._identity, records=self.records)
        else:
            place = position.parsed(own)
            position.check_same(own["of"], self._identity, list(self._identity))
        self._place, self._resumes, self._states, self._begun = place, True, states, None

    def set_epoch(self, epoch: int) -> None:
        """Makes the next `for` loop begin with this epoch. PyTorch's samplers have a method with the same name."""
        self._place, self._resumes, self._states, self._begun = Place(epoch, epoch, 0), False, [], None

    @property
    def _start(self) -> Place:
        """The position at which the next loop begins."""
        return self._place if self._resumes else Place(self._place.first, self._place.first, 0)

    @cached_property
    def _identity(self) -> dict[str, Any]:
        """The values that determine the order of the records."""
        files = "".join(f"{file.sha256}  {file.file}\n" for file in self._data_set.files)
        data = hashlib.sha256(f"{self.manifest.run_id}\n{files}".encode()).hexdigest()[:16]
        mine = self._options
        decisive = ("batch_size", "shuffle", "drop_remainder", "rank", "world_size")
        window = {} if mine.shuffle is None else {"shuffle_window": self._passes.window, "shuffle_version": SHUFFLE}
        return {"data": data} | {name: value for name, value in asdict(mine).items() if name in decisive} | window

    # --- reading -------------------------------------------------------------------------------------------------

    def __iter__(self) -> Iterator[Any]:
        """Yields batches. Their type is Any, because `as_` decides whether they are dictionaries of arrays or RecordBatches."""
        mine = self._options
        self._check_process()
        start = self._begun = self._start
        self._place, self._resumes, self._states = start, False, []
        batches = self._in_wanted_form(self._passes.batches(start))
        for place, batch in flow.ahead(batches, depth=mine.prefetch) if mine.prefetch else batches:
            self._place = place
            yield batch
            del batch
        if mine.epochs is not None:
            after = start.first + mine.epochs
            self._place, self._resumes = Place(after, after, 0, start.rests_from(after)), True

    def _in_wanted_form(self, batches: Iterator[tuple[Place, pa.RecordBatch]]) -> Iterator[tuple[Place, Any]]:
        """Yields the batches as arrays if the caller wants arrays."""
        for place, batch in batches:
            yield place, as_numpy(batch, self._masks) if self.yields_numpy else batch
            del batch

    def rows(self) -> Iterator[dict[str, Any]]:
        """Yields the records of one pass one at a time, for libraries that make their own batches, such as Hugging Face's `datasets`.

        A record contains elements of the numpy arrays: NumPy numbers, arrays, strings and bytes. A null is None, or NaN in a feature of
        floats. Reading single records is slower than reading batches. The reader's state is the position after the batch that contains the
        record.
        """
        for batch in self:
            yield from rows_of(batch if self.yields_numpy else as_numpy(batch))

    def _check_process(self) -> None:
        """Raises RuntimeError for a remote store if this process was forked after the store's clients were made."""
        is_remote = scheme_of(self._data_set.uri) not in ("", "file")
        if is_remote and os.getpid() != self._process:
            raise RuntimeError(
                f"The clients of {self._data_set.uri} were made in another process and don't work after a fork: start workers"
                " with the spawn method (for a DataLoader: multiprocessing_context='spawn')."
            )

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__ = {**state, "_process": os.getpid()}
