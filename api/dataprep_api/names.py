"""The names of objects on the cluster, of files beside the output, and of shards."""

import re
import unicodedata
from collections.abc import Iterable
from itertools import takewhile
from typing import Final
from urllib.parse import urlsplit, urlunsplit

from dataprep_api import GROUP
from dataprep_api.formats import RULES, format_rules

# --- on the cluster -----------------------------------------------------------------------------------------------

LABEL_MANAGED_BY: Final = "app.kubernetes.io/managed-by"
CONTROLLER: Final = f"{GROUP}/operator"
"""The value of `spec.managedBy` for jobs that this operator runs. Omitting the field means the same."""
MANAGED_BY: Final = "dataprep-operator"
LABEL_JOB: Final = f"{GROUP}/job"
"""A label of every child object and pod: the name of its DataPrepJob, truncated to 63 characters."""
LABEL_JOB_UID: Final = f"{GROUP}/job-uid"
LABEL_STEP: Final = f"{GROUP}/step"
"""A label that names the step of a Job and its pods: `plan`, `scan`, `merge`, `shuffle`, `convert`, `commit`, or `cleanup` for a deleted job.

A Job that represents all steps in a queue has the value `queue`.
"""
LABEL_ATTEMPT: Final = f"{GROUP}/attempt"
LABEL_ENGINE: Final = f"{GROUP}/engine"
"""A label of the pods of an engine's cluster. Its value is SPARK."""
SPARK: Final = "spark"
LABEL_CRON_JOB: Final = f"{GROUP}/cron-job"
"""A label of the DataPrepJobs that a DataPrepCronJob creates: the name of the DataPrepCronJob, truncated to 63 characters."""
LABEL_CLASS: Final = f"{GROUP}/operator-class"
"""A label of DataPrepJobs and DataPrepCronJobs that selects which of several operator releases reconciles them."""
ANNOTATION_SCHEDULED: Final = f"{GROUP}/scheduled-at"
"""An annotation with the time at which a DataPrepJob of a DataPrepCronJob was due."""
FINALIZER: Final = f"{GROUP}/output"
"""A finalizer of DataPrepJobs with `deletionPolicy: Delete`.

The finalizer delays the deletion of the DataPrepJob until the output is removed.
"""
ANNOTATION_RETRY: Final = f"{GROUP}/retry"
ANNOTATION_SCRIPT: Final = f"{GROUP}/script"
"""An annotation of pods that run the program of `spec.script`. These pods don't use the exit codes and termination messages of
`dataprep`."""
ONE_POD: Final = "DATAPREP_ONE_POD"
"""An environment variable that tells a plan pod to do the other steps too if the job is small.

Its value is the prefix of the names of the job's pods. Earlier releases of the converter ignore the variable.
"""
LINEAGE_RUN: Final = "DATAPREP_LINEAGE_RUN"
"""An environment variable with the UUID of the job's run in OpenLineage's events, if the operator sends events about it.

Earlier releases of the converter ignore the variable.
"""
MAY_SCAN: Final = "DATAPREP_MAY_SCAN"
"""An environment variable that allows a plan pod to ask for a scan by several pods instead of making the plan itself.

Its value is `true`. Earlier releases of the converter ignore the variable.
"""
TWO_ROUNDS: Final = "DATAPREP_TWO_ROUNDS"
"""An environment variable that tells a plan or merge pod that the operator supports the shuffle step (`PlanResult.shuffle_tasks`).

Without the variable, each convert pod of a shuffle reads the source. Earlier releases of the converter ignore the variable.
"""
SELECTOR: Final = f"{LABEL_MANAGED_BY}={MANAGED_BY}"


def child_base(name: str, uid: str) -> str:
    """Return the common name prefix of a job's child objects.

    The prefix consists of the job's name (truncated to 36 characters, with dashes instead of dots), a dash, and 10 hex digits of the uid.
    """
    return _child_base(name, uid, most=36, digits=10)


def first_child_base(name: str, uid: str) -> str:
    """Return the name prefix that older releases gave a job's child objects, for jobs whose status doesn't contain the prefix.

    The older prefix has fewer digits of the uid than the current prefix. Among several thousand jobs whose names begin with the same
    characters, two jobs could get the same prefix.
    """
    return _child_base(name, uid, most=40, digits=6)


