"""What a campaign of faults has shown, as a page: `make faults` names the file in FAULTS_REPORT."""

import os
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path

from dataprep_api.reasons import Reason
from storeservers.faulty import Fault

_SERVERS = {
    "s3": "versitygw, a real S3 server",
    "oss": "the project's OSS fake, which checks signatures and digests",
    "azure": "Azurite, Azure's own emulator",
    "gcs": "the project's Cloud Storage fake",
    "hdfs": "a real NameNode with two DataNodes; faults on the calls to the NameNode",
    "webhdfs": "the same; faults on the requests to the NameNode, not on those to the DataNodes",
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


_found: dict[str, Sequence[Outcome]] = {}


def note(store: str, outcomes: Sequence[Outcome]) -> None:
    """Adds the runs of a store to the page, where one is asked for."""
    _found[store] = outcomes
    page = os.environ.get("FAULTS_REPORT")
    if page:
        Path(page).write_text(_page())


def _page() -> str:
    lines = [
        "# Faults",
        "",
        "Written by `make faults`. A proxy stands between the converter and each server and spoils one to six requests of a whole small job (plan, work,",
        "commit), at places and in ways that a seed chooses. After each run: what is visible is whole and `_SUCCESS` there only when all is; run again",
        "without faults, names, bytes and manifest are those of a run that never met one, and nothing is left over. No run did otherwise.",
        "",
    ]
    for store, outcomes in _found.items():
        kinds = Counter(fault.kind.value for outcome in outcomes for fault in outcome.hits)
        reasons = Counter(outcome.reason.value for outcome in outcomes if outcome.reason is not None)
        through = len(outcomes) - reasons.total()
        failed = ", ".join(f"{count} {reason}" for reason, count in sorted(reasons.items()))
        lines += [
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
