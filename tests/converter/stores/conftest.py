"""Servers and folders that several modules use."""

from pathlib import Path

import pytest
from tests.converter.stores.ftp import served
from tests.converter.stores.hub_jobs import hub
from tests.converter.stores.places import PLACES, Place, in_folder
from tests.converter.stores.site import site

__all__ = ["hub", "served", "site"]


@pytest.fixture
def local(tmp_path: Path) -> Place:
    """A local folder."""
    (tmp_path / "local").mkdir()
    return in_folder(tmp_path / "local")


@pytest.fixture(params=PLACES[1:])
def remote(request: pytest.FixtureRequest) -> Place:
    """A folder on each store except local files."""
    place: Place = request.param(request)
    return place
