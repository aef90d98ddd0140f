"""Publishes a written data frame: the driver gives the files of the successful attempts their final names and commits the data set.

    attempts (hidden) ─▶ plan of the written files ─▶ OWNER ─▶ `_SUCCESS` removed ─▶ files moved ─▶ reports ─▶ commit step

The plan is made after all rows have been written, because the number of rows in each file isn't known earlier. After that, a data frame is
handled like any other job: the plan step claims the output folder, and a conversion's commit step checks everything and writes the manifest
and `_SUCCESS`. Files of unsuccessful attempts are removed without ever being moved.
"""

import hashlib
import logging
from collections import Counter
from collections.abc import Collection, Iterable, Sequence
from dataclasses import replace
from itertools import islice, pairwise

import pyarrow as pa

from dataprep_api import canonical, names
from dataprep_api.dataset import run_id
from dataprep_api.dataset.messages import CommitResult
from dataprep_api.dataset.plan import PlanHead, SplitPlan
from dataprep_api.dataset.report import ShardReport
from dataprep_api.formats import format_rules
from dataprep_api.spec import NO_TRAIN
from dataprep_api.spec.splits import MOST_SPLITS
from dataprep_converter.core.errors import BadSpec, ConvertError, NoInput, NotWhole
from dataprep_converter.core.tensors import pc
from dataprep_converter.dataset.frame_rows import READER, Engine
from dataprep_converter.dataset.output_folder import OutputFolder, RunFolder
from dataprep_converter.inputs.access import Access
from dataprep_converter.planning.growth import Growth
from dataprep_converter.runtime import makers
from dataprep_converter.sampling.plan import Tables, WholePlan
from dataprep_converter.sampling.units import Unit, UnitTable
from dataprep_converter.sampling.units_file import UnitsFile
from dataprep_converter.steps import plan_step
from dataprep_converter.steps.conversion import convert_commit, extend
from dataprep_converter.steps.conversion.convert_plan import ConversionDraft
from dataprep_converter.steps.conversion.extend import ExistingDataSet, ExtensionDraft
from dataprep_converter.stores import StoreSettings
from dataprep_frames.attempts import WrittenPartition
from dataprep_frames.columns import check_columns, with_agreed_columns, with_columns
from dataprep_frames.messages import in_words_of_engine
from dataprep_frames.moving import Mover
from dataprep_frames.options import WriteOptions
from dataprep_frames.placing import WrittenFile, all_moves, as_shards, place
from dataprep_frames.writing import ROW_BITS, Write, check_unchanged, planned_write, remove_folder

logger = logging.getLogger(__name__)


@in_words_of_engine
def begin_write(options: WriteOptions, schema: pa.Schema | None, settings: Iterable[StoreSettings] = ()) -> Write:
    """Decides how a data frame with these columns is written. If `schema` is None, each task takes the columns of its rows, and all tasks
    must have the same columns. Called on the driver before any task begins. Changes nothing in the store.

    Raises OutputExists if the folder has files that must not be replaced, and BadSpec if the rows can't be appended to the existing data
    set. Also raises the errors of `planned_write` and `with_columns`.
    """
    write = planned_write(options, settings)
    if write.is_skipped:
        return write
    access = write.access()
    existing = _existing(write, access)
    if existing is not None:
        rows = existing.base.units.table.column("row")
        write = replace(
            write,
            first_partition=1 + max(int(pc.max(rows).as_py() or 0), 0) // (1 << ROW_BITS),
            existing_state=existing.base.head.reader_state,
            existing_template=existing.base.head.splits[0].template,
        )
    if schema is not None:
        write = with_columns(write, schema)
    if existing is not None:
        _check_splits(write, existing)
    if write.options.split_column is None:
        _check_train(write, [*(existing.base.head.split_names if existing is not None else ()), write.options.split])
    with _draft(write, [], existing, access) as draft:
        fault = plan_step.fault_of_output(draft, job=write.engine.job)
    if fault is not None:
        raise fault
    return write


