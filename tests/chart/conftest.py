"""Helm, and the function that renders the chart."""

import json
from collections.abc import Mapping
from pathlib import Path

import pytest
import yaml
from tests.chart.rendering import LOADER, WITHOUT_CRDS, Objects, Render, template_output

from kubecluster import binaries


@pytest.fixture(scope="session")
def helm() -> Path:
    """Return the path of Helm, which is built if it doesn't exist yet."""
    return binaries.built("helm")


@pytest.fixture
def render(helm: Path) -> Render:
    """Return a function that renders the chart with some values into objects. By default it omits hooks, and also CRDs,
    which make up nine tenths of the text.
    """

    def template(values: Mapping[str, object] | None = None, *, hooks: bool = False) -> Objects:
        objects = [each for each in yaml.load_all(template_output(helm, json.dumps(WITHOUT_CRDS | dict(values or {}))), LOADER) if each]
        return [each for each in objects if hooks or "helm.sh/hook" not in each["metadata"].get("annotations", {})]

    return template
