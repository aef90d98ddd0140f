"""Whether this test process shares the cluster and the operator with others; apart from `testing`, which quick tests needn't load."""

import os
from typing import Final

VARIABLE: Final = "DATAPREP_TEST_SHARED"
PLACES: Final = ("tests/e2e", "tests/api/test_admission.py")
"""Where all tests on the cluster are: several processes look for them, and all the others take half a minute of each to be found."""

BEGAN_VARIABLE: Final = "DATAPREP_TEST_BEGAN"
WHOLE_VARIABLE: Final = "DATAPREP_TEST_WHOLE"


def began() -> str:
    """When the run of all test processes began, in RFC 3339; empty when nobody says so."""
    return os.environ.get(BEGAN_VARIABLE, "")


def is_whole() -> bool:
    """Whether all tests on the cluster run, and not a choice of them."""
    return WHOLE_VARIABLE in os.environ


def is_shared() -> bool:
    """Whether `testing.run_on_cluster` has started this process, so that cluster and operator are there and not its own."""
    return VARIABLE in os.environ
