"""Extracts the few values to keep for a succeeded worker pod, and adds up the results of finished tasks. All functions are pure.

A job may have ten thousand worker pods. After a pod has succeeded, decisions depend only on the pod's existence and its result. Succeeded
pods of a scan are kept in the same way, although they report no results.
"""

import operator
import sys
from collections.abc import Set as AbstractSet
from dataclasses import dataclass
from typing import Final, NamedTuple

from dataprep_api.dataset.messages import WorkResult
from dataprep_operator.objects.pods import Pod


class Work(NamedTuple):
    """The work that was done for one or more tasks."""

    shards: int = 0
    records_in: int = 0
    records_out: int = 0
    records_bad: int = 0
    records_filtered: int = 0
    records_added: int = 0
    bytes_out: int = 0

    def plus(self, other: "Work") -> "Work":
        """Return the sum of this work and `other`."""
        return Work(*map(operator.add, self, other))

    def minus(self, other: "Work") -> "Work":
        """Return this work minus `other`."""
        return Work(*map(operator.sub, self, other))


NO_WORK: Final = Work()


@dataclass(frozen=True, slots=True)
class SucceededWorker:
    """The values to keep for a succeeded worker pod."""

    name: str
    namespace: str
    uid: str
    owner_uid: str
    """The uid of the Job that controls the pod."""
    task: int | None
    """The task that the pod has finished, or None if the pod did not report a result."""
    work: Work


@dataclass(frozen=True)
class FinishedTasks:
    """The tasks of a job that have finished."""

    tasks: AbstractSet[int] = frozenset()
    """The numbers of the tasks. Don't keep this set, because it changes when the cache changes."""
    work: Work = NO_WORK
    """The total work that was done for these tasks."""


def read(pod: Pod) -> SucceededWorker:
    """Return the values to keep for a succeeded worker pod. Strings that are equal for all pods of a Job are interned."""
    result = pod.result if isinstance(pod.result, WorkResult) else None
    return SucceededWorker(
        name=pod.name,
        namespace=sys.intern(pod.namespace),
        uid=pod.uid,
        owner_uid=sys.intern(pod.owner_uid),
        task=result.index if result is not None else None,
        work=work_of(result) if result is not None else NO_WORK,
    )


def work_of(result: WorkResult) -> Work:
    """Return the work that was done for a task. Shards that the task skipped, because they already had a report, are counted too."""
    records = result.records
    return Work(
        shards=result.shards_done + result.shards_skipped,
        records_in=records.in_,
        records_out=records.out,
        records_bad=records.bad,
        records_filtered=records.filtered,
        records_added=records.added,
        bytes_out=result.bytes_out,
    )
