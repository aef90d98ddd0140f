"""OpenLineage events of a run, if the environment names a receiver. No error in this module can end a run.

`dataprep run` sends all events of its run. On a cluster, the operator sends the start of a run and, if the run fails, its end. The pods of
the plan step and of the commit step send the data that only they know: the pins of the inputs, and the finished data set.
"""

import logging
import os
import uuid
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any, Final

import numpy as np

from dataprep_api.dataset.messages import CommitResult
from dataprep_api.dataset.report import Manifest
from dataprep_api.lineage import events, jobs, sending
from dataprep_api.lineage.names import DataSetName, data_set_name
from dataprep_api.names import LINEAGE_RUN
from dataprep_api.redaction import for_display
from dataprep_api.resources.job import DataPrepJob
from dataprep_api.spec import DataPrepJobSpec
from dataprep_converter import __version__
from dataprep_converter.dataset.output_folder import OutputFolder
from dataprep_converter.inputs.access import Access
from dataprep_converter.sampling.plan import Plan
from dataprep_converter.stores import scheme_of

logger = logging.getLogger(__name__)

_MOST_UNITS: Final = 65_536
"""The largest number of units whose pins are combined into a version for each input. With more units, the plan's digest is the version of
every input."""
_ROWS: Final = 8192
_DEFAULT_NAMESPACE: Final = "default"


class RunEvents:
    """The events of one run. Without a sender, nothing is sent."""

    def __init__(self, job: DataPrepJob, access: Access, sender: sending.Sender | None, run: events.Run | None) -> None:
        self._job = job
        self._access = access
        self._sender = sender
        self._run = run
        self._plan: Plan | None = None
        self._result: CommitResult | None = None

    @property
    def has_committed(self) -> bool:
        """Whether the data set is finished."""
        return self._result is not None

    def planned(self, plan: Plan) -> None:
        """Adds the plan, which has the pins of the inputs, to the events."""
        self._plan = plan

    def committed(self, result: CommitResult) -> None:
        """Adds the finished data set to the events."""
        self._result = result

    def send(self, kind: events.Kind, *, error: str | None = None) -> None:
        """Sends an event with everything that is known at this point."""
        if self._sender is None or self._run is None:
            return
        try:
            spec = self._job.spec
            inputs = _inputs(spec, self._plan, self._result)
            outputs = _outputs(spec, self._access, self._result if kind == "COMPLETE" else None)
            self._sender.send(events.run_event(kind, self._run, inputs=inputs, outputs=outputs, error=error))
        except Exception as exc:  # an event must never end a run
            logger.warning("a lineage event (%s) could not be made: %s: %s", kind, type(exc).__name__, for_display(str(exc)))


@contextmanager
def of_run(job: DataPrepJob, access: Access) -> Iterator[RunEvents]:
    """Sends all events of a run on this machine: START, and COMPLETE, FAIL or ABORT when the block ends."""
    receiver = sending.receiver()
    run = _run(job, receiver, run=str(uuid.uuid4())) if receiver is not None else None
    with _closing(job, access, receiver, run) as told:
        told.send("START")
        try:
            yield told
        except Exception as exc:
            told.send("FAIL", error=str(exc) or type(exc).__name__)
            raise
        except BaseException:
            told.send("ABORT")
            raise
        told.send("COMPLETE")


@contextmanager
def of_step(job: DataPrepJob, access: Access) -> Iterator[RunEvents]:
    """Sends the events of one step's pod, if the operator has named the run: COMPLETE if the block has committed, or else RUNNING.

    A failure sends nothing, because the operator decides whether the job has failed.
    """
    run_id = os.environ.get(LINEAGE_RUN)
    receiver = sending.receiver() if run_id else None
    run = _run(job, receiver, run=run_id) if receiver is not None and run_id else None
    with _closing(job, access, receiver, run) as told:
        yield told
        told.send("COMPLETE" if told.has_committed else "RUNNING")


@contextmanager
def _closing(job: DataPrepJob, access: Access, receiver: sending.Receiver | None, run: events.Run | None) -> Iterator[RunEvents]:
    sender = sending.Sender(receiver) if receiver is not None else None
    try:
        yield RunEvents(job, access, sender, run)
    finally:
        if sender is not None:
            sender.close()


def _run(job: DataPrepJob, receiver: sending.Receiver, *, run: str) -> events.Run:
    return events.Run(
        id=run,
        namespace=receiver.namespace or _DEFAULT_NAMESPACE,
        job=job.metadata.name,
        kind=jobs.kind_of_job(job.spec),
        version=__version__,
        parent=receiver.parent,
    )


