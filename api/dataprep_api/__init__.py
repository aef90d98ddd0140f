"""The contract between operator, converter and cluster: the API `dataprep.io/v1alpha1` and the messages that they exchange.

Only `generate`, `tracing`, `lineage` and `spec.descriptions` do input or output. The operator and the converter both import this package,
but neither of them imports the other.
"""

GROUP = "dataprep.io"
VERSION = "v1alpha1"
API_VERSION = f"{GROUP}/{VERSION}"
KIND = "DataPrepJob"
PLURAL = "dataprepjobs"
SHORT_NAME = "dpj"
CRON_KIND = "DataPrepCronJob"
CRON_PLURAL = "dataprepcronjobs"
CRON_SHORT_NAME = "dpcj"
PROFILE_KIND = "DataPrepProfile"
PROFILE_PLURAL = "dataprepprofiles"
PROFILE_SHORT_NAME = "dpp"
