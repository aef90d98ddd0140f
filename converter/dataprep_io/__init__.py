"""The Python API: writes data sets from code, opens them, and runs jobs here or on a cluster.

    import dataprep_io as dp

    dp.write(frame, "s3://bucket/iris", format="tfrecord")
    for batch in dp.open("s3://bucket/iris", batch_size=100):
        ...
    dp.Job("iris", source={"csv": {"uris": ["iris.csv"]}}, output={"uri": "/data/iris"}).run()

docs/python.md describes all public names, which are those in `__all__`. This import loads none of the libraries that they need.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from dataprep_api.errors import Error
    from dataprep_api.errors import SpecError as InvalidSpec
    from dataprep_io.errors import ClusterError, JobFailed, JobNotFound, NotFinished
    from dataprep_io.jobs import AsyncJob, Job
    from dataprep_io.results import Result
    from dataprep_io.status import Event, Progress
    from dataprep_io.writing import write
    from dataprep_reader import open  # noqa: A004 - named like gzip.open and tarfile.open

__all__ = [
    "AsyncJob",
    "ClusterError",
    "Error",
    "Event",
    "InvalidSpec",
    "Job",
    "JobFailed",
    "JobNotFound",
    "NotFinished",
    "Progress",
    "Result",
    "open",
    "write",
]

_PLACES: Final = {
    "AsyncJob": "dataprep_io.jobs:AsyncJob",
    "ClusterError": "dataprep_io.errors:ClusterError",
    "Error": "dataprep_api.errors:Error",
    "Event": "dataprep_io.status:Event",
    "InvalidSpec": "dataprep_api.errors:SpecError",
    "Job": "dataprep_io.jobs:Job",
    "JobFailed": "dataprep_io.errors:JobFailed",
    "JobNotFound": "dataprep_io.errors:JobNotFound",
    "NotFinished": "dataprep_io.errors:NotFinished",
    "Progress": "dataprep_io.status:Progress",
    "Result": "dataprep_io.results:Result",
    "open": "dataprep_reader:open",
    "write": "dataprep_io.writing:write",
}
"""The module and the name of each public object, which is imported when it is first used."""


def __getattr__(name: str) -> Any:
    """Imports a public object. Any, because the imports above state the types."""
    if name not in _PLACES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    module, _, attribute = _PLACES[name].partition(":")
    value = getattr(import_module(module), attribute)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    """Returns the public names, which are not yet attributes before their first use."""
    return sorted(__all__)
