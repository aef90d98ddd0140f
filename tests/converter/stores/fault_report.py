"""Writes the results of the seeded fault tests to a page. `make faults` passes the page's path in FAULTS_REPORT.

Each store has its own section on the page, so a single store can be tested again. The page is written after every run, so it has results
even if the tests are stopped early.
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
    "s3": "versitygw, a real S3 server. Every shard is uploaded in two parts",
    "oss": "the project's OSS fake, which checks signatures and digests. Every shard is uploaded in two parts",
    "gcs": "the project's Cloud Storage fake. Every shard is uploaded in two parts",
    "azure": "Azurite, Azure's official emulator. Every shard is uploaded in two blocks",
    "hdfs": "a real NameNode with two DataNodes. Only the calls to the NameNode have faults",
    "webhdfs": "a real NameNode with two DataNodes. Only the requests to the NameNode have faults, not those to the DataNodes",
    "http": "a small web server as the source. The data set is written to the local disk",
    "maxcompute": "the project's MaxCompute fake. The job reads one table and writes another one, next to a data set on the local disk",
    "hdfs servers": "a real NameNode with two DataNodes. In each run, a seed determines which server is killed, and when",
}


@dataclass(frozen=True)
class Hit:
    """A fault that affects a server rather than a request."""

    kind: StrEnum


@dataclass(frozen=True)
class Outcome:
    """The outcome of one seeded run."""

    hits: Sequence[Fault | Hit]
    reason: Reason | None
    """The reason why the job failed, or None if it succeeded."""


_HEAD = """\
# Faults

`make faults` writes this page. For each run, a proxy between the converter and the server disturbs one to six requests of a small job
(plan, work and commit). A seed chooses the requests and the kinds of faults. Each run is checked as follows:

1. After the job with faults, every visible file is complete, and `_SUCCESS` exists only if all files are complete.
2. Then the job runs again without faults. Afterwards, names, bytes and manifest are the same as after a job that never had faults, and
   no leftovers exist.

A run that violates one of these rules stops the tests and isn't counted. For each store, the page shows the runs of the last `make faults`.

Other tests check that memory stays bounded while requests fail. They write and read 64 MiB; on HDFS, a DataNode is also killed
meanwhile. The process grows by at most 40 MiB (`tests/converter/stores/test_memory_under_faults.py`, and `test_oss_faults.py` for OSS).
"""


def note(store: str, outcomes: Sequence[Outcome]) -> None:
    """Writes the runs of a store to the page, if FAULTS_REPORT is set."""
    page = os.environ.get("FAULTS_REPORT")
    if page:
        path = Path(page)
        sections = _sections(path.read_text()) if path.exists() else {}
        sections[store] = _section(store, outcomes)
        ordered = [sections[name] for name in _SERVERS if name in sections]
        path.write_text("\n".join([_HEAD, *ordered]))


def _sections(page: str) -> dict[str, str]:
    """Returns each store's section of the page, with its heading."""
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
        f"Server: {_SERVERS[store]}.\n\n- Runs: {len(outcomes)}\n- Jobs that succeeded: {through}\n"
        f"- Jobs that failed in the run with faults: {reasons.total()}" + (f" ({failed})" if failed else ""),
        "",
        "| fault | times |",
        "|---|---|",
        *(f"| {kind} | {count} |" for kind, count in sorted(kinds.items())),
        "",
    ]
    return "\n".join(lines)
