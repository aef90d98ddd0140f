"""Generates `docs/reasons.md` from the list of reasons.

`python -m dataprep_api.generate.reasons_page` writes the page. With `--check`, the command only compares the page with the list.
"""

import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Final

from dataprep_api.generate import generated
from dataprep_api.reasons import MEANING, ConditionType

FILE: Final = Path("docs/reasons.md")

_CONDITIONS: Final = {
    ConditionType.READY: "The data set is complete. Before that, the condition is False, and its reason and message describe the job's state. In a DataPrepCronJob: the spec is valid.",
    ConditionType.STALLED: "The job has failed, or the DataPrepCronJob's spec is invalid. This condition is present only while True, for tools such as Flux that wait for `Ready`.",
    ConditionType.VALIDATED: "The spec was accepted, and the plan step found that inputs and output can be used.",
    ConditionType.RUNNING: "Pods of the job are running.",
    ConditionType.SUSPENDED: "The job is stopped by `spec.suspend`. Finished shards are kept.",
    ConditionType.QUOTA_RESERVED: "The queue has admitted the job, or its convert Job. This condition exists only for jobs with the label `kueue.x-k8s.io/queue-name`. While the condition is False, the queue provides the message.",
    ConditionType.OUTPUT_COMMITTED: "Manifest and `_SUCCESS` are written, so the output can be read.",
    ConditionType.COMPLETE: "The job succeeded. This is final.",
    ConditionType.FAILED: "The job failed. The reason and the message say why. The failure is final, except if the annotation `dataprep.io/retry` requests another attempt.",
    ConditionType.OUTPUT_REMOVED: "This condition is never true. While the condition is False, the output of a deleted job with `deletionPolicy: Delete` is being removed. If the output can't be removed, the message says why.",
    ConditionType.HANDED_OVER: "This condition is never true. While the condition is False, the data set is complete, but the ConfigMap for training can't be created.",
    ConditionType.SCHEDULED: "The last job that was due has been created. Only in DataPrepCronJobs.",
}


def page() -> str:
    """Return the text of the page."""
    conditions = "\n".join(f"| `{kind}` | {_CONDITIONS[kind]} |" for kind in ConditionType)
    reasons = "\n".join(f"| `{reason}` | {meaning} |" for reason, meaning in MEANING.items())
    return f"""\
<!-- Made by `make generate` from api/dataprep_api/reasons.py. Don't edit. -->
# Conditions and reasons

`kubectl wait --for=condition=Complete dataprepjob/NAME` waits until the job has succeeded. With `--for=condition=Failed`, the command waits
until the job has failed. Reasons are part of the API. New reasons may be added, but existing ones are never renamed. Events and
`status.failures` have the same reasons.

## Conditions

| Type | True means |
|---|---|
{conditions}

## Reasons

| Reason | Meaning |
|---|---|
{reasons}
"""


def main(arguments: Sequence[str] | None = None) -> int:
    """Run `python -m dataprep_api.generate.reasons_page [--check]` in the repository's root."""
    return generated.main("Write the page of conditions and reasons.", {FILE: page()}, arguments)


if __name__ == "__main__":
    sys.exit(main())
