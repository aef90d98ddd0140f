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
    """What happens to a record that can't be read or doesn't fit."""

    policy: Literal["Fail", "Skip", "Quarantine"] = "Fail"
    """`Fail`: the first one fails the job. `Skip`: it is left out, counted and named. `Quarantine`: the same, and all of them are kept below the output's `_dataprep` folder."""
    max_count: Annotated[int, Field(ge=0)] | None = None
    """The job fails when more records than this are bad."""
    max_fraction: Annotated[float, Field(ge=0, le=1)] | None = None
    """The job fails when a larger fraction of all records is bad."""


class CleanupRule(Model):
    """What is removed some time after the job ended: its pods, its Jobs, or the DataPrepJob."""

    when: Literal["Succeeded", "Failed"]
    action: Literal["DeletePods", "DeleteJobs", "DeleteSelf"]
    """`DeletePods` and `DeleteJobs` remove finished pods (and their Jobs), `DeleteSelf` the DataPrepJob with all of them."""
    after_seconds: Seconds = 0


class Retry(Model):
    """What is different when a step is tried again."""

    memory_growth: Annotated[float, Field(ge=1.1, le=4)]
    """Tasks that ran out of memory run again with so many times the memory, until they get through or `maxMemory` is reached; the plan and the commit step too."""
    max_memory: Quantity
    """The most memory that a pod may get: `8Gi`."""


DeadlineSeconds = Annotated[int, Field(ge=1, le=31_536_000)]


class StepDeadlines(Model):
    """How long each step may run from its start, its retries included; the job fails when it runs for longer."""

    plan_seconds: DeadlineSeconds | None = None
    convert_seconds: DeadlineSeconds | None = None
    commit_seconds: DeadlineSeconds | None = None


ParamName = Annotated[str, Field(pattern=r"^[A-Za-z_][A-Za-z0-9_]*$", max_length=63)]


_OF_A_SOURCE: Final = ("features", "labels", "transforms", "deduplicate", "limit", "splits", "shuffle")
"""Fields that say something about records, which a script makes by itself."""

_NO_LIMIT: Final = "limit counts all splits of the other job's data set; leave it out with fromJob.split"

NO_TRAIN: Final = (
    f"{' and '.join(SAGEMAKER)} is for SageMaker, whose training jobs need a channel named train: name one of the splits train"
)


class DataPrepJobSpec(Model):
    """This raw data, through these transforms, into shards of this format, there."""

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
    """Values for `${NAME}` in the strings of source, features, labels, transforms, output and stores. `$$` stands for a dollar sign. The API server reads the spec as it is written, so on a cluster they may stand only where any text is valid: URIs, columns, file names, but not where a word of a list, a number or a quantity is expected."""
    source: Source | None = None
    """The raw data: exactly one member. Either this or `script` is set."""
    script: Script | None = None
    """A program of your own makes the data set, in an image of your own; the commit step checks what it made."""
    features: Annotated[list[Feature], Field(min_length=1, max_length=256)] | None = None
    """Features of the records. Default: every column of the source (and of the transforms) that is not a label."""
    labels: Annotated[list[LabelFeature], Field(min_length=1, max_length=64)] | None = None
    """Features that training predicts. Default: the column `label` (`image/class/label` of images) when there is one."""
    transforms: Annotated[list[Transform], Field(max_length=32)] | None = None
    """Steps applied in order."""
    deduplicate: Deduplicate | None = None
    """Leaves out records that say the same as an earlier one."""
    limit: Annotated[int, Field(ge=1)] | None = None
    """Take only this many samples, spread over the whole source: always the same ones for the same input. Splits divide these."""
    splits: Splits | None = None
    """How samples are divided."""
    shuffle: Shuffle | None = None
    """Global shuffle of each split. Default: the source's order."""
    output: Output
    """Where the data set goes, and in what form."""
    on_bad_record: BadRecords = BadRecords()
    """What happens to a record that can't be read or doesn't fit."""
    allow_empty: bool = False
    """Whether an input without records makes an empty data set instead of a failure."""
    code: Code | None = None
    """Code that is not in the image: modules for the plug-ins of source and transforms, or the program of `script`."""
    stores: Annotated[list[Store], Field(max_length=32)] | None = None
    """How stores are reached: credentials by Secret, endpoints, Hadoop configuration by ConfigMap, each for a URI prefix."""
    workers: Workers = Workers()
    """The converter pods."""
    profile: Annotated[str, Field(min_length=1, max_length=253)] | None = None
    """The DataPrepProfile of this namespace whose stores and workers fill in what is left out here. Default: the one named `default`, if there is one."""
    run_after: Annotated[list[JobName], Field(max_length=32)] | None = None
    """DataPrepJobs of the same namespace that must be Complete before this one starts. `dataprep run` passes over it."""
    suspend: bool = False
    """Stops the pods without losing finished shards; false resumes."""
    active_deadline_seconds: DeadlineSeconds | None = None
    """The job fails when it has run for longer."""
    step_deadlines: StepDeadlines | None = None
    """The job fails when a step has run for longer. A suspension starts the count anew."""
    start_deadline_seconds: DeadlineSeconds | None = None
    """The job fails when a pod stays unschedulable, or another job that it waits for unfinished, for longer. Default: it waits."""
    blocked_deadline_seconds: DeadlineSeconds | None = None
    """The job fails when its pods can't start for longer, for a reason that somebody must remove: image, Secret, ConfigMap, refusal. Default: as long as the job has worked, at least 30 s (600 s when a registry or network may recover), at most 6 h."""
    backoff_limit: Annotated[int, Field(ge=0, le=100)] = 3
    """Retries of the plan and of the commit step."""
    backoff_limit_per_index: Annotated[int, Field(ge=0, le=100)] = 3
    """Retries of each task of the conversion."""
    max_evictions: Annotated[int, Field(ge=0, le=1_000_000)] | None = None
    """The job fails when the cluster has taken more of its pods away (preemption, drains, nodes under pressure). Default: no limit."""
    retry: Retry | None = None
    """More memory for tasks that ran out of it. Default: they fail after their retries."""
    max_failed_indexes: Annotated[int, Field(ge=0, le=10_000)] | None = None
    """Tasks that may fail for good before the conversion is stopped. A job with a failed task never succeeds; this bounds the work until then. Default: all tasks are tried."""
    ttl_seconds_after_finished: Seconds | None = None
    """The DataPrepJob deletes itself this long after it ended. Outputs stay, unless `deletionPolicy` says otherwise."""
    cleanup: Annotated[list[CleanupRule], Field(max_length=8)] | None = None
    """What is removed some time after the end. Default: nothing, so the pods' logs stay."""
    deletion_policy: Literal["Retain", "Delete"] = "Retain"
    """Whether deleting the DataPrepJob also removes the files that it wrote to the output. It may change at any time."""

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