def _inputs(spec: DataPrepJobSpec, plan: Plan | None, result: CommitResult | None) -> list[events.DataSet]:
    """Returns the inputs, with their versions and counts if the plan is known."""
    names = jobs.input_names(spec)
    distinct = list(dict.fromkeys(names.values()))
    if plan is None:
        return [events.DataSet(name) for name in distinct]
    # Bad records are counted only for the whole run. So the number for an input is known only if there is no other input.
    bad = result.records.bad if result is not None and len(distinct) == 1 else None
    if not 0 < len(plan.units) <= _MOST_UNITS:
        facets = events.version(plan.head.inputs_sha256)
        is_only = len(distinct) == 1 and len(plan.units) > 0
        records, size = (plan.head.samples, plan.head.bytes_in) if is_only else (None, None)
        return [events.DataSet(name, facets, events.input_use(records=records, size=size, bad=bad)) for name in distinct]
    read = {name: _Read() for name in distinct}
    for row in _rows(plan):
        name = _input_of(row["uri"], names)
        if name is not None:
            read[name].add(row)
    return [events.DataSet(name, read[name].facets(), read[name].use(bad)) for name in distinct]


class _Read:
    """The files of one input that a run reads."""

    def __init__(self) -> None:
        self._pins: dict[str, str] = {}
        self._records = 0
        self._size = 0

    def add(self, row: Mapping[str, Any]) -> None:
        """Adds a unit of the plan."""
        self._pins[row["uri"]] = row["pin"]
        self._records += row["records"]
        self._size += row["size"]

    def facets(self) -> dict[str, Any]:
        """Returns the version of the files."""
        return events.version(events.version_of_files(self._pins)) if self._pins else {}

    def use(self, bad: int | None) -> dict[str, Any]:
        """Returns the list of files, and the counts of records, bytes and files."""
        return events.input_use(records=self._records, size=self._size, files=sorted(self._pins), count=len(self._pins), bad=bad)


def _rows(plan: Plan) -> Iterator[dict[str, Any]]:
    for start in range(0, len(plan.units), _ROWS):
        numbers = np.arange(start, min(start + _ROWS, len(plan.units)), dtype=np.int64)
        yield from plan.units.rows(numbers, ["uri", "records", "size", "pin"])


def _input_of(uri: str, names: Mapping[str, DataSetName]) -> DataSetName | None:
    """Returns the input to which a file belongs: the only input, or the input with the longest name that is a prefix of the file's name."""
    if len(set(names.values())) == 1:
        return next(iter(names.values()))
    file = data_set_name(uri)
    within = (
        name for name in names.values() if name.namespace == file.namespace and f"{file.name}/".startswith(f"{name.name.rstrip('/')}/")
    )
    return max(within, key=lambda name: len(name.name), default=None)


def _outputs(spec: DataPrepJobSpec, access: Access, result: CommitResult | None) -> list[events.DataSet]:
    """Returns the outputs. If the data set is finished, the outputs include the data set's version, schema, statistics and counts."""
    names = jobs.output_names(spec)
    if result is None:
        return [events.DataSet(name) for name in names]
    # Not imported at the top, because most runs send no events.
    from dataprep_converter.dataset.sidecars.statistics import read_statistics

    folder = OutputFolder(spec.output.uri, access)
    success = folder.success()
    if success is None:
        return [events.DataSet(name) for name in names]
    manifest = folder.manifest(success)
    numbers: dict[str, int] = {"records": manifest.records_out, "size": manifest.size, "files": len(manifest.files)}
    facets = events.output_facets(
        fields=_fields(manifest), format_name=manifest.format, layer=scheme_of(spec.output.uri) or "file", run_id=manifest.run_id
    )
    statistics = read_statistics(manifest, folder)
    if statistics is not None:
        facets |= events.quality(**numbers, columns=_columns(statistics))
    use = events.output_use(**numbers)
    return [events.DataSet(name, facets, use) for name in names]


def _fields(manifest: Manifest) -> list[dict[str, Any]]:
    """Returns the fields of the schema, in the spec's order.

    The type of a tensor ends with its shape, in which -1 means any length.
    """
    features = sorted(manifest.features, key=lambda feature: feature.get("place", 0))
    return [{"name": feature["name"], "type": f"{feature['dtype']}{feature['shape'] or ''}".replace(" ", "")} for feature in features]


def _columns(statistics: Mapping[str, Any]) -> dict[str, dict[str, float]]:
    """For each feature, returns the numbers of records with and without a value, and the smallest and largest value, over all splits."""
    columns: dict[str, dict[str, float]] = {}
    for split in statistics["splits"].values():
        for name, feature in split["features"].items():
            column = columns.setdefault(name, {"count": 0, "nullCount": 0})
            column["count"] += feature["count"]
            column["nullCount"] += feature["missing"]
            for key, choose in (("min", min), ("max", max)):
                value = feature.get(key)
                if isinstance(value, int | float):
                    column[key] = choose(column.get(key, value), value)
    return columns
