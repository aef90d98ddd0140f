"""The decisions about a write that the driver makes before the tasks begin. `attempts.py` does the work of a task."""

import secrets
from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from typing import Any, Final

import pyarrow as pa

from dataprep_api import names
from dataprep_api.dataset import run_id
from dataprep_api.dataset.report import Success
from dataprep_api.spec import DataPrepJobSpec
from dataprep_api.spec.sources.arrow import ArrowSource
from dataprep_converter.core.errors import BadSpec, NotWhole, OutputExists
from dataprep_converter.dataset.frame_rows import Engine
from dataprep_converter.dataset.output_folder import OutputFolder
from dataprep_converter.dataset.stored_folder import StoredFolder
from dataprep_converter.formats.registry import encoder_class
from dataprep_converter.inputs.access import Access
from dataprep_converter.stores import MovesFiles, StoreSettings, WritesAside
from dataprep_converter.stores.read_only import ReadOnlyStore
from dataprep_frames.options import Mode, WriteOptions

ROW_BITS: Final = 33
"""A row's number is the partition's number, followed by this many bits for the row's number in the partition. Spark's
`monotonically_increasing_id` numbers rows like this."""


@dataclass(frozen=True)
class Write:
    """The information about a write that the driver sends to the tasks."""

    options: WriteOptions
    settings: tuple[StoreSettings, ...]
    run_id: str
    inputs_sha256: str
    """A random number. It makes the run id random, because a data frame has no pins."""
    schema: pa.Schema | None = None
    """The columns to write. None if only the tasks know them."""
    state: dict[str, Any] = field(default_factory=dict)
    """The reader's state: the columns as the pipeline sees them."""
    first_partition: int = 0
    """The number of the first partition. If this write appends, smaller numbers belong to earlier writes."""
    success: Success | None = None
    """The `_SUCCESS` of the data set that the folder held when this write began. The commit is refused if `_SUCCESS` has changed since."""
    existing_state: dict[str, Any] | None = None
    """The reader's state of the data set to which this write appends."""
    existing_template: str | None = None
    """The template of the files' names in the data set to which this write appends."""
    is_skipped: bool = False
    """Whether to write nothing, because the mode is `ignore` and there is already a data set."""

    @property
    def spec(self) -> DataPrepJobSpec:
        """The job that would write the data set."""
        return self.options.spec

    @property
    def engine(self) -> Engine:
        """The engine whose rows are written."""
        return self.options.engine

    @property
    def mode(self) -> Mode:
        """The save mode."""
        return self.options.mode

    @property
    def known_schema(self) -> pa.Schema:
        """The columns to write. Raises TypeError if they aren't known yet."""
        if self.schema is None:
            raise TypeError("the columns aren't known yet")
        return self.schema

    @property
    def source(self) -> ArrowSource:
        """The spec's source."""
        return source_of(self.spec)

    @property
    def parts(self) -> dict[str, int]:
        """The versions of the rules that affect the bytes."""
        return run_id.versions(self.spec)

    @property
    def template(self) -> str:
        """The template of the files' names."""
        return self.existing_template or names.file_name_template(
            self.spec.output.template, shards=2, format_=self.spec.output.format, several_splits=self.options.split_column is not None
        )

    @property
    def extension(self) -> str:
        """The extension of the files' names."""
        return encoder_class(self.spec.output.format).extension(self.spec.output)

    def access(self) -> Access:
        """Returns access to the stores, with the rules of this write."""
        access = Access(self.settings)
        access.write_to(self.spec.output.uri)
        access.follow(self.spec, self.parts)
        return access

    def attempt_uri(self, attempt: str) -> str:
        """Returns the folder of one attempt of a task."""
        return names.join(self.spec.output.uri, f"{names.intermediate_folder(self.run_id)}/{attempt}")


def source_of(spec: DataPrepJobSpec) -> ArrowSource:
    """Returns the source of a spec whose rows come from a data frame."""
    source = spec.data.member
    if not isinstance(source, ArrowSource):
        raise TypeError("the source of a data frame's data set is arrow")
    return source


def planned_write(options: WriteOptions, settings: Iterable[StoreSettings]) -> Write:
    """Decides, before any task begins, how a data frame is written. The columns are decided later. Changes nothing in the store.

    Raises BadSpec for a store that can't be written, and OutputExists if the save mode is `errorifexists` and there is a data set.
    """
    spec = options.spec
    inputs_sha256 = secrets.token_hex(32)
    write = Write(
        options=options,
        settings=tuple(settings),
        run_id=run_id.run_id(spec, inputs_sha256=inputs_sha256),
        inputs_sha256=inputs_sha256,
    )
    fault = names.template_fault(write.template, several_splits=options.split_column is not None, several_shards=True)
    if fault:
        raise BadSpec(f"fileName {write.template!r}: {fault}.")
    access = write.access()
    _check_store(write, access)
    success = OutputFolder(spec.output.uri, access).success()
    if success is not None and write.mode == "ignore":
        return replace(write, is_skipped=True)
    if success is not None and write.mode == "errorifexists":
        raise OutputExists(
            f"{spec.output.uri} holds the finished data set of run {success.run_id}, and the save mode is errorifexists. Use the mode overwrite, "
            "append or ignore, or choose another URI.",
            uri=spec.output.uri,
        )
    return replace(write, success=success)


def _check_store(write: Write, access: Access) -> None:
    """Raises BadSpec for a store that can't be written file by file."""
    uri = write.spec.output.uri
    store = access.store(uri)
    if isinstance(store, ReadOnlyStore):
        raise store.refusal(uri)
    if isinstance(store, WritesAside):
        raise BadSpec(
            f"{uri}: {write.engine.name} can't write to the Hub, where each file would become visible as soon as it is written. Write to another store, and "
            "copy the finished data set with dataprep copy.",
            uri=uri,
        )


def check_unchanged(write: Write, folder: OutputFolder) -> None:
    """Raises NotWhole if the folder no longer holds the data set that it held when this write began."""
    before, now = write.success, folder.success()
    if now == before:
        return
    if now is None and before is not None:
        what = f"The data set of run {before.run_id} in {folder.uri} is no longer finished: another run replaces it, or its _SUCCESS was removed"
    else:
        what = f"Another run, {now and now.run_id}, has finished a data set in {folder.uri} while these rows were written"
    raise NotWhole(f"{what}. Nothing was changed there. Write the {write.engine.frame} again.", uri=folder.uri)


def remove_folder(uri: str, access: Access) -> None:
    """Removes a folder of attempts with all files and uploads in it."""
    store = access.store(uri)
    if isinstance(store, MovesFiles):
        store.remove_folder(uri)
        return
    folder = StoredFolder(uri, access)
    for path, _ in list(folder.all_files()):
        folder.delete(path)
    folder.sweep()