@in_words_of_engine
def commit(write: Write, messages: Sequence[WrittenPartition | None], *, rows: int | None = None) -> CommitResult | None:
    """Publishes the files of the successful attempts, one of each partition. Returns None if the write was skipped, or if no rows are
    appended to a finished data set.

    `messages` contains the messages that the attempts have returned, and None in place of each message that the engine doesn't have. `rows`
    is the number of rows that the engine has passed to these attempts, if the engine reports this number.

    Raises NoInput if there are no rows, and NotWhole if rows are missing or if another run has changed the folder since `begin_write`.
    Raises BadSpec if the tasks have different columns or if there are too many splits. Also raises the errors of the plan step and of the
    commit step.
    """
    if write.is_skipped:
        return None
    parts = _each_part_once(write.engine, messages)
    files = [
        WrittenFile(write.first_partition + each.partition, nth, write.attempt_uri(each.attempt), ShardReport.model_validate_json(report))
        for each in parts
        for nth, report in enumerate(each.reports)
    ]
    access = write.access()
    folder = OutputFolder(write.spec.output.uri, access).of_run(write.run_id)
    check_unchanged(write, folder)
    written = sum(file.report.records_in for file in files)
    if rows not in (None, written):
        raise NotWhole(
            f"{write.engine.name} has passed {rows:,} rows to the {write.engine.part}s, but the files that they wrote contain {written:,} "
            "rows."
        )
    if not files:
        _remove_attempts(write, access)
        if write.mode == "append" and write.success is not None:
            return None
        raise NoInput(
            f"The {write.engine.frame} has no rows, so there is nothing to write to {write.spec.output.uri}.", uri=write.spec.output.uri
        )
    existing = _existing(write, access)
    if write.schema is None:
        write = with_agreed_columns(write, [each.columns for each in parts if each.columns is not None])
    if existing is not None:
        check_columns(write, existing.base.head.reader_state)
    splits = dict.fromkeys((*(existing.base.head.split_names if existing is not None else ()), *(file.report.split for file in files)))
    _check_train(write, splits)
    _check_number_of_splits(write, splits)
    with _draft(write, files, existing, access) as draft, Mover(folder, access) as mover:
        placed = as_shards(files, draft.plan.head, folder.uri)
        moves = all_moves(placed)
        mover.check(moves)

        def copy_ahead() -> None:
            try:
                mover.copy_ahead(moves)
            except ConvertError:
                _hand_back(write, folder, access)
                raise

        planned = plan_step.take_output(
            draft, [], job=write.engine.job, maker=makers.this_process(write.engine.job), before_change=copy_ahead
        )
        plan = planned.plan
        with folder.owned():
            place(placed, plan.sha256, folder, mover)
        result = convert_commit.commit(write.spec, plan=plan, access=access)
    # An unsuccessful attempt may have written a file while the commit step was removing the other files.
    _remove_attempts(write, access)
    return result.model_copy(update={"warnings": [*planned.result.warnings, *result.warnings]})


def _hand_back(write: Write, folder: RunFolder, access: Access) -> None:
    """Undoes the claim of a commit that has changed nothing else: the run of the earlier data set owns the folder again."""
    folder.check_owner()
    if write.success is not None:
        OutputFolder(folder.uri, access).of_run(write.success.run_id).claim()


def _each_part_once(engine: Engine, messages: Sequence[WrittenPartition | None]) -> list[WrittenPartition]:
    """Returns the messages in the order of the parts. Raises NotWhole unless there is exactly one message for each part."""
    written = sorted((each for each in messages if each is not None), key=lambda each: each.partition)
    for each, following in pairwise(written):
        if each.partition == following.partition:
            raise NotWhole(
                f"{engine.name} has named two successful attempts for {engine.part} {each.partition}, so its rows would be in the data set "
                "twice."
            )
    numbers = [each.partition for each in written]
    missing = next((number for number, found in enumerate(numbers) if number != found), len(numbers))
    if len(written) < len(messages) or (engine.is_numbered and missing < len(numbers)):
        raise NotWhole(
            f"{engine.name} has named no successful attempt for {engine.part} {missing}, so its rows would be missing from the data set."
        )
    return written


def abort(write: Write) -> None:
    """Removes the files of all attempts. Files that the commit has published or replaced stay."""
    if not write.is_skipped:
        _remove_attempts(write, write.access())


def _remove_attempts(write: Write, access: Access) -> None:
    remove_folder(names.join(write.spec.output.uri, names.intermediate_folder(write.run_id)), access)


# --- the plan -----------------------------------------------------------------------------------------------------


