"""Fixtures shared by the tests that run a job from its creation to its end."""

import pytest
from tests.operator.world import World


@pytest.fixture
def world() -> World:
    return World()
