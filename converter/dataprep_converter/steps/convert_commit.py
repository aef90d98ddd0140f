"""The commit step of a conversion.

The commit step compares shards, reports and record counts with the plan and the store, and then writes the manifest and `_SUCCESS`.
"""

import hashlib
from collections.abc import Mapping, Sequence

from dataprep_api import names
from dataprep_api.dataset import run_id
from dataprep_api.dataset.messages import BadRecord, CommitResult
from dataprep_api.dataset.plan import shards
from dataprep_api.dataset.report import Manifest, ManifestFile, ManifestSplit, MetadataFile, ShardReport, digest_of_files
from dataprep_api.spec import BadRecords, DataPrepJobSpec
from dataprep_converter.core.errors import BadData, Missing, NotWhole
from dataprep_converter.dataset import sidecars
from dataprep_converter.dataset.listing import abbreviate, difference, remove_stale_files, sizes
from dataprep_converter.dataset.output_folder import OutputFolder, RunFolder
from dataprep_converter.dataset.sidecars import FinishedDataSet
from dataprep_converter.formats.nested.descriptions import description
from dataprep_converter.formats.registry import encoder_class
from dataprep_converter.inputs.access import Access
from dataprep_converter.pipeline.pipeline import Pipeline
from dataprep_converter.records import lossy
from dataprep_converter.records.feature import describe
from dataprep_converter.records.too_many import too_many
from dataprep_converter.sampling.plan import Plan
from dataprep_converter.statistics import comparison, statistics
from dataprep_converter.statistics.class_counts import as_texts
from dataprep_converter.statistics.statistics import SplitStatistics
from dataprep_converter.steps import table_output
from dataprep_converter.steps.commit_result import result_of, tool_versions


def commit(spec: DataPrepJobSpec, *, plan: Plan, access: Access, again: Manifest | None = None) -> CommitResult:
    """Finishes the data set. Idempotent. Raises NotWhole naming missing or different files.

    `again` is the manifest that a repair must reproduce; any difference from it also raises NotWhole.
    """
    folder = OutputFolder(spec.output.uri, access).of_run(plan.head.run_id)
    with folder.owned():
        # An earlier commit may have published the data set.
        folder.begin()
        reports = _complete(plan, folder.reports(plan.head.shards))
        _judge_bad_records(spec.on_bad_record, reports)
        unswept = remove_stale_files(folder, keep=set(sizes(reports)) | names.split_files(plan.head.extension, sizes(reports)))
        _check_listing(reports, folder, ours=names.split_files(plan.head.extension, sizes(reports)))

        merged_statistics = statistics.merge_reports(reports)
        access.follow(spec, plan.head.parts)
        with Pipeline(spec, plan.head.reader_state, access, plan.head.learned) as pipeline:
            features = pipeline.features
            manifest = _manifest(spec, plan, reports, pipeline, merged_statistics)
        manifest = _write_metadata(
            FinishedDataSet(spec=spec, uri=folder.uri, manifest=manifest, reports=reports, features=features, statistics=merged_statistics),
            folder,
            before=again.metadata if again is not None else [],
        )
        if again is not None:
            manifest = _check_same_data(manifest, again)
        success = folder.put_manifest(manifest)
        if again is None:
            table_output.commit(spec, folder, reports, access)
        # Intermediate files are removed before `_SUCCESS` is written, so that a finished data set never needs a clean-up.
        folder.remove_intermediate()
        folder.put_success(success)
    return result_of(manifest, success, folder, reports=reports, warnings=[*unswept, *comparison.warnings(manifest, merged_statistics)])


def _complete(plan: Plan, reports_found: Sequence[ShardReport | None]) -> list[ShardReport]:
    """Returns one report for each planned shard.

    Raises Missing naming shards without a report, and NotWhole naming a report whose numbers don't add up.
    """
    missing = [
        shard.file
        for shard, report in zip(shards(plan.head), reports_found, strict=True)
        if report is None or report.plan_sha256 != plan.sha256
    ]
    if missing:
        raise Missing(f"{len(missing)} of {plan.head.shards} shards have no report: {abbreviate(missing)}.")
    reports = [report for report in reports_found if report is not None]
    for shard, report in zip(shards(plan.head), reports, strict=True):
        if report.records_in != shard.records:
            raise NotWhole(f"{report.file}: the plan has {shard.records} records, but {report.records_in} were read.")
        if report.records_in + report.added != report.records_out + report.bad + report.filtered:
            raise NotWhole(
                f"{report.file}: {report.records_in} records in + {report.added} added are not {report.records_out} out + {report.bad} bad + {report.filtered} filtered."
            )
    return reports


def _judge_bad_records(policy: BadRecords, reports: Sequence[ShardReport]) -> None:
    bad = sum(report.bad for report in reports)
    total = sum(report.records_in for report in reports)
    if bad == 0:
        return
    first = next(report.bad_examples[0] for report in reports if report.bad_examples)
    fault = too_many(policy, bad=bad, total=total)
    if fault is not None:
        raise BadData(f"{fault}; the first: {first.uri}, record {first.row}: {first.reason}", uri=first.uri)