def _child_base(name: str, uid: str, *, most: int, digits: int) -> str:
    return f"{name[:most].replace('.', '-').rstrip('-')}-{uid.replace('-', '')[:digits]}"


def label_value(name: str) -> str:
    """Shorten `name` to a valid label value: at most 63 characters, with a letter or digit at the end."""
    return name[:63].rstrip("-._")


# --- beside the output ----------------------------------------------------------------------------------------------

SIDE: Final = "_dataprep"
SUCCESS: Final = "_SUCCESS"
OWNER: Final = f"{SIDE}/OWNER"
INDEX: Final = f"{SIDE}/index"
TFDS: Final = "_tfds"
VISIBLE: Final = re.compile(r"[^/._][^/]*(/[^/._][^/]*)*")
"""The paths of visible files."""
_OF_RUN: Final = re.compile(rf"{SIDE}/[0-9a-f]{{16}}/")
"""The beginning of the paths of a run's files."""
REMOVED: Final = f"{SIDE}/removed"
"""On file systems, a run removes files by moving them into this folder. A run that takes over the output removes the folder."""


def run_folder(run_id: str) -> str:
    """Return the folder of a run's plan, reports and manifest.

    This path is relative to the output, like the other paths that this module returns.
    """
    return f"{SIDE}/{run_id}"


def plan_file(run_id: str) -> str:
    """Return the path of `plan.json`, which contains the plan without its units."""
    return f"{run_folder(run_id)}/plan.json"


def units_file(run_id: str) -> str:
    """Return the path of the plan's table of units, which has one row per unit."""
    return f"{run_folder(run_id)}/units.parquet"


def codes_file(run_id: str) -> str:
    """Return the path of the table that stores the split of each sample, for plans whose splits can't be derived."""
    return f"{run_folder(run_id)}/splits.parquet"


def removed_folder(run_id: str) -> str:
    """Return the folder into which a run moves the files that it removes. Only stores that are file systems use this folder."""
    return f"{REMOVED}/{run_id}"


def intermediate_folder(run_id: str) -> str:
    """Return the folder for files that a reader generates while planning. The commit step removes the folder."""
    return f"{run_folder(run_id)}/made"


def scan_folder(digest: str) -> str:
    """Return the folder for the listing and the results of a scan. The plan step removes these files when it has stored the plan.

    `digest` is the digest of the rules by which the inputs are examined.
    """
    return f"{SIDE}/scan-{digest}"


def scan_file(digest: str, part: int, number: int) -> str:
    """Return the path of a file with results of one part of a scan. The files of a part are numbered from 0."""
    return f"{scan_folder(digest)}/{part:05}-{number}.json"


def scan_listing(digest: str, listing: str) -> str:
    """Return the path of the stored listing of a scan, without the extensions of its two files. `listing` is the digest of the listing."""
    return f"{scan_folder(digest)}/listing-{listing}"


def is_of_scan_listing(path: str) -> bool:
    """Return whether a file in the folder of a scan belongs to a stored listing. All other files in this folder contain results."""
    return path.rpartition("/")[2].startswith("listing-")


def join_folder(digest: str) -> str:
    """Return the folder in which Spark's executors store the joined rows. The plan step removes the folder after it has read the rows.

    `digest` is the digest of the tables.
    """
    return f"{SIDE}/join-{digest}"


def deduplication_folder(digest: str) -> str:
    """Return the folder in which Spark's executors list the records that remain after deduplication. The plan step removes the folder after
    it has read the lists.

    `digest` is the digest of the inputs and of the settings for the comparison.
    """
    return f"{SIDE}/deduplication-{digest}"


def shuffle_folder(run_id: str) -> str:
    """Return the folder for the files of the shuffle step. The commit step removes the folder."""
    return f"{run_folder(run_id)}/shuffle"


def shuffle_file(run_id: str, number: int) -> str:
    """Return the path of the file that a task of the shuffle step writes."""
    return f"{shuffle_folder(run_id)}/{number:05d}"


def upload_file(run_id: str) -> str:
    """Return the path of the file that names the upload session in which a run writes rows to a table."""
    return f"{run_folder(run_id)}/upload.json"


def quarantine_folder(run_id: str) -> str:
    """Return the folder of a run's bad records."""
    return f"{run_folder(run_id)}/quarantine"


