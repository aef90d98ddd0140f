"""What the operator, the converter and the cluster agree on: the API `dataprep.io/v1alpha1` and the records they exchange.

Nothing here does input or output. The operator and the converter both import this package and never each other.
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
