"""Validates the reports of plan, merge and commit pods, which are untrusted input. All functions are pure."""

import re
from typing import Final

from dataprep_api.dataset.messages import CommitResult, PlanResult, ScanRequest
from dataprep_api.spec import DataPrepJobSpec

_RUN_ID: Final = re.compile(r"[0-9A-Za-z._-]{1,64}")
_DIGEST: Final = re.compile(r"[0-9a-f]{64}")


def commit_fault(result: CommitResult, *, run_id: str | None) -> str | None:
    """Return why the result can't belong to this run, or None if it can."""
    records = result.records
    digests = [result.manifest_sha256, *(file.sha256 for file in result.outputs), *([result.digest] if result.digest is not None else [])]
    for digest in digests:
        if not _DIGEST.fullmatch(digest):
            return f"The commit step reports a malformed digest: {digest!r}"
    if result.run_id != run_id:
        return f"The commit step reports the run {result.run_id}, expected {run_id}."
    if records.in_ + records.added != records.out + records.bad + records.filtered:
        added_text = f" and {records.added} were added" if records.added else ""
        return f"The counts don't match: {records.in_} records were read{added_text}, but {records.out} were written, {records.bad} were bad and {records.filtered} were filtered out."
    return None


def plan_fault(result: PlanResult, spec: DataPrepJobSpec, *, step: str) -> str | None:
    """Return why the plan that the plan or merge step reports is invalid, or None if it is valid.

    The result's values become arguments of the next step.
    """
    if not _RUN_ID.fullmatch(result.run_id):
        return f"The {step} step reports a malformed run id: {result.run_id!r}"
    if not _DIGEST.fullmatch(result.plan_sha256):
        return f"The {step} step reports a malformed plan digest: {result.plan_sha256!r}"
    if result.reused and result.commit is None:
        return f"The {step} step reports a reused data set without its totals."
    return _code_fault(result, spec, step=step)


def merge_fault(result: PlanResult, *, code_commit: str | None) -> str | None:
    """Return why the merge step can't have made this plan, or None if it can. `code_commit` is the commit that the plan step reported."""
    if result.commit is not None and not result.reused:
        return "The merge step reports a finished data set, but it may only make the plan."
    if result.code_commit != code_commit:
        return f"The merge step used the commit {result.code_commit} of code.git, expected {code_commit}."
    return None


def scan_fault(request: ScanRequest, spec: DataPrepJobSpec) -> str | None:
    """Return why the plan step's request for a scan is invalid, or None if it is valid.

    The scan's name becomes an argument of the next steps.
    """
    return _code_fault(request, spec, step="plan")


def _code_fault(result: PlanResult | ScanRequest, spec: DataPrepJobSpec, *, step: str) -> str | None:
    has_code = spec.code is not None and spec.code.git is not None
    return f"The {step} step doesn't report the commit of code.git." if has_code and result.code_commit is None else None
