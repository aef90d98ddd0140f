"""`DataPrepJob.spec`: this raw data, these transforms, shards of this format, there.

These models are the single source of the CRD's schema, of `kubectl explain` and of `dataprep validate`.
Rules that the API server can check are written as CEL beside the field (`rules`); Python repeats only what a
laptop must check without an API server, in the validators below each model.
"""

from typing import Annotated, Final, Literal, Self

from pydantic import ConfigDict, Field, model_validator

from dataprep_api.formats import COPY, SAGEMAKER, format_rules
from dataprep_api.spec.code import Code
from dataprep_api.spec.copying import faults as copying_faults
from dataprep_api.spec.features import Dtype, Feature, LabelFeature
from dataprep_api.spec.formats.tfrecord import TfrecordOptions
from dataprep_api.spec.growing import faults as growing_faults
from dataprep_api.spec.model import Model, OneOf, Open, Quantity, ResourceQuantity, Seconds, rule, rules
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
from dataprep_api.spec.workers import Accelerator, EnvVar, LocalObjectReference, Resources, Store, Toleration, Workers

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
    """What happens to bad records. A record is bad when it can't be read or doesn't fit."""

    policy: Literal["Fail", "Skip", "Quarantine"] = "Fail"
    """`Fail`, `Skip` or `Quarantine` a bad record. `Fail`: the first one fails the job. `Skip`: it is left out, counted and reported. `Quarantine`: as `Skip`, and every bad record is kept below the output's `_dataprep` folder."""
    max_count: Annotated[int, Field(ge=0)] | None = None
    """Fail above this number of bad records."""
    max_fraction: Annotated[float, Field(ge=0, le=1)] | None = None
    """Fail above this fraction of bad records."""


class CleanupRule(Model):
    """What to remove after the job has ended: its pods, its Jobs, or the DataPrepJob."""

    when: Literal["Succeeded", "Failed"]
    """How the job ended."""
    action: Literal["DeletePods", "DeleteJobs", "DeleteSelf"]
    """What to remove. `DeletePods` removes finished pods, `DeleteJobs` their Jobs too, `DeleteSelf` the DataPrepJob with everything it owns."""
    after_seconds: Seconds = 0
    """Delay after the end."""


class Retry(Model):
    """How a step is retried after it ran out of memory."""

    memory_growth: Annotated[float, Field(ge=1.1, le=4)]
    """Memory factor for each such retry. A task that ran out of memory runs again with this many times the memory, until it succeeds or `maxMemory` is reached. The plan and commit steps do so too."""
    max_memory: Quantity
    """Upper limit per pod: `8Gi`."""


DeadlineSeconds = Annotated[int, Field(ge=1, le=31_536_000)]


class StepDeadlines(Model):
    """How long each step may run, retries included. The job fails when a step takes longer."""

    plan_seconds: DeadlineSeconds | None = None
    """Limit of the plan step."""
    convert_seconds: DeadlineSeconds | None = None
    """Limit of the convert step."""
    commit_seconds: DeadlineSeconds | None = None
    """Limit of the commit step."""


ParamName = Annotated[str, Field(pattern=r"^[A-Za-z_][A-Za-z0-9_]*$", max_length=63)]


_OF_A_SOURCE: Final = ("features", "labels", "transforms", "deduplicate", "limit", "splits", "shuffle")
"""Fields that say something about records, which a script makes by itself."""

_NO_LIMIT: Final = "limit counts all splits of the other job's data set; leave it out with fromJob.split"

NO_TRAIN: Final = (
    f"{' and '.join(SAGEMAKER)} is for SageMaker, whose training jobs need a channel named train: name one of the splits train"
)


