"""`Job` and `AsyncJob`: run a job on this machine, or submit it to a cluster and watch it there."""

import asyncio
import os
from collections.abc import AsyncGenerator, Iterator, Sequence
from typing import Any, Final, Self

from dataprep_api.spec import DataPrepJobSpec
from dataprep_io.errors import ClusterError
from dataprep_io.jobs import background, status
from dataprep_io.jobs.definition import Definition
from dataprep_io.jobs.place import Place
from dataprep_io.jobs.status import Event, Progress
from dataprep_io.notebook import Bar
from dataprep_io.results import Result

_POLL_SECONDS: Final = 2.0


class _Described:
    """The base class of `Job` and `AsyncJob`: the definition of a job and, once the job is submitted, its place."""

    # Any, because a field can have any value that YAML can express.
    def __init__(self, name: str, /, **spec: Any) -> None:
        """Describes a job. The keywords are the fields of a DataPrepJob's `spec`, and their values are written as in YAML.

        Raises SpecError with all faults.
        """
        self._take(Definition.of_keywords(name, spec))

    @classmethod
    def from_yaml(cls, path: str | os.PathLike[str]) -> Self:
        """Returns the job in a YAML file. Raises SpecError with all faults, each with its line."""
        return cls._of(Definition.of_yaml(os.fspath(path)))

    @property
    def name(self) -> str:
        """The name of the DataPrepJob."""
        return self._definition.name

    @property
    def spec(self) -> DataPrepJobSpec:
        """The validated spec, with all defaults."""
        return self._definition.job.spec

    @property
    def namespace(self) -> str | None:
        """The namespace of the submitted job, or None if the job isn't submitted."""
        return self._place.namespace if self._place is not None else None

    def to_yaml(self) -> str:
        """Returns the job as YAML, for `kubectl apply` and `dataprep run`."""
        return self._definition.to_yaml()

    def __repr__(self) -> str:
        maker = self.spec.data.kind if self.spec.script is None else "a script"
        return f"<{type(self).__name__} {self.name}: {maker} to {self.spec.output.format} at {self.spec.output.uri}>"

    def _repr_html_(self) -> str:
        """Returns a table for a notebook, without asking the cluster."""
        from dataprep_reader.notebook import html_table

        maker = self.spec.data.kind if self.spec.script is None else "script"
        rows = {
            "reads": maker,
            "writes": self.spec.output.format,
            "to": self.spec.output.uri,
            "namespace": self.namespace or "(not submitted)",
        }
        return html_table(self.name, rows)

    @classmethod
    def _of(cls, definition: Definition, place: Place | None = None) -> Self:
        made = cls.__new__(cls)
        cls._take(made, definition, place)
        return made

    def _take(self, definition: Definition, place: Place | None = None) -> None:
        self._definition = definition
        self._place = place

    @property
    def _where(self) -> Place:
        """The place of the submitted job. Raises ClusterError if the job isn't submitted."""
        if self._place is None:
            raise ClusterError(
                f"The job {self.name} isn't submitted: call submit(), or find a submitted job with {type(self).__name__}.attach()."
            )
        return self._place


class AsyncJob(_Described):
    """A job like `Job`, whose methods do the same but are asynchronous."""

    async def run(self, *, workers: int | None = None, quiet: bool = False) -> Result:
        """Runs the job on this machine, in another thread. Cancelling this coroutine doesn't interrupt the run."""
        return await asyncio.to_thread(self._definition.run, workers=workers, quiet=quiet)

    @classmethod
    async def attach(cls, name: str, *, namespace: str | None = None, kubeconfig: str | None = None, context: str | None = None) -> Self:
        """Returns a job that has already been submitted. Raises JobNotFound."""
        from dataprep_io.jobs import submitted

        return cls._of(*await submitted.find(name, Place(namespace, kubeconfig, context)))

    async def submit(self, *, namespace: str | None = None, kubeconfig: str | None = None, context: str | None = None) -> Self:
        """Creates the DataPrepJob on a cluster, and returns this job."""
        from dataprep_io.jobs import submitted

        self._place = await submitted.create(self._definition, Place(namespace or self._definition.namespace, kubeconfig, context))
        return self

    async def wait(self, *, timeout: float | None = None, poll: float = _POLL_SECONDS) -> Result:
        """Waits for the end of the job, and returns the finished data set. Raises JobFailed and TimeoutError."""
        from dataprep_io.jobs import submitted

        async for body in submitted.watch(self.name, self._where, timeout=timeout, poll=poll):
            last = body
        return status.result_of(last)

    async def phase(self) -> str:
        """Returns the job's current phase, such as `Running`."""
        from dataprep_io.jobs import submitted

        return status.phase_of(await submitted.get(self.name, self._where))

    async def progress(self) -> Progress:
        """Returns the job's current progress."""
        from dataprep_io.jobs import submitted

        return status.progress_of(await submitted.get(self.name, self._where))

    async def result(self) -> Result:
        """Returns the finished data set. Raises JobFailed and NotFinished."""
        from dataprep_io.jobs import submitted

        return status.result_of(await submitted.get(self.name, self._where))

    async def events(self) -> Sequence[Event]:
        """Returns the events that the cluster's components have reported about the job, oldest first."""
        from dataprep_io.jobs import submitted

        return await submitted.events(self.name, self._where)

    def logs(self, *, failed: bool = False, follow: bool = False) -> AsyncGenerator[str, None]:
        """Yields the lines of the pods' logs, the oldest pod first. Each line begins with its pod's name."""
        from dataprep_io.jobs import submitted

        return submitted.logs(self.name, self._where, failed=failed, follow=follow)

    async def retry(self) -> None:
        """Retries a failed job. Raises ClusterError if the job hasn't failed."""
        from dataprep_io.jobs import submitted

        await submitted.retry(self.name, self._where)

    async def suspend(self) -> None:
        """Stops the job's pods, and keeps finished shards."""
        from dataprep_io.jobs import submitted

        await submitted.set_suspended(self.name, self._where, suspended=True)

    async def resume(self) -> None:
        """Resumes a suspended job."""
        from dataprep_io.jobs import submitted

        await submitted.set_suspended(self.name, self._where, suspended=False)

    async def delete(self) -> None:
        """Deletes the DataPrepJob. Does nothing if there is no such job."""
        from dataprep_io.jobs import submitted

        await submitted.delete(self.name, self._where)


