"""The output folder: its owner, the files of each run, and the finished data set.

<output>/train-00000-of-00008.tfrecords     the shards; no other names are visible (`mds` also has an index.json in each split)
<output>/_SUCCESS                           written last; names the manifest and its digest
<output>/_dataprep/OWNER                    the run that may write to this folder
<output>/_dataprep/removed/<run id>/        files that are being removed, on stores with folders (`fencing`)
<output>/_dataprep/<run id>/plan.json, units.parquet, splits.parquet, quarantine/, manifest.json, manifest-files.parquet
<output>/_dataprep/<run id>/reports/        <shard>.json; from-<shard>.jsonl repeats the reports of consecutive shards
<output>/_dataprep/<run id>/made/           files that the reader made during planning; deleted once the data set is finished
<output>/_dataprep/scan-<digest>/           the listing for the pods of a scan, and their results; deleted once the plan is stored
<output>/_dataprep/join-<digest>/           the joined rows that Spark's executors write; deleted once the driver has read them
<output>/_dataprep/<run id>/shuffle/        the records of a shuffle in two rounds; deleted once the data set is finished
<output>/_dataprep/index/<shard>.idx        the offset of each record, for shards with such an index
<output>/_dataprep/…, _tfds/…               files for the data set's readers (`sidecars/`), written by the commit step
"""

import contextlib
import hashlib
import logging
from collections.abc import Iterable, Iterator, Sequence
from itertools import starmap
from typing import TypeVar

from pydantic import ValidationError

from dataprep_api import names
from dataprep_api.dataset.plan import Maker, Owner, PlanHead, shards
from dataprep_api.dataset.report import Manifest, ManifestTable, ShardReport, Success
from dataprep_api.dataset.stored import StoredDocument
from dataprep_api.errors import FormatError
from dataprep_api.spec import HdfsOptions
from dataprep_converter.core.errors import (
    AlreadyExists,
    ConvertError,
    InputChanged,
    NewerFormat,
    NotFound,
    NotWhole,
    OutputLost,
)
from dataprep_converter.dataset import fencing, manifest_table, script_files
from dataprep_converter.dataset.manifest_paths import check_paths
from dataprep_converter.dataset.manifest_types import check_types
from dataprep_converter.dataset.stored_folder import StoredFolder
from dataprep_converter.inputs.access import Access
from dataprep_converter.runtime import makers
from dataprep_converter.runtime.temporary import IN_MEMORY, TemporaryFile
from dataprep_converter.sampling.intermediate_files import IntermediateFiles
from dataprep_converter.sampling.plan import Plan, Tables, WholePlan, load_codes, load_plan
from dataprep_converter.sampling.stored_units import StoredUnits
from dataprep_converter.sampling.units_file import UnitsFile
from dataprep_converter.stores import MovesFiles
from dataprep_converter.stores.publish import digest_of, write_file

S = TypeVar("S", bound=StoredDocument)

logger = logging.getLogger(__name__)


