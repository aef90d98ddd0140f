"""What a campaign of faults has shown, as a page: `make faults` names the file in FAULTS_REPORT.

A store's runs replace its section and leave the others', so that one store can be run again alone. It is written after every run: a campaign that
is stopped says how far it came.
"""

import os
import re
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path

from dataprep_api.reasons import Reason
from storeservers.faulty import Fault

_SERVERS = {
    "s3": "versitygw, a real S3 server; every shard in two parts",
    "oss": "the project's OSS fake, which checks signatures and digests; every shard in two parts",
    "gcs": "the project's Cloud Storage fake; every shard in two parts",
    "azure": "Azurite, Azure's own emulator; every shard in two blocks",
    "hdfs": "a real NameNode with two DataNodes; faults on the calls to the NameNode",
    "webhdfs": "the same; faults on the requests to the NameNode, not on those to the DataNodes",
    "http": "a small web server; the data set is on this machine's disk",
    "maxcompute": "the project's MaxCompute fake: a table that is read, and one that is written beside the data set on this machine's disk",
    "hdfs servers": "a real NameNode with two DataNodes, of which one server dies in each run, before an operation of the job that a seed chooses",
}


@dataclass(frozen=True)
class Hit:
    """Something that went wrong with a server, not with a request."""

    kind: StrEnum


@dataclass(frozen=True)
class Outcome:
    """One seeded run."""

    hits: Sequence[Fault | Hit]
    reason: Reason | None
    """Why the job failed; None when it went through."""


_HEAD = """\
# Faults

Written by `make faults`. A proxy stands between the converter and each server and spoils one to six requests of a whole small job (plan, work,
commit), at places and in ways that a seed chooses. After each run: what is visible is whole and `_SUCCESS` there only when all is; run again
without faults, names, bytes and manifest are those of a run that never met one, and nothing is left over. A run that does otherwise ends the campaign and isn't counted.
Each store's runs are those of its last campaign.

That memory stays bounded meanwhile is tested with 64 MiB that are written and read while requests go wrong, on HDFS also while a DataNode dies: the process
grows by at most 40 MiB (`tests/converter/stores/test_memory_under_faults.py`; OSS: `test_oss_faults.py`).
"""


def note(store: str, outcomes: Sequence[Outcome]) -> None:
    """Writes the runs of a store to the page, where one is asked for."""
    page = os.environ.get("FAULTS_REPORT")
    if page:
        path = Path(page)
        sections = _sections(path.read_text()) if path.exists() else {}
        sections[store] = _section(store, outcomes)
        ordered = [sections[name] for name in _SERVERS if name in sections]
        path.write_text("\n".join([_HEAD, *ordered]))


def _sections(page: str) -> dict[str, str]:
    """Store → its part of the page, with the heading."""
    parts = re.split(r"^## ", page, flags=re.MULTILINE)[1:]
    return {part.partition("\n")[0]: f"## {part.rstrip()}\n" for part in parts}


def _section(store: str, outcomes: Sequence[Outcome]) -> str:
    kinds = Counter(fault.kind.value for outcome in outcomes for fault in outcome.hits)
    reasons = Counter(outcome.reason.value for outcome in outcomes if outcome.reason is not None)
    through = len(outcomes) - reasons.total()
    failed = ", ".join(f"{count} {reason}" for reason, count in sorted(reasons.items()))
    lines = [
        f"## {store}",
        "",
        f"Against {_SERVERS[store]}: {len(outcomes)} runs, {through} went through, {reasons.total()} failed at first with a reason"
        + (f" ({failed})." if failed else "."),
        "",
        "| fault | times |",
        "|---|---|",
        *(f"| {kind} | {count} |" for kind, count in sorted(kinds.items())),
        "",
    ]
    return "\n".join(lines)
