"""Names: children on the cluster, files beside the output, shards."""

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
MANAGED_BY: Final = "dataprep-operator"
LABEL_JOB: Final = f"{GROUP}/job"
"""Name of the DataPrepJob, cut to 63 characters, on every child and pod."""
LABEL_JOB_UID: Final = f"{GROUP}/job-uid"
LABEL_STEP: Final = f"{GROUP}/step"
"""plan, convert or commit; cleanup of a deleted job."""
LABEL_ATTEMPT: Final = f"{GROUP}/attempt"
LABEL_CRON_JOB: Final = f"{GROUP}/cron-job"
"""Name of the DataPrepCronJob, cut to 63 characters, on the DataPrepJobs that it makes."""
LABEL_CLASS: Final = f"{GROUP}/operator-class"
"""On DataPrepJobs and DataPrepCronJobs: which of several releases works on them."""
ANNOTATION_SCHEDULED: Final = f"{GROUP}/scheduled-at"
"""When a DataPrepJob of a DataPrepCronJob was due."""
FINALIZER: Final = f"{GROUP}/output"
"""On a DataPrepJob with `deletionPolicy: Delete`: its deletion waits until its output is removed."""
ANNOTATION_RETRY: Final = f"{GROUP}/retry"
ANNOTATION_SCRIPT: Final = f"{GROUP}/script"
"""On pods that run the program of `spec.script`: their exit codes and last words are not ours."""
SELECTOR: Final = f"{LABEL_MANAGED_BY}={MANAGED_BY}"


def child_base(name: str, uid: str) -> str:
    """The common beginning of a job's children: `<name cut to 36, dots to dashes>-<10 hex of the uid>`."""
    return _child_base(name, uid, most=36, digits=10)


def first_child_base(name: str, uid: str) -> str:
    """The same as it was before jobs said in their status how it is. Of some thousands with one name's beginning, two were the same."""
    return _child_base(name, uid, most=40, digits=6)


def _child_base(name: str, uid: str, *, most: int, digits: int) -> str:
    return f"{name[:most].replace('.', '-').rstrip('-')}-{uid.replace('-', '')[:digits]}"


def label_value(name: str) -> str:
    """`name` as a label value: at most 63 characters, ending in a letter or digit."""
    return name[:63].rstrip("-._")


# --- beside the output ----------------------------------------------------------------------------------------------

SIDE: Final = "_dataprep"
SUCCESS: Final = "_SUCCESS"
OWNER: Final = f"{SIDE}/OWNER"
INDEX: Final = f"{SIDE}/index"
TFDS: Final = "_tfds"


def run_folder(run_id: str) -> str:
    """Folder of a run's plan, reports and manifest, relative to the output."""
    return f"{SIDE}/{run_id}"


def plan_file(run_id: str) -> str:
    """The plan's head."""
    return f"{run_folder(run_id)}/plan.json"


def units_file(run_id: str) -> str:
    """The plan's units, one row each."""
    return f"{run_folder(run_id)}/units.parquet"


def codes_file(run_id: str) -> str:
    """The plan's split of each sample, when it can't be derived."""
    return f"{run_folder(run_id)}/splits.parquet"


def made_folder(run_id: str) -> str:
    """Folder of what the reader made while planning; the commit step removes it."""
    return f"{run_folder(run_id)}/made"


def upload_file(run_id: str) -> str:
    """The session by which a run writes its rows to a table."""
    return f"{run_folder(run_id)}/upload.json"


def quarantine_folder(run_id: str) -> str:
    """Folder of a run's bad records."""
    return f"{run_folder(run_id)}/quarantine"


def quarantine_file(run_id: str, split: str, shard: int) -> str:
    """The bad records of one shard: `<split>-<number within the split>.jsonl`."""
    return f"{quarantine_folder(run_id)}/{split}-{shard:05d}.jsonl"


def index_file(file: str) -> str:
    """The index of one shard's records. No run has a folder of this name: a run id is of 16 hex digits."""
    return f"{INDEX}/{file}.idx"


def report_file(run_id: str, shard: int) -> str:
    """The report of one shard; its presence is the shard's commit."""
    return f"{run_folder(run_id)}/reports/{shard:08d}.json"


def manifest_file(run_id: str) -> str:
    """The manifest of a finished run."""
    return f"{run_folder(run_id)}/manifest.json"


# --- URIs ---------------------------------------------------------------------------------------------------------------


def join(uri: str, relative: str) -> str:
    """`relative` below the folder `uri`."""
    return f"{uri.rstrip('/')}/{relative}"