class DataPrepJobSpec(Model):
    """Converts raw data into a data set of shards."""

    model_config = ConfigDict(
        json_schema_extra=rules(
            rule("has(self.source) != has(self.script)", "set exactly one of source and script", path=".source"),
            *(
                rule(f"!has(self.script) || !has(self.{name})", f"{name} is for jobs with a source", path=f".{name}")
                for name in _OF_A_SOURCE
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
    """Values for `${NAME}` in the spec. They are filled into the strings of source, features, labels, transforms, output and stores. `$$` is a dollar sign. The API server validates the spec before they are filled in, so on a cluster use them only where any text is valid, such as URIs, columns and file names, and not for enums, numbers or quantities."""
    source: Source | None = None
    """The raw data: set exactly one member. Every job has either a source or a `script`."""
    script: Script | None = None
    """Your own program, instead of a source. It runs in an image of yours and writes the data set; the commit step checks the result."""
    features: Annotated[list[Feature], Field(min_length=1, max_length=256)] | None = None
    """Features of the records. Default: every column of the source, after the transforms, that is not a label."""
    labels: Annotated[list[LabelFeature], Field(min_length=1, max_length=64)] | None = None
    """Features to predict. Default: the column `label` (of images `image/class/label`), if there is one."""
    transforms: Annotated[list[Transform], Field(max_length=32)] | None = None
    """Steps, applied in order."""
    deduplicate: Deduplicate | None = None
    """Drops repeated records."""
    limit: Annotated[int, Field(ge=1)] | None = None
    """Take only this many samples. They are spread over the whole source, and the same input always gives the same ones. Splits divide what is taken."""
    splits: Splits | None = None
    """How samples are divided. Default: each subset of the source is a split, and a source without subsets becomes `train`."""
    shuffle: Shuffle | None = None
    """Shuffles each split globally. Default: the order of the source."""
    output: Output
    """Where and how to write the data set."""
    on_bad_record: BadRecords = BadRecords()
    """What happens to bad records."""
    allow_empty: bool = False
    """Whether empty input is accepted. The data set is then empty; otherwise the job fails."""
    code: Code | None = None
    """Code that is not in the image. It holds Python modules for plug-ins of source and transforms, or the program of `script`."""
    stores: Annotated[list[Store], Field(max_length=32)] | None = None
    """Access to stores, by URI prefix. Each entry gives credentials from a Secret, endpoints, or Hadoop's configuration from a ConfigMap."""
    workers: Workers = Workers()
    """The converter pods."""
    profile: Annotated[str, Field(min_length=1, max_length=253)] | None = None
    """DataPrepProfile with defaults for this job. It is in the same namespace, and its stores and workers fill in what is left out here. Default: the profile named `default`, if there is one."""
    run_after: Annotated[list[JobName], Field(max_length=32)] | None = None
    """DataPrepJobs to wait for. They are in the same namespace and must be Complete before this job starts. `dataprep run` ignores the field."""
    suspend: bool = False
    """Stops the pods; false resumes. Finished shards are kept."""
    active_deadline_seconds: DeadlineSeconds | None = None
    """Time limit of the whole job."""
    step_deadlines: StepDeadlines | None = None
    """Time limits of the steps. Suspending the job restarts the count."""
    start_deadline_seconds: DeadlineSeconds | None = None
    """Time limit for the start. The job fails when a pod stays unschedulable for longer, or when a job that it waits for stays unfinished for longer. Default: no limit."""
    blocked_deadline_seconds: DeadlineSeconds | None = None
    """Time limit for pods that can't start. It applies when someone has to act: to a missing image, Secret or ConfigMap, or a request that was refused. Default: as long as the job has worked so far, at least 30 s (600 s where a registry or the network may recover) and at most 6 h."""
    backoff_limit: Annotated[int, Field(ge=0, le=100)] = 3
    """Retries of the plan and commit steps."""
    backoff_limit_per_index: Annotated[int, Field(ge=0, le=100)] = 3
    """Retries of each convert task."""
    max_evictions: Annotated[int, Field(ge=0, le=1_000_000)] | None = None
    """Evicted pods before the job fails. Preemption, drains and nodes under pressure count. Default: no limit."""
    retry: Retry | None = None
    """Retries with more memory. Default: a task that runs out of memory is retried as it is, then fails."""
    max_failed_indexes: Annotated[int, Field(ge=0, le=10_000)] | None = None
    """Failed tasks before conversion stops. A job with a failed task never succeeds; this limits the work done until then. Default: every task is tried."""
    ttl_seconds_after_finished: Seconds | None = None
    """Delete the job this long after it ended. Outputs stay, unless `deletionPolicy` says otherwise."""
    cleanup: Annotated[list[CleanupRule], Field(max_length=8)] | None = None
    """What to remove some time after the end. Default: nothing, so that the logs of the pods stay."""
    deletion_policy: Literal["Retain", "Delete"] = "Retain"
    """Whether deletion removes output files. With `Delete`, deleting the DataPrepJob also removes the files that it wrote to the output. May change at any time."""

    @property
    def data(self) -> Source:
        """The source of a job that has one. Ask only where a script can't be."""
        assert self.source is not None  # noqa: S101 - jobs with a script take another way, see `steps/script_job.py` of the converter
        return self.source

    @model_validator(mode="after")
    def _source_or_script(self) -> Self:
        if (self.source is None) == (self.script is None):
            raise ValueError("set exactly one of source and script")
        for name in _OF_A_SOURCE if self.script is not None else ():
            if getattr(self, name) is not None:
                raise ValueError(f"{name} is for jobs with a source")
        if self.script is not None and self.output.table is not None:
            raise ValueError("output.table is for jobs with a source")
        return self

    @model_validator(mode="after")
    def _one_split_of_the_other_job(self) -> Self:
        other = self.source.from_job if self.source is not None else None
        if other is None or other.split is None:
            return self
        if self.limit is not None:
            raise ValueError(_NO_LIMIT)
        for entry in self.splits.into if self.splits is not None else ():
            if entry.subset is not None:
                raise ValueError(f"the split {entry.name!r} names a subset, and so does fromJob.split: leave one of them out")
        return self

    @model_validator(mode="after")
    def _a_channel_to_train_on(self) -> Self:
        names = [split.name for split in self.splits.into] if self.splits is not None else ["train"]
        if format_rules(self.output.format).is_for_sagemaker and "train" not in names:
            raise ValueError(f"{NO_TRAIN}; they are {', '.join(names)}")
        return self

    @model_validator(mode="after")
    def _can_grow(self) -> Self:
        if self.output.overwrite == "Extend" and (found := list(growing_faults(self))):
            raise ValueError(f"overwrite: Extend: {'; '.join(found)}")
        return self

    @model_validator(mode="after")
    def _a_copy_is_what_it_is(self) -> Self:
        if self.output.format == COPY and (found := list(copying_faults(self))):
            raise ValueError(f"output.format: copy: {'; '.join(found)}")
        return self

    @property
    def awaited(self) -> list[str]:
        """Names of the jobs that must be Complete before this one starts."""
        other = self.source.from_job if self.source is not None else None
        return list(dict.fromkeys([*([other.name] if other is not None else []), *(self.run_after or [])]))

    @model_validator(mode="after")
    def _unique_features(self) -> Self:
        names = [feature.name for feature in [*(self.features or []), *(self.labels or [])]]
        for name in names:
            if names.count(name) > 1:
                raise ValueError(f"the feature {name!r} is named twice in features and labels")
        return self