class Job(_Described):
    """A job: runs on this machine, or is submitted to a cluster and watched there.

        job = Job("iris", source={"csv": {"uris": ["iris.csv"]}}, output={"uri": "/data/iris", "format": "parquet"})
        job.run()

    The keywords are the fields of a DataPrepJob's spec, and their values are written as in YAML.
    """

    def run(self, *, workers: int | None = None, quiet: bool = False) -> Result:
        """Runs the job on this machine, in `workers` processes, and returns the finished data set. Makes only parts that are still missing.

        Raises SpecError, BadData and the other errors of the converter.
        """
        return self._definition.run(workers=workers, quiet=quiet)

    @classmethod
    def attach(cls, name: str, *, namespace: str | None = None, kubeconfig: str | None = None, context: str | None = None) -> Self:
        """Returns a job that this program or another one has already submitted. Raises JobNotFound."""
        from dataprep_io.jobs import submitted

        return cls._of(*background.run(submitted.find(name, Place(namespace, kubeconfig, context))))

    def submit(self, *, namespace: str | None = None, kubeconfig: str | None = None, context: str | None = None) -> Self:
        """Creates the DataPrepJob on a cluster, and returns this job. The job continues even if this program ends.

        The default namespace is taken from the job's file, or else from the kubeconfig's context, or else from this pod. Raises
        ClusterError.
        """
        from dataprep_io.jobs import submitted

        place = Place(namespace or self._definition.namespace, kubeconfig, context)
        self._place = background.run(submitted.create(self._definition, place))
        return self

    def wait(self, *, timeout: float | None = None, poll: float = _POLL_SECONDS) -> Result:
        """Waits for the end of the job, and returns the finished data set. Asks the API server every `poll` seconds. In a notebook, shows a
        progress bar.

        Raises JobFailed if the job has failed, and TimeoutError after `timeout` seconds.
        """
        from dataprep_io.jobs import submitted

        bar = Bar()
        for body in background.iterate(submitted.watch(self.name, self._where, timeout=timeout, poll=poll)):
            last = body
            bar.show(status.progress_of(body))
        return status.result_of(last)

    @property
    def phase(self) -> str:
        """The job's current phase, such as `Running`."""
        return background.run(self._asynchronous.phase())

    @property
    def progress(self) -> Progress:
        """The job's current progress."""
        return background.run(self._asynchronous.progress())

    @property
    def result(self) -> Result:
        """The finished data set. Raises JobFailed if the job has failed, and NotFinished if it hasn't ended."""
        return background.run(self._asynchronous.result())

    @property
    def events(self) -> Sequence[Event]:
        """The events that the cluster's components have reported about the job, oldest first."""
        return background.run(self._asynchronous.events())

    def logs(self, *, failed: bool = False, follow: bool = False) -> Iterator[str]:
        """Yields the lines of the pods' logs, the oldest pod first. Each line begins with its pod's name.

        With `failed`, only failed pods are included. With `follow`, waits for further lines and pods until the job has ended.
        """
        return background.iterate(self._asynchronous.logs(failed=failed, follow=follow))

    def retry(self) -> None:
        """Retries a failed job. Only missing shards are made. Raises ClusterError if the job hasn't failed."""
        background.run(self._asynchronous.retry())

    def suspend(self) -> None:
        """Stops the job's pods, and keeps finished shards."""
        background.run(self._asynchronous.suspend())

    def resume(self) -> None:
        """Resumes a suspended job."""
        background.run(self._asynchronous.resume())

    def delete(self) -> None:
        """Deletes the DataPrepJob, and its data set if the job's `deletionPolicy` is `Delete`. Does nothing if there is no such job."""
        background.run(self._asynchronous.delete())

    @property
    def _asynchronous(self) -> AsyncJob:
        """This job as an `AsyncJob`."""
        return AsyncJob._of(self._definition, self._where)  # noqa: SLF001 - the two classes are one thing
