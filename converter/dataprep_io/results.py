"""The result of a write or of a job."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from dataprep_api.dataset.messages import CommitResult, PlanResult
    from dataprep_api.dataset.report import Manifest
    from dataprep_api.resources.status import DataPrepJobStatus
    from dataprep_reader import Reader


@dataclass(frozen=True)
class Result:
    """A finished data set."""

    uri: str
    """The data set's folder."""
    run_id: str
    manifest_uri: str
    records: int
    bytes: int
    shards: int
    splits: Mapping[str, int] = field(default_factory=dict)
    """The number of records of each split."""
    classes: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    """For each label, the names of the classes in the order of their numbers."""
    bad_records: int = 0
    """The number of bad records, which were left out."""
    warnings: tuple[str, ...] = ()
    is_reproducible: bool = True
    """Whether the same job would make the same data set again. False for `write`, because data from memory can't be read again."""

    def open(self, **options: Any) -> "Reader":
        """Returns a reader of the data set. Takes the options of `dataprep_io.open`."""
        from dataprep_reader import open as open_data_set

        return open_data_set(self.uri, **options)

    def _repr_html_(self) -> str:
        """Returns a table for a notebook."""
        from dataprep_reader.notebook import html_table

        splits = {name: f"{records:,} records" for name, records in self.splits.items()}
        classes = {f"classes of {name}": ", ".join(names) for name, names in self.classes.items()}
        left_out = {"left out": f"{self.bad_records:,} bad records"} if self.bad_records else {}
        warnings = {f"warning {number}": text for number, text in enumerate(self.warnings, 1)}
        made = {"records": f"{self.records:,}", "shards": f"{self.shards:,}", "bytes": f"{self.bytes:,}", "run": self.run_id}
        return html_table(self.uri, {**made, **splits, **classes, **left_out, **warnings})


def of_commit(
    uri: str, commit: "CommitResult", plan: "PlanResult | None" = None, *, classes: Mapping[str, Sequence[str]] | None = None
) -> Result:
    """Returns the result of a commit step. If there is no plan, the data set was made from memory, and `classes` has the class names."""
    named = {label.feature: label.classes for label in plan.labels} if plan is not None else classes or {}
    return Result(
        uri=uri,
        run_id=commit.run_id,
        manifest_uri=commit.manifest_uri,
        records=commit.records.out,
        bytes=commit.bytes_out,
        shards=commit.files,
        splits={split.name: split.records for split in commit.splits},
        classes={feature: tuple(names) for feature, names in named.items()},
        bad_records=commit.records.bad,
        warnings=tuple(dict.fromkeys((*(plan.warnings if plan is not None else ()), *commit.warnings))),
        is_reproducible=plan is not None,
    )


def of_manifest(uri: str, manifest_uri: str, manifest: "Manifest") -> Result:
    """Returns the result that the manifest describes, for a data set that was made from memory."""
    return Result(
        uri=uri,
        run_id=manifest.run_id,
        manifest_uri=manifest_uri,
        records=manifest.records_out,
        bytes=manifest.size,
        shards=len(manifest.files),
        splits={split.name: split.records for split in manifest.splits},
        classes={name: tuple(classes) for name, classes in manifest.labels.items()},
        bad_records=manifest.bad,
        is_reproducible=False,
    )


def of_status(status: "DataPrepJobStatus") -> Result | None:
    """Returns the result in the status of a submitted job, or None if the status has no result."""
    output = status.output
    if output is None or output.manifest_uri is None:
        return None
    return Result(
        uri=output.uri,
        run_id=status.run_id or "",
        manifest_uri=output.manifest_uri,
        records=output.records,
        bytes=output.bytes,
        shards=output.files,
        splits={split.name: split.records for split in status.splits},
        classes={label.feature: tuple(label.classes) for label in status.labels},
        bad_records=status.progress.records.bad if status.progress is not None else 0,
        warnings=tuple(status.warnings),
    )
