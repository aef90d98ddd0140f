"""Without Ray, only the classes for Ray are missing."""

import importlib
import sys

import pytest

import dataprep_ray


@pytest.mark.parametrize("name", ["ray.data", "ray.data.block", "ray.data.extensions.tensor_extension"])
@pytest.mark.parametrize("wanted", ["DataprepDatasource", "DataprepDatasink"])
@pytest.mark.usefixtures("played")
def test_without_ray_the_error_says_what_to_install(monkeypatch: pytest.MonkeyPatch, name: str, wanted: str) -> None:
    monkeypatch.setitem(sys.modules, name, None)
    with pytest.raises(ImportError, match=r"dataprep_ray needs Ray Data: pip install 'dataprep-operator\[ray\]'"):
        getattr(dataprep_ray, wanted)


def test_other_names_are_missing_as_usual() -> None:
    module = importlib.import_module("dataprep_ray")
    with pytest.raises(AttributeError, match="module 'dataprep_ray' has no attribute 'Other'"):
        module.Other  # noqa: B018 - the access raises the error


def test_the_options_and_the_blocks_need_no_ray() -> None:
    for name in ("options", "blocks", "ray_types"):
        importlib.import_module(f"dataprep_ray.{name}")
    assert "ray" not in sys.modules
