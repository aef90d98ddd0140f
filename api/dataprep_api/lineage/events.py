"""Builds OpenLineage's run events as JSON values. All functions are pure.

All facets are defined by the specification. `tests/interop` validates the events with OpenLineage's schemas and its Python package.
"""

import hashlib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any, Final, Literal

from dataprep_api.lineage.names import DataSetName
from dataprep_api.redaction import for_display, unsigned

Kind = Literal["START", "RUNNING", "COMPLETE", "FAIL", "ABORT"]
# Any, because facets are JSON values of many forms.
Facets = Mapping[str, Any]

_SPEC: Final = "https://openlineage.io/spec"
_EVENT_SCHEMA: Final = f"{_SPEC}/2-0-2/OpenLineage.json#/$defs/RunEvent"
_MOST_LOCATIONS: Final = 100
_LONGEST_MESSAGE: Final = 2048


@dataclass(frozen=True)
class Parent:
    """The pipeline run that a job's run is part of."""

    namespace: str
    job: str
    run: str


@dataclass(frozen=True)
class Run:
    """One run of a job. Every event of the run names it."""

    id: str
    """A UUID."""
    namespace: str
    job: str
    kind: str
    """What the job does, such as `CONVERSION`."""
    version: str
    """The version of this program."""
    parent: Parent | None = None

    @property
    def producer(self) -> str:
        """The URI that names this program in events."""
        return f"urn:dataprep-operator:{self.version}"


@dataclass(frozen=True)
class DataSet:
    """An input or an output of a run."""

    name: DataSetName
    facets: Facets = field(default_factory=dict)
    """The facets of the data set itself."""
    use: Facets = field(default_factory=dict)
    """The facets of the data set in this run, as an input or as an output."""


def run_event(
    kind: Kind,
    run: Run,
    *,
    inputs: Iterable[DataSet] = (),
    outputs: Iterable[DataSet] = (),
    error: str | None = None,
    now: datetime | None = None,
) -> dict[str, Any]:
    """Return an event of a run. `error` is the error message of a failed run. Credentials in `error` are masked."""
    run_facets = {"processing_engine": facet("ProcessingEngineRunFacet", "1-1-1", name="dataprep", version=run.version)}
    if run.parent is not None:
        parent = {"run": {"runId": run.parent.run}, "job": {"namespace": run.parent.namespace, "name": run.parent.job}}
        run_facets["parent"] = facet("ParentRunFacet", "1-2-0", **parent)
    if error is not None:
        message = for_display(error)[:_LONGEST_MESSAGE]
        run_facets["errorMessage"] = facet("ErrorMessageRunFacet", "1-0-1", message=message, programmingLanguage="PYTHON")
    job_type = facet("JobTypeJobFacet", "2-0-4", processingType="BATCH", integration="DATAPREP", jobType=run.kind)
    event = {
        "eventType": kind,
        "eventTime": (now or datetime.now(UTC)).isoformat(),
        "run": {"runId": run.id, "facets": run_facets},
        "job": {"namespace": run.namespace, "name": run.job, "facets": {"jobType": job_type}},
        "inputs": [_data_set(each, "inputFacets") for each in inputs],
        "outputs": [_data_set(each, "outputFacets") for each in outputs],
    }
    return {**_signed(event, run.producer), "producer": run.producer, "schemaURL": _EVENT_SCHEMA}


def facet(name: str, version: str, /, **content: Any) -> dict[str, Any]:
    """Return the specification's facet `name`, in this version of its schema. Members of `content` that are None are left out."""
    schema = f"{_SPEC}/facets/{version}/{name}.json#/$defs/{name}"
    return {"_producer": None, "_schemaURL": schema, **{key: value for key, value in content.items() if value is not None}}


def version(text: str) -> dict[str, Any]:
    """Return the facet with a data set's version."""
    return {"version": facet("DatasetVersionDatasetFacet", "1-0-1", datasetVersion=text)}


def version_of_files(pins: Mapping[str, str]) -> str:
    """Return a version for a set of files. `pins` maps each file's URI to the file's pin.

    The version of a single file is its pin. The version of several files is the SHA-256 of the lines `<pin>  <URI>\\n`.
    """
    if len(pins) == 1:
        return next(iter(pins.values()))
    digest = hashlib.sha256()
    for uri in sorted(pins):
        digest.update(f"{pins[uri]}  {uri}\n".encode(errors="surrogateescape"))
    return f"sha256:{digest.hexdigest()}"


def input_use(
    *, records: int | None, size: int | None, files: Sequence[str] = (), count: int | None = None, bad: int | None = None
) -> dict[str, Any]:
    """Return the facets of an input: its statistics, the files that were read, and the number of bad records.

    The files are left out if there are more than a hundred.
    """
    use: dict[str, Any] = {}
    if records is not None:
        use["inputStatistics"] = facet("InputStatisticsInputDatasetFacet", "1-0-0", rowCount=records, size=size, fileCount=count)
    if 0 < len(files) <= _MOST_LOCATIONS:
        condition = {"type": "location", "locations": [for_display(unsigned(uri)) for uri in files]}
        use["subset"] = _subset(condition)
    if bad is not None:
        valid = {
            "assertion": "valid_records",
            "success": not bad,
            "expected": "0 bad records",
            "actual": f"{bad} bad record{'s' * (bad != 1)}",
        }
        use["dataQualityAssertions"] = facet("DataQualityAssertionsDatasetFacet", "1-1-0", assertions=[valid])
    return use


def output_facets(*, fields: Sequence[Mapping[str, Any]], format_name: str, layer: str, run_id: str) -> dict[str, Any]:
    """Return the facets of a finished data set: its version, schema and storage format."""
    return version(run_id) | {
        "schema": facet("SchemaDatasetFacet", "1-2-0", fields=list(fields)),
        "storage": facet("StorageDatasetFacet", "1-0-1", storageLayer=layer, fileFormat=format_name),
    }


def quality(*, records: int, size: int, files: int, columns: Mapping[str, Mapping[str, float]]) -> dict[str, Any]:
    """Return the facet with the statistics of a data set's columns."""
    metrics = facet("DataQualityMetricsDatasetFacet", "1-0-1", rowCount=records, bytes=size, fileCount=files, columnMetrics=dict(columns))
    return {"dataQualityMetrics": metrics}


def output_use(*, records: int, size: int, files: int) -> dict[str, Any]:
    """Return the facet with the numbers of records, bytes and files that a run has written."""
    return {"outputStatistics": facet("OutputStatisticsOutputDatasetFacet", "1-0-2", rowCount=records, size=size, fileCount=files)}


def _subset(condition: Mapping[str, Any]) -> dict[str, Any]:
    schema = f"{_SPEC}/facets/1-0-0/BaseSubsetDatasetFacet.json#/$defs/InputSubsetInputDatasetFacet"
    return {"_producer": None, "_schemaURL": schema, "inputCondition": dict(condition)}


def _data_set(data_set: DataSet, uses: str) -> dict[str, Any]:
    described: dict[str, Any] = {"namespace": data_set.name.namespace, "name": data_set.name.name, "facets": dict(data_set.facets)}
    return described | {uses: dict(data_set.use)}


def _signed(value: Any, producer: str) -> Any:
    """Return the JSON value with `producer` filled in as the producer of every facet."""
    if isinstance(value, Mapping):
        return {key: producer if key == "_producer" else _signed(item, producer) for key, item in value.items()}
    return [_signed(item, producer) for item in value] if isinstance(value, list) else value
