"""Servers and places that several modules use."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.converter.stores.ftp import served
from tests.converter.stores.hub_jobs import hub
from tests.converter.stores.places import PLACES, Place, in_memory
from tests.converter.stores.site import site

__all__ = ["hub", "served", "site"]


@pytest.fixture
def local(tmp_path: Path) -> Iterator[Place]:
    """A folder in memory: these tests sync files thousands of times, which would be slow on a disk."""
    with in_memory(tmp_path) as place:
        yield place


@pytest.fixture(params=PLACES[1:])
def remote(request: pytest.FixtureRequest) -> Place:
    """A folder on each store except local files."""
    place: Place = request.param(request)
    return place