def _existing(write: Write, access: Access) -> ExistingDataSet | None:
    """Returns the data set to which the rows are appended, or None if there is none yet.

    Raises NotWhole if there is no finished data set, but an unfinished run has left files in the folder.
    """
    if write.mode != "append":
        return None
    existing = extend.find_existing(write.spec, access)
    if existing is None:
        folder = OutputFolder(write.spec.output.uri, access)
        left = folder.known_files(path for path, _ in folder.visible())
        if left:
            raise NotWhole(
                f"{folder.uri} has no _SUCCESS, but has {min(left)} of an unfinished run, so it is unknown to which records the rows would be "
                f"appended. Write the complete data set with {write.engine.overwrite}.",
                uri=folder.uri,
            )
    return existing


def _check_splits(write: Write, existing: ExistingDataSet) -> None:
    """Raises BadSpec if files of different splits would have the same names, because the names don't contain the split."""
    splits = existing.base.head.split_names
    several = write.options.split_column is not None or splits != [write.options.split]
    fault = names.template_fault(write.template, several_splits=several, several_shards=True)
    if fault is not None:
        raise BadSpec(
            f"Rows of other splits than {', '.join(splits)} can't be appended to {write.spec.output.uri}, whose files are named "
            f"{write.template}: {fault}. Write the data set again with such a fileName, or write to another URI."
        )


def _check_train(write: Write, splits: Collection[str]) -> None:
    """Raises BadSpec if the format needs a split named train and there is none."""
    if format_rules(write.spec.output.format).is_for_sagemaker and "train" not in splits:
        raise BadSpec(f"{NO_TRAIN}: {', '.join(splits)}.")


def _check_number_of_splits(write: Write, splits: Collection[str]) -> None:
    """Raises BadSpec if there are more splits than a data set can have."""
    if len(splits) > MOST_SPLITS:
        raise BadSpec(
            f"The {write.engine.frame} has {len(splits)} splits ({', '.join(islice(splits, 3))}, …), but a data set can have at most {MOST_SPLITS}."
        )


def _draft(write: Write, files: Sequence[WrittenFile], existing: ExistingDataSet | None, access: Access) -> ConversionDraft:
    """Returns the draft of a data set: the files of the existing data set, if there is one, followed by `files`."""
    added = UnitTable.of([_unit(write, file) for file in files])
    units = added if existing is None else Growth(existing.base.units, added).all_units()
    tables = Tables(units=UnitsFile.of(units))
    head = _head(write, files, existing, units=units, units_sha256=tables.units.sha256)
    plan = WholePlan(head=head, sha256=hashlib.sha256(head.to_bytes()).hexdigest(), units=units)
    if existing is None:
        return ConversionDraft(spec=write.spec, access=access, plan=plan, tables=tables, features=[])
    return ExtensionDraft(spec=write.spec, access=access, plan=plan, tables=tables, features=[], existing=existing)


def _unit(write: Write, file: WrittenFile) -> Unit:
    report = file.report
    return Unit(
        root=0,
        path=f"{file.partition}/{file.nth}",
        uri=write.engine.part_uri(file.partition),
        records=report.records_in,
        size=report.bytes_in,
        pin="",
        row=file.first_row,
    )


def _head(write: Write, files: Sequence[WrittenFile], existing: ExistingDataSet | None, *, units: UnitTable, units_sha256: str) -> PlanHead:
    base = existing.base if existing is not None else None
    splits = list(base.head.splits) if base is not None else []
    counts = Counter({name: base.shards_of(name) for name in base.head.split_names} if base is not None else {})
    sample = base.units.samples if base is not None else 0
    for file in files:
        records = file.report.records_in
        splits.append(
            SplitPlan(
                name=file.report.split,
                ranges=[(sample, sample + records)],
                records=records,
                shards=1,
                template=write.template,
                first_shard=counts[file.report.split],
            )
        )
        counts[file.report.split] += 1
        sample += records
    return PlanHead(
        run_id=write.run_id,
        encoding_version=run_id.ENCODING_VERSION,
        parts=write.parts,
        spec_sha256=canonical.sha256(run_id.content(write.spec)),
        inputs_sha256=write.inputs_sha256,
        units_sha256=units_sha256,
        reader=READER,
        reader_state=write.state,
        samples=units.samples,
        bytes_in=sum(file.report.bytes_in for file in files),
        splits=splits,
        extends=[*base.head.extends, base.as_earlier()] if base is not None else [],
        extension=write.extension,
        tasks=1,
    )
