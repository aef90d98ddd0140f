"""The commit step of a conversion.

The commit step compares shards, reports and record counts with the plan and the store, and then writes the manifest and `_SUCCESS`.
"""

import hashlib
from collections.abc import Collection, Mapping
from typing import Final

from dataprep_api import names
from dataprep_api.dataset import run_id
from dataprep_api.dataset.messages import CommitResult
from dataprep_api.dataset.plan import shards
from dataprep_api.dataset.report import Manifest, ManifestSplit, MetadataFile, digest_of_files
from dataprep_api.spec import BadRecords, DataPrepJobSpec
from dataprep_converter.core.errors import BadData, Missing, NotWhole
from dataprep_converter.dataset import sidecars
from dataprep_converter.dataset.expected_files import ExpectedFiles, abbreviate
from dataprep_converter.dataset.listing import remove_stale_files
from dataprep_converter.dataset.manifest_table import listed_metadata, with_metadata, with_shards
from dataprep_converter.dataset.output_folder import OutputFolder, RunFolder
from dataprep_converter.dataset.shard_table import digests
from dataprep_converter.dataset.sidecars import FinishedDataSet
from dataprep_converter.dataset.stored_reports import StoredReports, own_reports
from dataprep_converter.formats.nested.descriptions import description
from dataprep_converter.formats.registry import encoder_class
from dataprep_converter.inputs.access import Access
from dataprep_converter.pipeline.pipeline import Pipeline
from dataprep_converter.records.feature import describe
from dataprep_converter.records.too_many import too_many
from dataprep_converter.sampling.plan import Plan
from dataprep_converter.statistics import comparison
from dataprep_converter.statistics.class_counts import as_texts
from dataprep_converter.statistics.statistics import SplitStatistics
from dataprep_converter.steps.commit_result import result_of, tool_versions
from dataprep_converter.steps.conversion import table_output
from dataprep_converter.steps.conversion.folded_reports import FoldedReports, SplitTotals, fold

_SHOWN: Final = 5


def commit(spec: DataPrepJobSpec, *, plan: Plan, access: Access, again: Manifest | None = None) -> CommitResult:
    """Finishes the data set. Idempotent. Raises NotWhole naming missing or different files.

    `again` is the manifest that a repair must reproduce; any difference from it also raises NotWhole.
    """
    folder = OutputFolder(spec.output.uri, access).of_run(plan.head.run_id)
    with folder.owned():
        # An earlier commit may have published the data set.
        folder.begin()
        folded, bundled = _current_reports(spec, plan, folder)
        split_files = names.split_files(plan.head.extension, (shard.file for shard in shards(plan.head)))
        unswept = remove_stale_files(folder, keep=folded.files, ours=split_files)
        different = _check_listing(folded, folder, ours=split_files, only_own=not bundled)
        if different:
            # These shards may have been made again after their reports were bundled.
            folded = _judged(spec.on_bad_record, plan, StoredReports.of_plan(folder, plan, own=different))
            _check_listing(folded, folder, ours=split_files, only_own=True)
        merged_statistics = folded.statistics.by_split()
        access.follow(spec, plan.head.parts)
        with Pipeline(spec, plan.head.reader_state, access, plan.head.learned) as pipeline:
            features = pipeline.features
            manifest = _manifest(spec, plan, folded, pipeline, merged_statistics)
        finished = FinishedDataSet(
            spec=spec,
            uri=folder.uri,
            manifest=manifest,
            features=features,
            raw_sizes=folded.raw_sizes,
            unindexed=folded.unindexed,
            statistics=merged_statistics,
        )
        if again is None:
            manifest = _write_metadata(finished, folder, folded.indexes)
            success = folder.put_manifest(manifest)
            table_output.commit(spec, folder, manifest.files, access)
        else:
            manifest = _check_same_data(_rewrite_metadata(finished, folder, folded.indexes, before=again), again)
            success = folder.put_manifest_again(manifest)
        # Intermediate files are removed before `_SUCCESS` is written, so that a finished data set never needs a clean-up.
        folder.remove_intermediate()
        folder.put_success(success)
        if plan.head.shuffle_tasks is not None:
            folder.remove_late_shuffle_files()
    return result_of(
        manifest, success, folder, totals=folded.totals, warnings=[*unswept, *comparison.warnings(manifest, merged_statistics)]
    )