class OutputFolder(StoredFolder):
    """An output folder, independent of a run: its files, its owner, and the finished data set."""

    def of_run(self, run_id: str) -> "RunFolder":
        """Returns the same folder, with access to the files of one run."""
        return RunFolder(self._given_uri, self._access, run_id)

    def owner(self) -> Owner | None:
        """Returns the run that may write here, or None. Raises NotWhole if OWNER is damaged."""
        content = self.read(names.OWNER)
        try:
            return self.parse(Owner, names.OWNER, content) if content is not None else None
        except ValidationError:
            uri = self.at(names.OWNER)
            raise NotWhole(f"{uri} is damaged, so the run that owns this folder is unknown.", uri=uri) from None

    def success(self) -> Success | None:
        """Returns the content of `_SUCCESS`, or None if it doesn't exist. Raises NotWhole if dataprep didn't write the file."""
        content = self.read(names.SUCCESS)
        if content is None:
            return None
        try:
            return Success.model_validate_json(content)
        except ValidationError:
            raise NotWhole(
                f"{self.at(names.SUCCESS)} was not written by dataprep: expected a JSON object with runId, manifest and sha256."
            ) from None

    def manifest(self, success: Success) -> Manifest:
        """Returns the manifest that `_SUCCESS` names.

        Raises NotWhole if the manifest or its table is missing or has the wrong digest. Also raises NotWhole if a field of the manifest has
        a value that dataprep never writes.
        """
        uri = self.at(success.manifest)
        content = self.read(success.manifest)
        if content is None:
            raise NotWhole(f"{self.at(names.SUCCESS)} names {success.manifest}, which is missing.")
        sha256 = hashlib.sha256(content).hexdigest()
        if sha256 != success.sha256:
            raise NotWhole(f"{uri} was changed: its SHA-256 is {sha256}, but _SUCCESS states {success.sha256}.")
        try:
            manifest = self.parse(Manifest, success.manifest, content)
        except ValidationError as exc:
            fault = exc.errors()[0]
            at = ".".join(map(str, fault["loc"]))
            raise NotWhole(f"{uri} was not written by dataprep: {at and f'{at}: '}{fault['msg']}.", uri=uri) from exc
        check_types(manifest, uri)
        check_paths(manifest, uri)
        return self.with_table(manifest)

    def with_table(self, head: Manifest) -> Manifest:
        """Returns the complete manifest with this head. If the shards are in a table, reads the table. Raises NotWhole if the table is
        missing or was changed."""
        if head.file_table is None:
            return head
        uri = self.at(head.file_table.file)
        try:
            with self._store.open(uri) as source:
                file = TemporaryFile.of(head.file_table.file, source.stream(), in_memory=IN_MEMORY)
        except NotFound:
            raise NotWhole(f"{uri} is missing. The manifest names this file.", uri=uri) from None
        with file:
            return manifest_table.with_rows(head, file, uri)

    def known_files(self, paths: Iterable[str]) -> set[str]:
        """Returns the subset of these visible files that dataprep planned in this folder, in any run.

        A new run is allowed to delete the returned files.
        """
        unknown = set(paths)
        known = set[str]()

        def know(planned: Iterable[str]) -> None:
            found = unknown.intersection(planned)
            known.update(found)
            unknown.difference_update(found)

        for path, _ in self._list(names.SIDE):
            if not path.endswith("/plan.json"):
                continue
            try:
                head = self.parse(PlanHead, path, self._store.get(self.at(path)))
            except ValidationError:
                logger.warning("%s is damaged, so the only known files of this run are those that its reports name", self.at(path))
                continue
            made_by_script = head.reader == script_files.READER
            of_script = list(script_files.match_any(head.reader_state["outputs"], unknown | known)) if made_by_script else []
            know(of_script or (shard.file for shard in shards(head)))
            know(names.split_files(head.extension, of_script or (shard.file for shard in shards(head))))
        for path, _ in self._list(names.SIDE) if unknown else ():
            if "/reports/" in path and path.endswith(".json"):
                with contextlib.suppress(ValidationError):
                    report = self.parse(ShardReport, path, self._store.get(self.at(path)))
                    know([report.file, *(companion.file for companion in report.companions)])
        return known

    def runs(self) -> list[str]:
        """Returns the ids of the runs that have a plan or a manifest in this folder."""
        ids = {path.split("/")[1] for path, _ in self._list(names.SIDE) if path.endswith(("/plan.json", "/manifest.json"))}
        return sorted(ids)

    def scan_files(self, digest: str) -> list[str]:
        """Returns the paths of a scan's files: its listing and its results."""
        return [path for path, _ in self._list(names.scan_folder(digest))]

    def parse(self, model: type[S], relative: str, content: bytes) -> S:
        """Parses a file of the folder. Raises NewerFormat for a newer format, and pydantic's ValidationError for a damaged file."""
        try:
            return model.model_validate_json(content)
        except FormatError as exc:
            uri = self.at(relative)
            raise NewerFormat(f"{uri}: {exc}.", uri=uri) from exc


