"""What the tests of whole lives share."""

import pytest
from tests.operator.world import World


@pytest.fixture
def world() -> World:
    return World()
