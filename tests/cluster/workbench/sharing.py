"""Whether this test process shares the cluster and the operator with others.

This is a separate module so that fast tests don't have to import `testing`.
"""

import os
from typing import Final

VARIABLE: Final = "DATAPREP_TEST_SHARED"
PLACES: Final = ("tests/e2e", "tests/api/test_admission.py")
"""The paths of all cluster tests. If pytest collected the other tests too, each process would need half a minute for it."""

BEGAN_VARIABLE: Final = "DATAPREP_TEST_BEGAN"
WHOLE_VARIABLE: Final = "DATAPREP_TEST_WHOLE"


def began() -> str:
    """When the run of all test processes began, in RFC 3339; empty if unknown."""
    return os.environ.get(BEGAN_VARIABLE, "")


def is_whole() -> bool:
    """Whether all cluster tests run, not just a selection."""
    return WHOLE_VARIABLE in os.environ


def is_shared() -> bool:
    """Whether `testing.run_on_cluster` started this process, which then doesn't own the cluster and the operator."""
    return VARIABLE in os.environ