def quarantine_file(run_id: str, split: str, shard: int) -> str:
    """Return the path of one shard's bad records. The file is named `<split>-<number within the split>.jsonl`."""
    return f"{quarantine_folder(run_id)}/{split}-{shard:05d}.jsonl"


def index_file(file: str) -> str:
    """Return the path of the index of one shard's records.

    The folder `index` can't be a run's folder, because run ids have 16 hex digits.
    """
    return f"{INDEX}/{file}.idx"


def reports_folder(run_id: str) -> str:
    """Return the folder of the shards' reports."""
    return f"{run_folder(run_id)}/reports"


def report_file(run_id: str, shard: int) -> str:
    """Return the path of one shard's report. A shard is committed when its report exists."""
    return f"{reports_folder(run_id)}/{shard:08d}.json"


def bundle_file(run_id: str, first_shard: int) -> str:
    """Return the path of a bundle: a file that repeats the reports of consecutive shards, beginning with this shard."""
    return f"{reports_folder(run_id)}/from-{first_shard:08d}.jsonl"


def manifest_file(run_id: str) -> str:
    """Return the path of a finished run's manifest."""
    return f"{run_folder(run_id)}/manifest.json"


def manifest_table(run_id: str) -> str:
    """Return the path of the table that lists the shards of a manifest with very many shards."""
    return f"{run_folder(run_id)}/manifest-files.parquet"


# --- URIs ---------------------------------------------------------------------------------------------------------------


def join(uri: str, relative: str) -> str:
    """Append the relative path to the URI of a folder."""
    return f"{uri.rstrip('/')}/{relative}"


def normalised(uri: str) -> str:
    """Normalise a URI, so that two URIs of the same location are equal.

    The scheme and host become lower case. `file://`, repeated slashes, trailing slashes and dot segments are removed.
    """
    parts = urlsplit(uri)
    segments: list[str] = []
    for segment in parts.path.split("/"):
        if segment == ".." and segments:
            segments.pop()
        elif segment not in ("", ".", ".."):
            segments.append(segment)
    path = "/" + "/".join(segments) if parts.path.startswith("/") or parts.netloc else "/".join(segments)
    if parts.scheme in ("", "file"):
        return path
    return urlunsplit((parts.scheme.lower(), parts.netloc.lower(), path, "", "")).rstrip("/")


# --- splits ---------------------------------------------------------------------------------------------------------------

_LONGEST_SPLIT: Final = 63
_NOT_IN_SPLITS: Final = re.compile(r"[^A-Za-z0-9._-]+")


def split_name(subset: str) -> str:
    """Return the name of a subset's default split. The result is empty if the subset's name has no usable characters.

    Accents are removed. Each sequence of characters other than ASCII letters, digits, dots, dashes and underscores becomes one dash. Long
    names are cut.
    """
    letters = (letter for letter in unicodedata.normalize("NFKD", subset) if not unicodedata.combining(letter))
    return _NOT_IN_SPLITS.sub("-", "".join(letters)).strip("-._")[:_LONGEST_SPLIT].rstrip("-._")


# --- shards ---------------------------------------------------------------------------------------------------------------

_FIELD = re.compile(r"\{([^{}]*)\}")
_KNOWN_FIELDS = ("split", "shard", "shards", "ext")


EXTENDABLE: Final = "{split}-{shard}.{ext}"
"""The default file name template of a data set that can be extended. The template doesn't contain the number of shards, because this number
may change."""


def extendable_template(format_: str) -> str | None:
    """Return the file name template for a data set that can be extended, or None if the format's default template is suitable."""
    rules = format_rules(format_)
    return None if rules.file_name or rules.split_folder_name else EXTENDABLE


def file_name_template(
    template: str | None, *, shards: int, format_: str = "tfrecord", several_splits: bool = False, dl4j_folders: int = 2
) -> str:
    """Return the given template, or else the format's default for this number of shards.

    `dl4j_folders` is the version of the part `dl4jFolders`.
    """
    rules = format_rules(format_)
    if template is None and dl4j_folders > 1 and rules.split_folder_name is not None:
        return rules.split_folder_name
    if template is None:
        template = rules.file_name or ("{split}.{ext}" if shards <= 1 else "{split}-{shard}-of-{shards}.{ext}")
        template = f"{{split}}/{template}" if several_splits and "{split}" not in template else template
    return f"{template}/{rules.inner_file}" if rules.inner_file is not None else template


