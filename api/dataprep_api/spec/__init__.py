"""`DataPrepJob.spec`: the source, the transforms, the output format and the destination.

The CRD's schema, `kubectl explain` and `dataprep validate` are all made from these models. Rules that the API server can check are written
in CEL beside the field (see `rules`). If a rule must also be checked without an API server, for example on a laptop, a validator of the
model repeats the rule in Python.
"""

from typing import Annotated, Final, Literal, Self

from pydantic import ConfigDict, Field, model_validator

from dataprep_api.formats import COPY, SAGEMAKER, format_rules
from dataprep_api.spec.code import Code
from dataprep_api.spec.copy_rules import faults as copy_faults
from dataprep_api.spec.engine import Engine
from dataprep_api.spec.extend_rules import faults as extend_faults
from dataprep_api.spec.features import Dtype, Feature, LabelFeature
from dataprep_api.spec.formats.tfrecord import TfrecordOptions
from dataprep_api.spec.model import Model, OneOf, Open, Quantity, ResourceQuantity, Seconds, SharedList, rule, rules
from dataprep_api.spec.output import HdfsOptions, Output, Shards
from dataprep_api.spec.script import Script
from dataprep_api.spec.sources import Source
from dataprep_api.spec.sources.csv import CsvColumn, CsvSource
from dataprep_api.spec.sources.from_job import JobName
from dataprep_api.spec.sources.idx import IdxSource, IdxSubset
from dataprep_api.spec.sources.images import ImagesSource
from dataprep_api.spec.splits import Deduplicate, Shuffle, Split, Splits
from dataprep_api.spec.transforms import Transform
from dataprep_api.spec.transforms.numbers import OneHot, Scale
from dataprep_api.spec.workers import (
    Accelerator,
    EnvVar,
    LocalObjectReference,
    Planning,
    Resources,
    Store,
    Stores,
    Toleration,
    Workers,
)

__all__ = [
    "Accelerator",
    "BadRecords",
    "CleanupRule",
    "CsvColumn",
    "CsvSource",
    "DataPrepJobSpec",
    "Dtype",
    "EnvVar",
    "Feature",
    "HdfsOptions",
    "IdxSource",
    "IdxSubset",
    "ImagesSource",
    "LabelFeature",
    "LocalObjectReference",
    "Model",
    "OneHot",
    "OneOf",
    "Open",
    "Output",
    "Planning",
    "Quantity",
    "ResourceQuantity",
    "Resources",
    "Retry",
    "Scale",
    "Shards",
    "Shuffle",
    "Source",
    "Split",
    "Splits",
    "Store",
    "TfrecordOptions",
    "Toleration",
    "Transform",
    "Workers",
    "rule",
    "rules",
]


class BadRecords(Model):
    """What happens to bad records. A record is bad if it can't be read, or if it doesn't fit the spec."""

    policy: Literal["Fail", "Skip", "Quarantine"] = "Fail"
    """`Fail`, `Skip` or `Quarantine` bad records. `Fail`: the first bad record fails the job. `Skip`: bad records are left out, counted and reported. `Quarantine`: like `Skip`, and every bad record is also kept below the output's `_dataprep` folder."""
    max_count: Annotated[int, Field(ge=0)] | None = None
    """Fail if more records than this are bad."""
    max_fraction: Annotated[float, Field(ge=0, le=1)] | None = None
    """Fail if more than this fraction of the records is bad."""


class CleanupRule(Model):
    """What to remove after the job has ended: its pods, its Jobs, or the DataPrepJob."""

    when: Literal["Succeeded", "Failed"]
    """How the job ended."""
    action: Literal["DeletePods", "DeleteJobs", "DeleteSelf"]
    """What to remove. `DeletePods` removes finished pods. `DeleteJobs` also removes their Jobs. `DeleteSelf` removes the DataPrepJob and everything that it owns."""
    after_seconds: Seconds = 0
    """Seconds to wait after the job's end."""