class RunFolder(OutputFolder):
    """An output folder with the files of one run: the run's claim of ownership, plan, reports and manifest."""

    def __init__(self, uri: str, access: Access, run_id: str) -> None:
        super().__init__(uri, access)
        self.run_id = run_id

    # --- ownership -------------------------------------------------------------------------------------------------

    def claim(self, maker: Maker | None = None) -> None:
        """Makes this run the owner, and discards all files that processes of earlier owners have staged.

        From now on, only this run changes the folder, until another run takes it over (see `fencing`). `maker` is the process that does all
        the work, or None if other processes may also work on this run.
        """
        before = self.read(names.OWNER)
        try:
            previous = self.parse(Owner, names.OWNER, before) if before is not None else None
        except ValidationError:
            previous = None
        owner = self._next_owner(previous, maker)
        if owner != previous:
            self._write_owner(owner, before)
        fencing.discard(self._store, self.at(names.REMOVED))
        self.sweep()
        self.check_owner()

    def _next_owner(self, previous: Owner | None, maker: Maker | None) -> Owner:
        """Returns the content of OWNER after a claim."""
        new = [maker] if maker is not None else []
        if previous is None or previous.run_id != self.run_id:
            return Owner(run_id=self.run_id, epoch=previous.epoch + 1 if previous else 1, makers=new)
        # An empty list of makers means that unknown processes may be working on this run. Such a list must stay empty.
        known = [each for each in previous.makers if each != maker and not makers.has_ended(each)] + new if previous.makers and new else []
        return previous.model_copy(update={"makers": known})

    def _write_owner(self, owner: Owner, before: bytes | None) -> None:
        """Writes OWNER if its content is still `before`. Raises OutputLost if another run was faster."""
        content = owner.to_bytes()
        if before is None:
            with contextlib.suppress(AlreadyExists):  # the caller's check raises an error that names the other run
                self._store.put(self.at(names.OWNER), content, replace=False)
            return

        def check() -> None:
            if self.read(names.OWNER) not in (before, content):
                self.check_owner()

        fencing.write(self._store, [fencing.SmallFile(self.at(names.OWNER), content)], check=check)

    def check_owner(self) -> None:
        """Raises OutputLost if another run has taken over the folder, or if the file OWNER is missing."""
        now = self.owner()
        if now is None or now.run_id != self.run_id:
            taker = f"run {now.run_id} has taken it over" if now else "its _dataprep/OWNER is gone"
            raise OutputLost(
                f"{self.uri} no longer belongs to run {self.run_id}: {taker}. Since then, run {self.run_id} has published nothing."
            )

    @contextlib.contextmanager
    def owned(self) -> Iterator[None]:
        """Checks that this run owns the folder.

        If the block fails because another run has taken over the folder, raises OutputLost, which names that run.
        """
        self.check_owner()
        try:
            yield
        except ConvertError:
            self.check_owner()
            raise

    # --- the steps of a commit, which have no effect once another run owns the folder ----------------------------------

    def put_metadata(self, files: Iterable[tuple[str, bytes]], *, hdfs: HdfsOptions | None) -> None:
        """Writes small metadata files. The HDFS options `hdfs` apply only to visible files."""

        def small_file(path: str, content: bytes) -> fencing.SmallFile:
            return fencing.SmallFile(self.at(path), content, None if names.is_hidden(path) else hdfs)

        # Unlike a generator expression, `starmap` doesn't keep a file while the next one is made.
        fencing.write(self._store, starmap(small_file, files), check=self.check_owner)

    def put_success(self, success: Success) -> None:
        """Writes `_SUCCESS`, which marks the data set as finished."""
        files = [fencing.SmallFile(self.at(names.SUCCESS), success.to_bytes())]
        owner = self.owner()
        if owner is not None and owner.run_id == self.run_id and owner.makers:
            # No process works on a finished data set.
            files.append(fencing.SmallFile(self.at(names.OWNER), owner.model_copy(update={"makers": []}).to_bytes()))
        fencing.write(self._store, files, check=self.check_owner)
        # On Azure, `_SUCCESS` may be written after another run has taken over the folder. The other run then replaces `_SUCCESS`.
        self.check_owner()
        self.publish()
        if not isinstance(self._store, MovesFiles):
            # An upload may have been started twice, because the response to the first request was lost. Only one of the two uploads was
            # completed, so remove the other one.
            self.sweep()

    def remove_success(self) -> None:
        """Removes `_SUCCESS`. Call this method before any visible file is changed."""
        self.remove([names.SUCCESS])

    def remove(self, paths: Sequence[str]) -> None:
        """Removes files that were listed before."""
        removed = self.at(names.removed_folder(self.run_id))
        fencing.remove(self._store, [self.at(path) for path in paths], removed=removed, check=self.check_owner)

    # --- plan ------------------------------------------------------------------------------------------------------

    def put_plan(self, plan: Plan, tables: Tables) -> None:
        """Stores the plan. The head is written last."""
        self.put_file(names.units_file(self.run_id), tables.units.pieces(), size=tables.units.size)
        if tables.codes is not None:
            self._store.put(self.at(names.codes_file(self.run_id)), tables.codes)
        self._store.put(self.at(names.plan_file(self.run_id)), plan.head.to_bytes())

    def put_intermediate(self, files: IntermediateFiles) -> None:
        """Stores the files that the reader made during planning, at the paths that the plan's units refer to."""
        files.put(self.at(names.intermediate_folder(self.run_id)), self._access)

    def remove_intermediate(self) -> None:
        """Removes the files that the reader made during planning, and the files of a shuffle. Called when all shards are finished."""
        for folder in (names.intermediate_folder(self.run_id), names.shuffle_folder(self.run_id)):
            for path, _ in list(self._list(folder)):
                self.delete(path)

    def remove_late_shuffle_files(self) -> None:
        """Removes a shuffle's folder, including files that this run wrote to the folder while the commit step was removing the shuffle's
        files.

        Called after `_SUCCESS` is written. A process may still be writing such a file. If the process has already staged the file, the
        sweep discards it. Otherwise the process will find `_SUCCESS`, and won't complete the file (see `fencing`).
        """
        self.sweep()
        folder = names.shuffle_folder(self.run_id)
        for path, _ in list(self._list(folder)):
            self.delete(path)
        if isinstance(self._store, MovesFiles):
            self._store.remove_folder(self.at(folder))

    def stored_slices(self) -> set[int]:
        """Returns the numbers of the files that the first round of a shuffle has written."""
        found = (path.rpartition("/")[2] for path, _ in self._list(names.shuffle_folder(self.run_id)))
        return {int(name) for name in found if name.isdecimal()}

    def plan(self) -> WholePlan | None:
        """Returns the stored plan of this run, or None. Raises NotWhole if the plan's files are damaged or don't belong together."""
        found = self.plan_head()
        if found is None:
            return None
        with self._plan_errors():
            return self._whole_plan(*found)

    def plan_for_work(self) -> Plan | None:
        """Returns the stored plan, as `plan` does. If the work needs the units in order, each unit is read only when it is needed.

        If another run owns the folder, that run may have removed the plan's files. In this case, raises OutputLost instead of NotWhole,
        even for units that are read later.
        """
        found = self.plan_head()
        if found is None:
            return None
        with self._errors_during_work():
            head, content = found
            # Shuffled samples can come from any unit, so load all units.
            if head.unit_groups is None or head.shuffle_seed is not None:
                return self._whole_plan(head, content)
            codes = load_codes(head, self.read(names.codes_file(self.run_id)))
            units = StoredUnits(head, head.unit_groups, self._read_units, errors=self._errors_during_work)
            return Plan(head=head, sha256=hashlib.sha256(content).hexdigest(), units=units, codes=codes)

    def plan_head(self) -> tuple[PlanHead, bytes] | None:
        """Returns the plan's head and the head's bytes, or None if there is no plan. Raises NotWhole if the head is damaged."""
        path = names.plan_file(self.run_id)
        content = self.read(path)
        if content is None:
            return None
        try:
            return self.parse(PlanHead, path, content), content
        except ValidationError:
            uri = self.at(path)
            raise NotWhole(
                f"{uri} is damaged: it isn't a plan. The plan step creates a new plan, and so does dataprep repair.", uri=uri
            ) from None

    def _whole_plan(self, head: PlanHead, content: bytes) -> WholePlan:
        with self._store.open(self.at(names.units_file(self.run_id))) as source:
            units = UnitsFile(source.stream())
        with units:
            return load_plan(head, content, Tables(units=units, codes=self.read(names.codes_file(self.run_id))))

    def _read_units(self, offset: int, length: int) -> bytes:
        with self._store.open(self.at(names.units_file(self.run_id))) as source:
            return source.read_at(offset, length)

    @contextlib.contextmanager
    def _plan_errors(self) -> Iterator[None]:
        """Adds the URI of the folder or of the missing file to errors that are raised while the plan's files are read."""
        try:
            yield
        except NotWhole as exc:
            raise NotWhole(f"{self.uri}: {exc}", uri=self.uri) from None
        except NotFound as exc:
            raise NotWhole(
                f"{exc} The plan names this file. The plan step creates a new plan, and so does dataprep repair.", uri=exc.uri
            ) from None

    @contextlib.contextmanager
    def _errors_during_work(self) -> Iterator[None]:
        try:
            with self._plan_errors():
                yield
        except (NotWhole, InputChanged):
            # Another run may have taken over the folder and removed the plan's files while they were being read.
            self.check_owner()
            raise

    # --- reports and manifest --------------------------------------------------------------------------------------

    def put_report(self, report: ShardReport) -> None:
        """Stores the report of a shard. This commits the shard."""
        self._store.put(self.at(names.report_file(self.run_id, report.number)), report.to_bytes())

    def report(self, shard: int) -> ShardReport | None:
        """Returns the report of a shard, or None. A damaged report counts as missing, so that the shard is rebuilt."""
        path = names.report_file(self.run_id, shard)
        content = self.read(path)
        return self._intact_report(path, content) if content is not None else None

    def existing_reports(self) -> Iterator[int]:
        """Yields the numbers of the shards that have a report, intact or not."""
        for path, _ in self._list(names.reports_folder(self.run_id)):
            number = path.rpartition("/")[2].removesuffix(".json")
            if number.isdecimal() and path == names.report_file(self.run_id, int(number)):
                yield int(number)

    def put_bundle(self, reports: Sequence[ShardReport]) -> None:
        """Stores a bundle, which repeats the reports of consecutive shards. Does nothing if the same bundle is already stored."""
        path = names.bundle_file(self.run_id, reports[0].number)
        content = b"".join(report.to_bytes() for report in reports)
        if self.read(path) != content:
            self._store.put(self.at(path), content)

    def bundle(self, first_shard: int) -> list[ShardReport]:
        """Returns the intact reports of the bundle that begins with the report of this shard."""
        path = names.bundle_file(self.run_id, first_shard)
        reports = (self._intact_report(path, line) for line in (self.read(path) or b"").splitlines())
        return [report for report in reports if report is not None]

    def _intact_report(self, path: str, content: bytes) -> ShardReport | None:
        try:
            report = self.parse(ShardReport, path, content)
        except ValidationError:
            return None
        return report if report.is_intact() else None

    def is_done(self, report: ShardReport | None, plan: Plan) -> bool:
        """Returns whether a report belongs to this plan, and whether the files of its shard are unchanged since they were written."""
        if report is None or report.plan_sha256 != plan.sha256:
            return False
        files = [(report.file, report.size, report.pin)]
        files += [(report.index.file, report.index.size, report.index.pin)] if report.index is not None else []
        entries = [(self._store.stat(self.at(file)), size, pin) for file, size, pin in files]
        return all(entry is not None and (entry.size, entry.pin) == (size, pin) for entry, size, pin in entries)

    def put_manifest(self, manifest: Manifest) -> Success:
        """Writes a new manifest. If the manifest needs a table, writes the table first. Returns the content for `_SUCCESS`."""
        if not manifest_table.is_large(manifest.files):
            return self._put_head(manifest)
        with manifest_table.table_of(manifest) as file:
            self._put_table(file)
            return self._put_head(manifest_table.with_table(manifest, file))

    def put_manifest_again(self, manifest: Manifest) -> Success:
        """Writes the manifest of a finished data set again. Returns the content for `_SUCCESS`.

        The manifest's table is written only if it is missing or was changed. Raises NotWhole if this release would write a different table.
        """
        named = manifest.file_table
        if named is not None and not self._has_table(named):
            with manifest_table.table_of(manifest) as file:
                if manifest_table.with_table(manifest, file).file_table != named:
                    raise NotWhole(
                        f"{self.at(named.file)} is missing or was changed, and this release of dataprep would write it differently from the "
                        "release that made the data set. Repair it with that release, or run the job again with output.overwrite: Always."
                    )
                self._put_table(file)
        return self._put_head(manifest)

    def _put_head(self, manifest: Manifest) -> Success:
        """Writes `manifest.json`."""
        content = manifest.to_bytes()
        path = names.manifest_file(self.run_id)
        self._store.put(self.at(path), content)
        return Success(run_id=self.run_id, manifest=path, sha256=hashlib.sha256(content).hexdigest())

    def _put_table(self, file: TemporaryFile) -> None:
        """Writes the table of the manifest's shards."""
        write_file(self._store, self.at(names.manifest_table(self.run_id)), file.pieces(), check=self.check_owner)

    def _has_table(self, table: ManifestTable) -> bool:
        """Whether the table exists and has the digest that the manifest states."""
        try:
            return digest_of(self._store, self.at(table.file)) == table.sha256
        except NotFound:
            return False

    def side_files(self) -> Iterator[str]:
        """Yields the hidden files that belong to metadata or to earlier runs, except OWNER and this run's own files."""
        for path, _ in self._list(names.SIDE):
            if path != names.OWNER and path.split("/")[1] != self.run_id:
                yield path
        for path, _ in self._list(names.TFDS):
            yield path