def _check_listing(reports: Sequence[ShardReport], folder: OutputFolder, *, ours: set[str]) -> None:
    """Raises Missing or NotWhole if shards are missing or have changed, or if the folder contains files other than shards and `ours`."""
    entries = {path: entry for path, entry in folder.visible() if path not in ours}
    absent = [report.file for report in reports if report.file not in entries]
    if absent:
        raise Missing(f"{folder.uri}: {len(absent)} {'file is' if len(absent) == 1 else 'files are'} missing: {abbreviate(absent)}.")
    fault = difference(sizes(reports), entries)
    if fault is not None:
        raise NotWhole(f"{folder.uri}: {fault}.")
    changed_files = [report.file for report in reports if entries[report.file].pin != report.pin]
    indexes = folder.indexes()
    expected = [report.index for report in reports if report.index is not None]
    changed_files += [index.file for index in expected if index.file not in indexes or indexes[index.file].pin != index.pin]
    if changed_files:
        raise NotWhole(
            f"{folder.uri}: {len(changed_files)} "
            f"{'file was changed after it was' if len(changed_files) == 1 else 'files were changed after they were'} "
            f"written: {abbreviate(changed_files)}."
        )


def _manifest(
    spec: DataPrepJobSpec,
    plan: Plan,
    reports: Sequence[ShardReport],
    pipeline: Pipeline,
    statistics_by_split: Mapping[str, SplitStatistics],
) -> Manifest:
    return Manifest(
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
        records_in=sum(report.records_in for report in reports),
        records_out=sum(report.records_out for report in reports),
        bad=sum(report.bad for report in reports),
        filtered=sum(report.filtered for report in reports),
        added=sum(report.added for report in reports),
        size=sum(report.size for report in reports),
        splits=[_split(name, [r for r in reports if r.split == name], statistics_by_split.get(name)) for name in plan.head.split_names],
        files=[ManifestFile.of(report) for report in reports],
        digest=digest_of_files((report.sha256, report.file) for report in reports),
        raw_digest=digest_of_files((report.raw_sha256, report.file) for report in reports),
        bad_examples=_examples(reports),
        lossy=lossy.merge_entries(each for report in reports for each in report.lossy),
        quarantine=[report.quarantine for report in reports if report.quarantine is not None],
        tools=tool_versions(),
    )


def _write_metadata(finished: FinishedDataSet, folder: RunFolder, *, before: Sequence[MetadataFile]) -> Manifest:
    """Writes the index and metadata files, and removes those of earlier runs. Returns the manifest that lists the new files.

    `before` lists the files that a repair must reproduce. Intact files are kept, because this release might write them differently than the
    release that wrote them.
    """
    indexes = [report.index for report in finished.reports if report.index is not None]
    metadata_files = [MetadataFile(file=index.file, size=index.size, sha256=index.sha256) for index in indexes]
    files = list(sidecars.files(finished))
    if before:
        return _rewrite_metadata(finished, dict(files), folder, before=before)
    placed_files = list(sidecars.location_files(folder.uri, finished.manifest))
    folder.put_metadata([*files, *placed_files], hdfs=finished.spec.output.hdfs)
    metadata_files += [MetadataFile(file=path, size=len(content), sha256=hashlib.sha256(content).hexdigest()) for path, content in files]
    needed_paths = {file.file for file in metadata_files} | {path for path, _ in placed_files}
    folder.remove([path for path in folder.side_files() if path not in needed_paths])
    return finished.manifest.model_copy(update={"metadata": metadata_files})


def _rewrite_metadata(
    finished: FinishedDataSet, contents: Mapping[str, bytes], folder: RunFolder, *, before: Sequence[MetadataFile]
) -> Manifest:
    """Like `_write_metadata`, but for a repair. Raises NotWhole naming a damaged file that this release would write differently."""
    rewritten: list[tuple[str, bytes]] = []
    for file in before:
        content = contents.get(file.file)
        if content is not None and hashlib.sha256(content).hexdigest() == file.sha256:
            rewritten.append((file.file, content))
        elif hashlib.sha256(folder.read(file.file) or b"").hexdigest() != file.sha256:
            raise NotWhole(
                f"{folder.at(file.file)} is damaged, and this release of dataprep would write it differently from the release that made the data set. "
                "Repair it with that release, or run the job again with output.overwrite: Always."
            )
    manifest = finished.manifest.model_copy(update={"metadata": list(before)})
    rewritten += sidecars.location_files(folder.uri, manifest)
    folder.put_metadata(rewritten, hdfs=finished.spec.output.hdfs)
    needed_paths = {file.file for file in before} | {path for path, _ in rewritten}
    folder.remove([path for path in folder.side_files() if path not in needed_paths])
    return manifest


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
    passing = {"tools"} if original.lossy else {"tools", "lossy"}
    fields = [name for name in Manifest.model_fields if name not in passing and getattr(manifest, name) != getattr(original, name)]
    if fields:
        raise NotWhole(f"The repaired data set is not the original one: the manifests differ in {', '.join(fields)}.")
    return original


def _split(name: str, reports: Sequence[ShardReport], split_statistics: SplitStatistics | None) -> ManifestSplit:
    classes = split_statistics.classes if split_statistics is not None else {}
    counts_by_feature = {feature: as_texts(class_counts.counts) for feature, class_counts in sorted(classes.items())}
    return ManifestSplit(
        name=name,
        records=sum(report.records_out for report in reports),
        size=sum(report.size for report in reports),
        shards=len(reports),
        label_counts={feature: counts for feature, counts in counts_by_feature.items() if counts},
    )


def _examples(reports: Sequence[ShardReport]) -> list[BadRecord]:
    return [example for report in reports for example in report.bad_examples][:100]