class Retry(Model):
    """How a step is retried after it has run out of memory."""

    memory_growth: Annotated[float, Field(ge=1.1, le=4)]
    """Factor by which a retry raises memory. When a task runs out of memory, its memory is multiplied by this factor and the task runs again, until it succeeds or `maxMemory` is reached. All other steps are retried in the same way."""
    max_memory: Quantity
    """Upper limit on memory per pod. Example: `8Gi`."""


DeadlineSeconds = Annotated[int, Field(ge=1, le=31_536_000)]


class StepDeadlines(Model):
    """How long each step may run, retries included. The job fails when a step takes longer."""

    plan_seconds: DeadlineSeconds | None = None
    """Time limit of the plan step. If several pods scan the input, it applies separately to the scan step and to the merge step."""
    convert_seconds: DeadlineSeconds | None = None
    """Time limit of the convert step. It applies separately to the shuffle step."""
    commit_seconds: DeadlineSeconds | None = None
    """Time limit of the commit step."""


ParamName = Annotated[str, Field(pattern=r"^[A-Za-z_][A-Za-z0-9_]*$", max_length=63)]


_SOURCE_FIELDS: Final = ("features", "labels", "transforms", "deduplicate", "limit", "splits", "shuffle")
"""Fields that describe records. A job with a script can't set these fields, because the script writes the records itself."""

_NO_LIMIT: Final = "limit can't be combined with fromJob.split, because limit counts the records of all splits"

NO_TRAIN: Final = f"{' and '.join(SAGEMAKER)} is for SageMaker, which needs a channel named train, but none of the splits has that name"


