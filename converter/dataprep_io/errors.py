"""The errors of submitted jobs. All other errors come from the converter and from the API's models.

Error                   `dataprep_api.errors`
├── SpecError           `dataprep_api.errors`: a job or an option isn't valid
├── ConvertError        `dataprep_converter.core.errors`: BadData, OutputExists, the stores' errors, …
├── ClusterError        the API server can't be reached, or refuses a request
│   └── JobNotFound     there is no such DataPrepJob
├── JobFailed           a submitted job has failed
└── NotFinished         a submitted job has no result yet
"""

from dataprep_api.errors import Error


class ClusterError(Error):
    """The API server can't be reached, or refuses a request. `status` is the HTTP status, or None if there was no response."""

    def __init__(self, message: str, *, status: int | None = None) -> None:
        super().__init__(message)
        self.status = status


class JobNotFound(ClusterError):
    """There is no DataPrepJob of this name in the namespace."""


class JobFailed(Error):
    """A submitted job has failed. `reason` is one of the reasons in docs/reasons.md, such as `BadRecords`."""

    def __init__(self, message: str, *, reason: str) -> None:
        super().__init__(message)
        self.reason = reason


class NotFinished(Error):
    """A submitted job has no result yet."""
