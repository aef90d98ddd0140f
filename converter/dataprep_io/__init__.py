"""The Python API: writes data sets from code, opens them, and runs jobs here or on a cluster.

    import dataprep_io as dp

    dp.write(frame, "s3://bucket/iris", format="tfrecord")
    for batch in dp.open("s3://bucket/iris", batch_size=100):
        ...
    dp.Job("iris", source={"csv": {"uris": ["iris.csv"]}}, output={"uri": "/data/iris"}).run()

docs/python.md describes all public names, which `__all__` lists. Importing this package doesn't load the libraries that its functions need.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from dataprep_api.errors import Error, SpecError
    from dataprep_converter.core.errors import BadData, BadSpec, NoInput, NotFound, NotWhole, OutputExists, OutputLost, StoreError
    from dataprep_io.data.writing import write
    from dataprep_io.errors import ClusterError, JobFailed, JobNotFound, NotFinished
    from dataprep_io.jobs.job import AsyncJob, Job
    from dataprep_io.jobs.status import Event, Progress
    from dataprep_io.results import Result
    from dataprep_reader import (
        Reader,
        open,  # noqa: A004 - named like gzip.open and tarfile.open
    )

__all__ = [
    "AsyncJob",
    "BadData",
    "BadSpec",
    "ClusterError",
    "Error",
    "Event",
    "Job",
    "JobFailed",
    "JobNotFound",
    "NoInput",
    "NotFinished",
    "NotFound",
    "NotWhole",
    "OutputExists",
    "OutputLost",
    "Progress",
    "Reader",
    "Result",
    "SpecError",
    "StoreError",
    "open",
    "write",
]

_PLACES: Final = {
    "AsyncJob": "dataprep_io.jobs.job",
    "BadData": "dataprep_converter.core.errors",
    "BadSpec": "dataprep_converter.core.errors",
    "ClusterError": "dataprep_io.errors",
    "Error": "dataprep_api.errors",
    "Event": "dataprep_io.jobs.status",
    "Job": "dataprep_io.jobs.job",
    "JobFailed": "dataprep_io.errors",
    "JobNotFound": "dataprep_io.errors",
    "NoInput": "dataprep_converter.core.errors",
    "NotFinished": "dataprep_io.errors",
    "NotFound": "dataprep_converter.core.errors",
    "NotWhole": "dataprep_converter.core.errors",
    "OutputExists": "dataprep_converter.core.errors",
    "OutputLost": "dataprep_converter.core.errors",
    "Progress": "dataprep_io.jobs.status",
    "Reader": "dataprep_reader",
    "Result": "dataprep_io.results",
    "SpecError": "dataprep_api.errors",
    "StoreError": "dataprep_converter.core.errors",
    "open": "dataprep_reader",
    "write": "dataprep_io.data.writing",
}
"""The module of each public object. A module is imported when one of its objects is first used."""


def __getattr__(name: str) -> Any:
    """Imports a public object. Returns Any, because type checkers take the object's type from the imports above."""
    if name not in _PLACES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value = getattr(import_module(_PLACES[name]), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    """Returns the public names. A name becomes an attribute of this module only when it is first used."""
    return sorted(__all__)