def normalised(uri: str) -> str:
    """One form for one place: scheme and host in lower case, `file://` dropped, no doubled or closing slash, no dot segments."""
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
    """The default split of a subset. Empty when nothing is left of the name.

    Letters lose their accents, everything between letters, digits, dots, dashes and underscores becomes one dash, and the name is cut.
    """
    letters = (letter for letter in unicodedata.normalize("NFKD", subset) if not unicodedata.combining(letter))
    return _NOT_IN_SPLITS.sub("-", "".join(letters)).strip("-._")[:_LONGEST_SPLIT].rstrip("-._")


# --- shards ---------------------------------------------------------------------------------------------------------------

_FIELD = re.compile(r"\{([^{}]*)\}")
_KNOWN = ("split", "shard", "shards", "ext")


EXTENDABLE: Final = "{split}-{shard}.{ext}"
"""The default where a data set may grow: no name says how many shards there are."""


def extendable_template(format_: str) -> str | None:
    """The template to be given for a data set that may grow, or None where the format's own default will do."""
    rules = format_rules(format_)
    return None if rules.file_name or rules.split_folder_name else EXTENDABLE


def file_name_template(
    template: str | None, *, shards: int, format_: str = "tfrecord", several_splits: bool = False, dl4j_folders: int = 2
) -> str:
    """The given template, or the format's default, for that number of shards. `dl4j_folders` is the version of that part."""
    rules = format_rules(format_)
    if template is None and dl4j_folders > 1 and rules.split_folder_name is not None:
        return rules.split_folder_name
    if template is None:
        template = rules.file_name or ("{split}.{ext}" if shards <= 1 else "{split}-{shard}-of-{shards}.{ext}")
        template = f"{{split}}/{template}" if several_splits and "{split}" not in template else template
    return f"{template}/{rules.inner_file}" if rules.inner_file is not None else template


def file_name(template: str, *, split: str, shard: int, shards: int, ext: str) -> str:
    """One shard's file name. Numbers have five digits, or those that `{shard:06}` asks for, and more when there are too many shards."""

    def value(found: re.Match[str]) -> str:
        name, _, digits = found[1].partition(":0")
        if name in ("split", "ext"):
            return split if name == "split" else ext
        return f"{shard if name == 'shard' else shards:0{max(int(digits or 5), len(str(shards)))}d}"

    return _FIELD.sub(value, template)


def split_folder(template: str | None, *, format_: str, split: str, several_splits: bool, dl4j_folders: int = 2) -> str | None:
    """The folder, relative to the output, that holds the files of this split alone; None where the file names give it none."""
    named = template or file_name_template(None, shards=2, format_=format_, several_splits=several_splits, dl4j_folders=dl4j_folders)
    inner = format_rules(format_).inner_file
    whole = named.removesuffix(f"/{inner}") if inner is not None and template is None else named
    parts = list(takewhile(lambda part: "{shard" not in part and "{ext}" not in part, whole.split("/")[:-1]))
    # Without {split}, other splits or the marks of the data set may be in the same folder.
    return "/".join(parts).replace("{split}", split) if any("{split}" in part for part in parts) else None


def split_files(extension: str, files: Iterable[str]) -> set[str]:
    """Visible files that the commit step writes beside shards of this extension: the index.json without which the reader of `mds` finds nothing."""
    kind = extension.partition(".")[0]
    found = [rules.split_file.name for rules in RULES.values() if rules.split_file is not None and rules.split_file.extension == kind]
    folders = {file.rpartition("/")[0] for file in files} if found else set()
    return {f"{folder}/{name}" if folder else name for folder in folders for name in found}


def is_hidden(path: str) -> bool:
    """Whether readers of a folder pass this file by: a part of its path begins with `_` or `.`."""
    return any(part[0] in "_." for part in path.split("/"))


def template_fault(template: str, *, several_splits: bool, several_shards: bool) -> str | None:
    """What is wrong with a file name template, or None."""
    fields = [re.sub(r"^(shards?):0[1-9]$", r"\1", field) for field in _FIELD.findall(template)]
    unknown = [name for name in fields if name not in _KNOWN]
    if unknown:
        return f"unknown field {{{unknown[0]}}} in the file name; known: {', '.join('{' + name + '}' for name in _KNOWN)}"
    if "{" in _FIELD.sub("", template) or "}" in _FIELD.sub("", template):
        return "unbalanced brace in the file name"
    segments = template.split("/")
    if any(segment in ("", ".", "..") for segment in segments):
        return "the file name must be a relative path without empty, . or .. segments"
    if any(segment[0] in "_." for segment in segments):
        return "no part of the file name may begin with _ or . (such files are hidden from Spark and Hadoop)"
    if several_splits and "split" not in fields:
        return "the file name must contain {split} when there are several splits"
    if several_shards and "shard" not in fields:
        return "the file name must contain {shard} when a split has several shards"
    return None