def file_name(template: str, *, split: str, shard: int, shards: int, ext: str) -> str:
    """Return the file name of one shard.

    Shard numbers have five digits, or as many as the template specifies, such as six for `{shard:06}`. If the number of shards has more
    digits, all shard numbers are padded to that many digits.
    """

    def value(match: re.Match[str]) -> str:
        name, _, digits = match[1].partition(":0")
        if name in ("split", "ext"):
            return split if name == "split" else ext
        return f"{shard if name == 'shard' else shards:0{max(int(digits or 5), len(str(shards)))}d}"

    return _FIELD.sub(value, template)


def split_folder(template: str | None, *, format_: str, split: str, several_splits: bool, dl4j_folders: int = 2) -> str | None:
    """Return the folder, relative to the output, that contains only files of this split. Returns None if the split has no such folder."""
    file_template = template or file_name_template(
        None, shards=2, format_=format_, several_splits=several_splits, dl4j_folders=dl4j_folders
    )
    inner = format_rules(format_).inner_file
    shard_template = file_template.removesuffix(f"/{inner}") if inner is not None and template is None else file_template
    parts = list(takewhile(lambda part: "{shard" not in part and "{ext}" not in part, shard_template.split("/")[:-1]))
    # Without {split}, the folder may also contain other splits, or files such as _SUCCESS.
    return "/".join(parts).replace("{split}", split) if any("{split}" in part for part in parts) else None


def split_files(extension: str, files: Iterable[str]) -> set[str]:
    """Return the visible files that the commit step writes beside shards with this extension.

    Only the format `mds` has such a file. It is the `index.json` that readers of `mds` need.
    """
    kind = extension.partition(".")[0]
    file_names = [rules.split_file.name for rules in RULES.values() if rules.split_file is not None and rules.split_file.extension == kind]
    folders = {file.rpartition("/")[0] for file in files} if file_names else set()
    return {f"{folder}/{name}" if folder else name for folder in folders for name in file_names}


def is_hidden(path: str) -> bool:
    """Whether programs that read a folder usually ignore this file, because a part of its path begins with `_` or `.`."""
    return any(part[0] in "_." for part in path.split("/"))


def is_visible(path: str) -> bool:
    """Whether `path` is the relative path of a file, and no part of the path begins with `_` or `.`."""
    return VISIBLE.fullmatch(path) is not None


def is_inside(path: str, folder: str) -> bool:
    """Whether this is the path of a file below a folder. `folder` ends with a slash."""
    return path.startswith(folder) and not any(part in ("", ".", "..") for part in path.removeprefix(folder).split("/"))


def is_metadata(path: str) -> bool:
    """Whether this may be the path of a file for the data set's readers.

    Such a file is in `_dataprep` or `_tfds`, or `split_files` returns its path.
    """
    if any(is_inside(path, f"{folder}/") for folder in (SIDE, TFDS)):
        return path != OWNER and not path.startswith(f"{REMOVED}/") and _OF_RUN.match(path) is None
    return is_visible(path) and path.rpartition("/")[2] in {
        rules.split_file.name for rules in RULES.values() if rules.split_file is not None
    }


def template_fault(template: str, *, several_splits: bool, several_shards: bool) -> str | None:
    """Describe what is wrong with a file name template. Returns None if the template is valid."""
    fields = [re.sub(r"^(shards?):0[1-9]$", r"\1", field) for field in _FIELD.findall(template)]
    unknown = [name for name in fields if name not in _KNOWN_FIELDS]
    if unknown:
        return f"unknown field {{{unknown[0]}}} in the file name; known: {', '.join('{' + name + '}' for name in _KNOWN_FIELDS)}"
    if "{" in _FIELD.sub("", template) or "}" in _FIELD.sub("", template):
        return "unbalanced brace in the file name"
    segments = template.split("/")
    if any(segment in ("", ".", "..") for segment in segments):
        return "the file name must be a relative path, and no segment of it may be empty, . or .."
    if any(segment[0] in "_." for segment in segments):
        return "no part of the file name may begin with _ or ., because Spark and Hadoop ignore such files"
    if several_splits and "split" not in fields:
        return "the file name must contain {split} when there are several splits"
    if several_shards and "shard" not in fields:
        return "the file name must contain {shard} when a split has several shards"
    return None