class DataPrepJobSpec(Model):
    """Converts raw data into a data set of shards."""

    model_config = ConfigDict(
        json_schema_extra=rules(
            rule("has(self.source) != has(self.script)", "set exactly one of source and script", path=".source"),
            *(
                rule(f"!has(self.script) || !has(self.{name})", f"{name} can be set only in a job with a source", path=f".{name}")
                for name in _SOURCE_FIELDS
            ),
            rule(
                "!has(self.limit) || !has(self.source) || !has(self.source.fromJob) || !has(self.source.fromJob.split)",
                _NO_LIMIT,
                path=".limit",
            ),
            rule(
                f"!has(self.splits) || !has(self.output.format) || !(self.output.format in {SAGEMAKER})"
                " || self.splits.into.exists(a, a.name == 'train')",
                NO_TRAIN,
                path=".splits",
            ),
            rule(
                "!has(self.output.format) || self.output.format != 'copy' || (has(self.source) && (has(self.source.dataset) || has(self.source.fromJob)))",
                "format: copy needs source.dataset or source.fromJob",
                path=".output.format",
            ),
        )
    )

    params: Annotated[dict[ParamName, Annotated[str, Field(max_length=1024)]], Field(max_length=64)] | None = None
    """Values for `${NAME}` in the spec. The values are filled into the strings of source, script, code, features, labels, transforms, splits, output and stores. Write `$$` for a dollar sign. The API server validates the spec before the values are filled in. So on a cluster, use params only where any text is valid, such as in URIs, columns and file names. Don't use params in enums, numbers or quantities."""
    source: Source | None = None
    """The raw data: set exactly one member. Every job has either a source or a `script`."""
    script: Script | None = None
    """Your own program, instead of a source. The program runs in an image that you choose and writes the data set. The commit step checks the result."""
    features: Annotated[list[Feature], Field(min_length=1, max_length=256)] | None = None
    """Features of the records. Default: every column that the transforms produce, except the labels."""
    labels: Annotated[list[LabelFeature], Field(min_length=1, max_length=64)] | None = None
    """Features to predict. Default: the column `label` (for images `image/class/label`), if it exists."""
    transforms: Annotated[list[Transform], Field(max_length=32)] | None = None
    """Transforms, applied in this order."""
    deduplicate: Deduplicate | None = None
    """Drops repeated records."""
    limit: Annotated[int, Field(ge=1)] | None = None
    """Take only this many samples. The samples are spread over the whole source, and the same input always gives the same samples. Only the chosen samples are divided into splits."""
    splits: Splits | None = None
    """How samples are divided into splits. Default: each subset of the source is a split. A source without subsets becomes the split `train`."""
    shuffle: Shuffle | None = None
    """Shuffles each split as a whole. Default: records keep the order of the source."""
    output: Output
    """Where and how to write the data set."""
    on_bad_record: BadRecords = BadRecords()
    """What happens to bad records."""
    nulls: Literal["Keep", "Bad"] | None = None
    """How nulls are treated. A null is a missing value in a table, such as an empty cell in a column of numbers. `Keep`: nulls are written as nulls, and a record is bad if the format has no null for the feature. `Bad`: a record with a null is bad. Default: `Keep`."""
    allow_empty: bool = False
    """Whether empty input is accepted. If true, empty input gives an empty data set. If false, the job fails on empty input."""
    code: Code | None = None
    """Code that is not in the image. It consists of Python modules for source and transform plug-ins, or of the program of `script`."""
    stores: Stores | None = None
    """Access to stores, by URI prefix. An entry can have an endpoint, a Secret with credentials, and Hadoop's configuration."""
    workers: Workers = Workers()
    """The converter pods. The pods of the scan step and the shuffle step have the same settings, except that they get no devices."""
    # There is no default, because the API server would write the default into each job, and earlier releases would refuse the job.
    planning: Planning | None = None
    """Pods of the plan, merge and commit steps. There is a merge step only if several pods scan the input. With `engine`, the pods of the plan step have the sizes of the engine."""
    engine: Engine | None = None
    """Engine that joins the tables of `source.join`. Without an engine, one pod joins them and needs disk space for all rows. `dataprep run` ignores this field and has the option `--engine spark` instead."""
    profile: Annotated[str, Field(min_length=1, max_length=253)] | None = None
    """DataPrepProfile with defaults for this job. The profile is in the same namespace. Its stores and workers apply where this spec sets nothing. Default: the profile named `default`, if it exists."""
    run_after: Annotated[list[JobName], Field(max_length=32), SharedList()] | None = None
    """DataPrepJobs to wait for. These jobs are in the same namespace and must be Complete before this job starts. `dataprep run` ignores the field."""
    managed_by: Annotated[str, Field(min_length=1, max_length=63, pattern=r"^[a-z0-9.-]+/[A-Za-z0-9_.-]+$")] | None = None
    """Controller that runs the job. An operator leaves jobs of other controllers, such as `kueue.x-k8s.io/multikueue`, untouched, and never writes their status. The field can't be changed. Default: `dataprep.io/operator`."""
    suspend: bool = False
    """Whether the job is suspended. Setting the field to true stops the pods but keeps finished shards. Setting the field to false resumes the job."""
    active_deadline_seconds: DeadlineSeconds | None = None
    """Time limit for the whole job."""
    step_deadlines: StepDeadlines | None = None
    """Time limits of the steps. When a suspended job is resumed, the time is counted from zero again."""
    start_deadline_seconds: DeadlineSeconds | None = None
    """Time limit for the start. The job fails if it waits for another job for longer than this limit. It also fails if one of its pods stays unschedulable for longer than this limit. Default: no limit."""
    blocked_deadline_seconds: DeadlineSeconds | None = None
    """Time limit for pods that can't start. The limit applies to problems that someone has to solve: an image, Secret or ConfigMap is missing, or the API server refuses the pods. Default: the time for which the job has worked so far, but at least 30 s and at most 6 h. If the problem may be temporary, such as a network timeout, the default is at least 600 s."""
    backoff_limit: Annotated[int, Field(ge=0, le=100)] = 3
    """Retries of the plan, merge and commit steps. There is a merge step only if several pods scan the input."""
    backoff_limit_per_index: Annotated[int, Field(ge=0, le=100)] = 3
    """Retries of each convert task. Each task of the scan step and of the shuffle step has the same number of retries."""
    max_evictions: Annotated[int, Field(ge=0, le=1_000_000)] | None = None
    """Evicted pods allowed before the job fails. Pods are evicted by preemption, by drains, and by nodes under pressure. Default: no limit."""
    retry: Retry | None = None
    """Retries with more memory. Default: a task that runs out of memory is retried with the same memory, and then fails."""
    max_failed_indexes: Annotated[int, Field(ge=0, le=10_000)] | None = None
    """Failed tasks allowed before conversion stops. A job with a failed task can't succeed, so this field limits wasted work. Tasks of the scan step and the shuffle step count too. Default: every task is tried."""
    ttl_seconds_after_finished: Seconds | None = None
    """Seconds until the ended job is deleted. The output stays if `deletionPolicy` isn't `Delete`."""
    cleanup: Annotated[list[CleanupRule], Field(max_length=8)] | None = None
    """What to remove some time after the job ends. Default: everything is kept, so that the pods' logs stay available."""
    deletion_policy: Literal["Retain", "Delete"] = "Retain"
    """Whether deletion removes output files. With `Delete`, deleting the DataPrepJob also removes the files that it wrote to the output. You can change this field at any time."""

    @property
    def data(self) -> Source:
        """The source of the job. Jobs with a script have no source, so code for such jobs can't use this property."""
        assert self.source is not None  # noqa: S101 - jobs with a script run in `steps/script_job.py` of the converter
        return self.source

    @model_validator(mode="after")
    def _check_source_or_script(self) -> Self:
        if (self.source is None) == (self.script is None):
            raise ValueError("set exactly one of source and script")
        # `nulls` has no rule in the CRD, because stored objects that break a new rule could no longer be changed.
        for name in (*_SOURCE_FIELDS, "nulls") if self.script is not None else ():
            if getattr(self, name) is not None:
                raise ValueError(f"{name} can be set only in a job with a source")
        if self.script is not None and self.output.table is not None:
            raise ValueError("output.table can be set only in a job with a source")
        return self

    @model_validator(mode="after")
    def _check_split_of_other_job(self) -> Self:
        other = self.source.from_job if self.source is not None else None
        if other is None or other.split is None:
            return self
        if self.limit is not None:
            raise ValueError(_NO_LIMIT)
        for entry in self.splits.into if self.splits is not None else ():
            if entry.subset is not None:
                raise ValueError(f"the split {entry.name!r} sets subset, which can't be combined with fromJob.split: leave one of them out")
        return self

    @model_validator(mode="after")
    def _check_train_split(self) -> Self:
        names = [split.name for split in self.splits.into] if self.splits is not None else ["train"]
        if format_rules(self.output.format).is_for_sagemaker and "train" not in names:
            raise ValueError(f"{NO_TRAIN}; they are {', '.join(names)}")
        return self

    @model_validator(mode="after")
    def _check_extend(self) -> Self:
        if self.output.overwrite == "Extend" and (faults := list(extend_faults(self))):
            raise ValueError(f"overwrite: Extend: {'; '.join(faults)}")
        return self

    @model_validator(mode="after")
    def _check_copy(self) -> Self:
        if self.output.format == COPY and (faults := list(copy_faults(self))):
            raise ValueError(f"output.format: copy: {'; '.join(faults)}")
        return self

    @model_validator(mode="after")
    def _check_engine(self) -> Self:
        if self.engine is not None and (self.source is None or self.source.join is None):
            raise ValueError("engine: spark joins tables, so it can be set only in a job with source.join")
        return self

    @property
    def awaited_jobs(self) -> list[str]:
        """The names of the jobs that must be Complete before this job starts."""
        other = self.source.from_job if self.source is not None else None
        return list(dict.fromkeys([*([other.name] if other is not None else []), *(self.run_after or [])]))

    @model_validator(mode="after")
    def _check_feature_names(self) -> Self:
        names = [feature.name for feature in [*(self.features or []), *(self.labels or [])]]
        for name in names:
            if names.count(name) > 1:
                raise ValueError(f"the feature {name!r} is listed twice in features and labels")
        return self
