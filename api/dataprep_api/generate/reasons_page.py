"""`docs/reasons.md`, made from the list of reasons: `python -m dataprep_api.generate.reasons_page` writes it, `--check` compares."""

import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Final

from dataprep_api.generate import generated
from dataprep_api.reasons import MEANING, ConditionType

FILE: Final = Path("docs/reasons.md")

_CONDITIONS: Final = {
    ConditionType.VALIDATED: "The spec was accepted and the plan step found inputs and output usable.",
    ConditionType.RUNNING: "Pods of the job are at work.",
    ConditionType.SUSPENDED: "The job is stopped by `spec.suspend`; what is finished is kept.",
    ConditionType.QUOTA_RESERVED: "Only with the label `kueue.x-k8s.io/queue-name`: the queue has let the convert Job start. While False, the message is the queue's own.",
    ConditionType.OUTPUT_COMMITTED: "Manifest and `_SUCCESS` are written: the output can be read.",
    ConditionType.COMPLETE: "The job ended well. Final.",
    ConditionType.FAILED: "The job ended badly; reason and message say why. Final until `dataprep.io/retry` asks for another attempt.",
    ConditionType.OUTPUT_REMOVED: "Never true: while it is False, a deleted job with `deletionPolicy: Delete` removes its output, or says why it can't.",
    ConditionType.HANDED_OVER: "Only while it is False: the data set is whole, and the ConfigMap for training can't be made.",
    ConditionType.SCHEDULED: "Of a DataPrepCronJob: the last job that was due is made.",
}


def page() -> str:
    """The page's text."""
    conditions = "\n".join(f"| `{kind}` | {_CONDITIONS[kind]} |" for kind in ConditionType)
    reasons = "\n".join(f"| `{reason}` | {meaning} |" for reason, meaning in MEANING.items())
    return f"""\
<!-- Made by `make generate` from api/dataprep_api/reasons.py. Don't edit. -->
# Conditions and reasons

`kubectl wait --for=condition=Complete dataprepjob/NAME` waits for the end; `--for=condition=Failed` for the other one.
Reasons are part of the API: new ones may come, none is renamed. The same words are the reasons of Events and of `status.failures`.

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
    """`python -m dataprep_api.generate.reasons_page [--check]`, in the repository's root."""
    return generated.main("Writes the page of conditions and reasons.", {FILE: page()}, arguments)


if __name__ == "__main__":
    sys.exit(main())