def _current_reports(spec: DataPrepJobSpec, plan: Plan, folder: RunFolder) -> tuple[FoldedReports, int]:
    """Returns the reports of all shards, and how many of them are from bundles. Raises the errors of `_judged`.

    Reports in bundles may be older than their shards. So if bundled reports cause BadData or NotWhole, the shards' own reports are checked
    instead.
    """
    reports = StoredReports.of_plan(folder, plan)
    try:
        return _judged(spec.on_bad_record, plan, reports), reports.bundled
    except Missing:
        raise
    except (BadData, NotWhole):
        if not reports.bundled:
            raise
    return _judged(spec.on_bad_record, plan, own_reports(folder, plan.head.shards)), 0


def _judged(policy: BadRecords, plan: Plan, reports: StoredReports) -> FoldedReports:
    """Folds the reports. Raises the errors of `fold`, and BadData if there are more bad records than the job allows."""
    folded = fold(plan, reports)
    fault = too_many(policy, bad=folded.bad, total=folded.records_in) if folded.bad else None
    if fault is not None:
        first = folded.bad_examples[0]
        raise BadData(f"{fault}; the first: {first.uri}, record {first.row}: {first.reason}", uri=first.uri)
    return folded


def _check_listing(folded: FoldedReports, folder: RunFolder, *, ours: set[str], only_own: bool) -> set[int]:
    """Raises Missing or NotWhole if shards are missing or have changed, or if the folder contains files other than shards and `ours`.

    `only_own` says that only the shards' own reports were read. Without `only_own`, changed shards raise no error; instead, their numbers
    are returned.
    """
    files, indexes = folded.files, folded.indexes
    found = files.compared(folder.visible(), ours=ours)
    absent = [number for number in found.missing if files.has_pin(number)]
    if absent:
        raise Missing(f"{folder.uri}: {len(absent)} {'file is' if len(absent) == 1 else 'files are'} missing: {files.named(absent)}.")
    found_indexes = indexes.compared(folder.indexes(), ignores_others=True)
    changed_indexes = sorted([*found_indexes.missing, *found_indexes.sizes, *found_indexes.changed])
    different = {files.shard(number) for number in (*found.sizes, *found.changed)} | {indexes.shard(number) for number in changed_indexes}
    if different and not only_own:
        return different
    fault = files.fault(found)
    if fault is not None:
        raise NotWhole(f"{folder.uri}: {fault}.")
    changed = len(found.changed) + len(changed_indexes)
    if changed:
        first = [*map(files.path, found.changed[:_SHOWN]), *map(indexes.path, changed_indexes[:_SHOWN])]
        raise NotWhole(
            f"{folder.uri}: {changed} "
            f"{'file was changed after it was' if changed == 1 else 'files were changed after they were'} "
            f"written: {abbreviate(first, count=changed)}."
        )
    return set()


def _manifest(
    spec: DataPrepJobSpec,
    plan: Plan,
    folded: FoldedReports,
    pipeline: Pipeline,
    statistics_by_split: Mapping[str, SplitStatistics],
) -> Manifest:
    batches = folded.columns()
    manifest = Manifest(
        run_id=plan.head.run_id,
        encoding_version=plan.head.encoding_version,
        parts=plan.head.parts,
        inputs_sha256=plan.head.inputs_sha256,
        content=run_id.content(spec),
        format=spec.output.format,
        compression=encoder_class(spec.output.format).compressor(spec.output).name,
        features=describe(pipeline.features),
        nested={feature.name: description(feature.nested) for feature in pipeline.features if feature.nested is not None},
        types={feature.name: description(feature.kept) for feature in pipeline.features if feature.kept is not None},
        labels=pipeline.class_names(),
        records_in=folded.records_in,
        records_out=folded.records_out,
        bad=folded.bad,
        filtered=folded.filtered,
        added=folded.added,
        size=folded.size,
        splits=[_split(name, totals, statistics_by_split.get(name)) for name, totals in folded.splits.items()],
        files=[],
        digest=digest_of_files(digests(batches, "sha256")),
        raw_digest=digest_of_files(digests(batches, "rawSha256")),
        bad_examples=folded.bad_examples,
        lossy=folded.lossy,
        tools=tool_versions(),
    )
    return with_shards(manifest, batches)


