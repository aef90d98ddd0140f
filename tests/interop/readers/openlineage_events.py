"""Builds events with the classes of OpenLineage's package, and prints them as its client sends them.

Input: a file with a JSON event in each line.

The URL of a facet's schema names the class with which the facet is built. So an unknown or a missing field is an error.
"""

import importlib
import json
import pkgutil
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import attr
from openlineage.client import event_v2, generated
from openlineage.client.generated.base_subset_dataset import LocationSubsetCondition
from openlineage.client.generated.data_quality_assertions_dataset import Assertion
from openlineage.client.generated.data_quality_metrics_dataset import ColumnMetrics
from openlineage.client.generated.parent_run import Job, Run
from openlineage.client.generated.schema_dataset import SchemaDatasetFacetFields
from openlineage.client.naming import dataset
from openlineage.client.serde import Serde

CLASSES: dict[str, Any] = {
    name: kind
    for module in pkgutil.iter_modules(generated.__path__, f"{generated.__name__}.")
    for name, kind in vars(importlib.import_module(module.name)).items()
    if attr.has(kind)
}
PARTS: dict[str, Callable[[Any], Any]] = {
    "fields": lambda value: [SchemaDatasetFacetFields(**each) for each in value],
    "assertions": lambda value: [Assertion(**each) for each in value],
    "columnMetrics": lambda value: {name: ColumnMetrics(**each) for name, each in value.items()},
    "inputCondition": lambda value: LocationSubsetCondition(locations=value["locations"]),
    "run": lambda value: Run(**value),
    "job": lambda value: Job(**value),
}


def facets(contents: dict[str, Any]) -> dict[str, Any]:
    """Build the facets of an object."""
    return {name: facet(**content) for name, content in contents.items()}


def facet(_producer: str, _schemaURL: str, **content: Any) -> Any:  # noqa: N803 - the fields of a facet
    """Build a facet."""
    made = CLASSES[_schemaURL.rpartition("/")[2]](
        producer=_producer, **{name: PARTS.get(name, lambda value: value)(value) for name, value in content.items()}
    )
    assert made._schemaURL == _schemaURL, (made._schemaURL, _schemaURL)
    return made


def event(content: dict[str, Any]) -> event_v2.RunEvent:
    """Build an event."""
    run, job = content["run"], content["job"]
    made = event_v2.RunEvent(
        eventType=event_v2.RunState[content["eventType"]],
        eventTime=content["eventTime"],
        run=event_v2.Run(run["runId"], facets(run["facets"])),
        job=event_v2.Job(job["namespace"], job["name"], facets(job["facets"])),
        producer=content["producer"],
        inputs=[
            event_v2.InputDataset(each["namespace"], each["name"], facets=facets(each["facets"]), inputFacets=facets(each["inputFacets"]))
            for each in content["inputs"]
        ],
        outputs=[
            event_v2.OutputDataset(
                each["namespace"], each["name"], facets=facets(each["facets"]), outputFacets=facets(each["outputFacets"])
            )
            for each in content["outputs"]
        ],
    )
    assert made.schemaURL == content["schemaURL"], (made.schemaURL, content["schemaURL"])
    return made


def names() -> list[list[str]]:
    """Return the namespace and the name of a data set at each store."""
    places = [
        dataset.S3("bucket", "day/a"),
        dataset.GCS("bucket", "day/a"),
        dataset.HDFS("namenode", "8020", "/day/a"),
        dataset.ABFSS("box", "account", "day/a"),
        dataset.LocalFileSystem("/day/a"),
    ]
    return [[place.get_namespace(), place.get_name()] for place in places]


events = [Serde.to_dict(event(json.loads(line))) for line in Path(sys.argv[1]).read_text().splitlines()]
print(json.dumps({"events": events, "names": names()}))  # noqa: T201 - the result
