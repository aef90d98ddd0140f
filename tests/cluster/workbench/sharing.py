"""Whether this test process shares the cluster and the operator with others; apart from `testing`, which quick tests needn't load."""

import os
from typing import Final

VARIABLE: Final = "DATAPREP_TEST_SHARED"


def is_shared() -> bool:
    """Whether `testing.run_on_cluster` has started this process, so that cluster and operator are there and not its own."""
    return VARIABLE in os.environ
