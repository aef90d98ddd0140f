"""The pods of one child Job in the cache.

The operator keeps only a few fields of a worker pod that has succeeded. It adds the pod's result to the totals once, when it stores the
pod. Therefore the CPU time of a reconciliation and the operator's memory hardly depend on the number of finished tasks.
"""

from bisect import insort
from collections.abc import Sequence
from collections.abc import Set as AbstractSet

from dataprep_operator.objects import finished_tasks
from dataprep_operator.objects.finished_tasks import NO_WORK, FinishedTasks, SucceededWorker, Work
from dataprep_operator.objects.pods import Pod


class JobPods:
    """The pods of one child Job."""

    def __init__(self) -> None:
        self._whole: dict[str, Pod] = {}
        """The pods that decisions examine one by one, keyed by uid. These are all pods except worker pods that have simply succeeded."""
        self._succeeded: dict[str, SucceededWorker] = {}
        """The worker pods that have succeeded, keyed by uid. Pods that were disrupted or deleted are also in `_whole`."""
        self._by_task: dict[int, list[SucceededWorker]] = {}
        """The succeeded worker pods that reported a result, keyed by task and sorted by name.

        For each task, the last pod's result counts.
        """
        self.work = NO_WORK
        """The total work that was done for all finished tasks."""

    def __bool__(self) -> bool:
        return bool(self._whole or self._succeeded)

    @property
    def tasks(self) -> AbstractSet[int]:
        """The finished tasks."""
        return self._by_task.keys()

    def whole(self) -> tuple[Pod, ...]:
        """Return the pods that are kept whole, sorted by name."""
        return tuple(sorted(self._whole.values(), key=lambda pod: pod.name))

    def succeeded(self) -> tuple[SucceededWorker, ...]:
        """Return the worker pods that have succeeded, in any order."""
        return tuple(self._succeeded.values())

    def work_of(self, task: int) -> Work:
        """Return the work that was done for a finished task."""
        return self._by_task[task][-1].work

    def put(self, pod: Pod, *, is_worker: bool) -> Pod | SucceededWorker:
        """Store a pod, and return it as stored. `is_worker` says whether the pod's Job is known to be an Indexed Job."""
        self.discard(pod.uid)
        worker = finished_tasks.read(pod) if is_worker and pod.phase == "Succeeded" else None
        if worker is not None:
            self._succeeded[worker.uid] = worker
            if worker.task is not None:
                self._add(worker.task, worker)
        if worker is not None and pod.deletion_due is None and pod.disrupted_at is None:
            return worker
        self._whole[pod.uid] = pod
        return pod

    def discard(self, uid: str) -> None:
        """Forget a pod, if it is known."""
        self._whole.pop(uid, None)
        worker = self._succeeded.pop(uid, None)
        if worker is not None and worker.task is not None:
            self._remove(worker.task, worker)

    def _add(self, task: int, worker: SucceededWorker) -> None:
        """Add a worker pod that has finished a task."""
        workers = self._by_task.setdefault(task, [])
        before = workers[-1].work if workers else NO_WORK
        insort(workers, worker, key=lambda other: other.name)
        self.work = self.work.minus(before).plus(workers[-1].work)

    def _remove(self, task: int, worker: SucceededWorker) -> None:
        """Remove a worker pod that has finished a task."""
        workers = self._by_task[task]
        before = workers[-1].work
        workers[:] = [other for other in workers if other is not worker]
        self.work = self.work.minus(before).plus(workers[-1].work if workers else NO_WORK)
        if not workers:
            del self._by_task[task]


def merge_tasks(jobs: Sequence[JobPods]) -> FinishedTasks:
    """Return the tasks that these Jobs have finished. If several Jobs have finished the same task, the last Job's result counts."""
    tasks: AbstractSet[int] = frozenset()
    work = NO_WORK
    for job in reversed(jobs):
        work = work.plus(job.work)
        for repeated_task in tasks & job.tasks:
            work = work.minus(job.work_of(repeated_task))
        # Most jobs have only one convert Job. Its set of tasks can be returned without a copy.
        tasks = tasks | job.tasks if tasks else job.tasks
    return FinishedTasks(tasks, work)