def _write_metadata(finished: FinishedDataSet, folder: RunFolder, indexes: ExpectedFiles) -> Manifest:
    """Writes the metadata files, and removes those of earlier runs. Returns the manifest that lists the new files.

    `indexes` are the record indexes, which exist already. If a file can't be made, the files that were made earlier may be left behind.
    Files with visible names are made last, so an error in any other file leaves no visible file behind. The next commit, of this run or of
    another run, replaces or removes all files that were left behind.
    """
    metadata: list[MetadataFile] = []
    placed: list[str] = []

    def made() -> sidecars.Made:
        for path, content in sidecars.location_files(folder.uri, finished.manifest):
            placed.append(path)
            yield path, content
            del content
        for path, content in sidecars.files(finished):
            metadata.append(MetadataFile(file=path, size=len(content), sha256=hashlib.sha256(content).hexdigest()))
            yield path, content
            del content

    # Only a few files are built at a time. They are written and freed before the next ones are built, because the lists of very many
    # shards are large.
    folder.put_metadata(made(), hdfs=finished.spec.output.hdfs)
    _remove_stale_metadata(folder, indexes, needed={*(file.file for file in metadata), *placed})
    return with_metadata(finished.manifest, metadata)


def _rewrite_metadata(finished: FinishedDataSet, folder: RunFolder, indexes: ExpectedFiles, *, before: Manifest) -> Manifest:
    """Does the same as `_write_metadata` during a repair, which must reproduce the files in the manifest `before`.

    Intact files are kept, because this release might write them differently than the release that wrote them. Raises NotWhole naming a
    damaged file that this release would write differently.
    """
    contents = dict(sidecars.files(finished))
    rewritten: list[tuple[str, bytes]] = []
    kept = listed_metadata(before)
    for file in kept:
        content = contents.get(file.file)
        if content is not None and hashlib.sha256(content).hexdigest() == file.sha256:
            rewritten.append((file.file, content))
        elif hashlib.sha256(folder.read(file.file) or b"").hexdigest() != file.sha256:
            raise NotWhole(
                f"{folder.at(file.file)} is damaged, and this release of dataprep would write it differently from the release that made the data set. "
                "Repair it with that release, or run the job again with output.overwrite: Always."
            )
    has_table = len(kept) < len(before.metadata)
    manifest = with_metadata(finished.manifest, kept) if has_table else finished.manifest.model_copy(update={"metadata": kept})
    rewritten += sidecars.location_files(folder.uri, manifest)
    folder.put_metadata(rewritten, hdfs=finished.spec.output.hdfs)
    _remove_stale_metadata(folder, indexes, needed={*(file.file for file in kept), *(path for path, _ in rewritten)})
    return manifest


def _remove_stale_metadata(folder: RunFolder, indexes: ExpectedFiles, *, needed: Collection[str]) -> None:
    folder.remove([path for path in indexes.others(folder.side_files()) if path not in needed])


def _check_same_data(manifest: Manifest, original: Manifest) -> Manifest:
    """Returns the original manifest if the manifests differ only in the tool versions. Otherwise raises NotWhole naming the differences."""
    for new_file, old_file in zip(manifest.files, original.files, strict=False):
        if new_file != old_file:
            packed = (
                f"; it was compressed with zlib {original.tools.get('zlib')} before, and with zlib {manifest.tools['zlib']} now"
                if new_file.raw_sha256 == old_file.raw_sha256
                else ""
            )
            raise NotWhole(
                f"{new_file.file} was made again with different bytes: SHA-256 {new_file.sha256} instead of {old_file.sha256}{packed}."
            )
    # A repair keeps reports that an earlier release wrote, although they don't count lossy values. So don't compare `lossy` if the original
    # has none.
    passing = {"tools", "file_table"} if original.lossy else {"tools", "file_table", "lossy"}
    fields = [name for name in Manifest.model_fields if name not in passing and getattr(manifest, name) != getattr(original, name)]
    if fields:
        raise NotWhole(f"The repaired data set is not the original one: the manifests differ in {', '.join(fields)}.")
    return original


def _split(name: str, totals: SplitTotals, split_statistics: SplitStatistics | None) -> ManifestSplit:
    classes = split_statistics.classes if split_statistics is not None else {}
    counts_by_feature = {feature: as_texts(class_counts.counts) for feature, class_counts in sorted(classes.items())}
    return ManifestSplit(
        name=name,
        records=totals.records,
        size=totals.size,
        shards=totals.shards,
        label_counts={feature: counts for feature, counts in counts_by_feature.items() if counts},
    )
