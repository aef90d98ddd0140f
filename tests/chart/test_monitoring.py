"""The chart's alerts and dashboard only use metrics that the operator has, and promtool accepts them."""

import json
import re
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest
import yaml
from tests.availability import unavailable

from dataprep_operator import metrics

FILES = Path(__file__).parents[2] / "charts" / "dataprep-operator" / "files"
SUFFIXES = ("_total", "_bucket", "_count", "_sum", "")


@pytest.fixture(scope="session")
def promtool() -> str:
    """The path of promtool, which is in Debian's package prometheus."""
    found = shutil.which("promtool")
    return found or unavailable("promtool is not installed: apt-get install prometheus")


def alerts() -> list[dict[str, Any]]:
    return [rule for group in yaml.safe_load((FILES / "alerts.yaml").read_text())["groups"] for rule in group["rules"]]


def panels() -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = json.loads((FILES / "dashboard.json").read_text())["panels"]
    return found


def expressions() -> list[str]:
    return [alert["expr"] for alert in alerts()] + [target["expr"] for panel in panels() for target in panel["targets"]]


def told() -> set[str]:
    """Return the names of all metrics in the operator's registry."""
    return {family.name + suffix for family in metrics.REGISTRY.collect() for suffix in SUFFIXES}


def test_every_metric_that_is_asked_for_is_told() -> None:
    asked = {name for expression in expressions() for name in re.findall(r"\bdataprep_\w+", expression)}
    assert asked
    assert asked <= told()


def test_what_people_ask_of_an_operator_has_a_metric() -> None:
    """Other people's dashboards use these names, so the test fails if a name is removed."""
    operator = {"workqueue_depth", "reconcile_duration_seconds_count", "reconcile_errors_total", "api_requests_total"}
    operator |= {"watch_last_event_age_seconds", "jobs", "workqueue_wait_seconds_count", "job_first_record_seconds_count"}
    jobs = {
        "records_total",
        "bytes_total",
        "records_per_second",
        "bad_records_total",
        "stage_seconds_total",
        "shard_duration_seconds_count",
    }
    assert {f"dataprep_{name}" for name in operator | jobs} <= told()


def test_every_metric_is_documented_and_on_the_dashboard() -> None:
    page = (FILES.parents[2] / "docs" / "operations.md").read_text()
    shown = " ".join(target["expr"] for panel in panels() for target in panel["targets"])
    own = [family for family in metrics.REGISTRY.collect() if not family.name.startswith("process_")]
    for family in own:
        name = f"{family.name}_total" if family.type == "counter" else family.name
        assert f"`{name}`" in page
        assert name in shown


def test_every_alert_is_documented() -> None:
    page = (FILES.parents[2] / "docs" / "operations.md").read_text()
    for alert in alerts():
        assert f"| `{alert['alert']}` |" in page


def test_panels_do_not_lie_over_each_other() -> None:
    taken: set[tuple[int, int]] = set()
    for panel in panels():
        place = panel["gridPos"]
        cells = {(x, y) for x in range(place["x"], place["x"] + place["w"]) for y in range(place["y"], place["y"] + place["h"])}
        assert not cells & taken, panel["title"]
        assert max(x for x, _ in cells) < 24
        taken |= cells


def test_prometheus_accepts_the_alerts_and_raises_them(promtool: str, tmp_path: Path) -> None:
    (tmp_path / "alerts.yaml").write_bytes((FILES / "alerts.yaml").read_bytes())
    (tmp_path / "test.yaml").write_bytes(Path(__file__).with_name("alerts.test.yaml").read_bytes())
    for words in (["check", "rules", "alerts.yaml"], ["test", "rules", "test.yaml"]):
        done = subprocess.run([promtool, *words], cwd=tmp_path, capture_output=True, text=True, check=False, timeout=60)
        assert done.returncode == 0, done.stdout + done.stderr


@pytest.mark.parametrize("expression", sorted(set(expressions())))
def test_prometheus_reads_every_expression(promtool: str, tmp_path: Path, expression: str) -> None:
    rule = {"groups": [{"name": "one", "rules": [{"record": "one", "expr": expression}]}]}
    (tmp_path / "rules.yaml").write_text(yaml.safe_dump(rule))
    done = subprocess.run([promtool, "check", "rules", "rules.yaml"], cwd=tmp_path, capture_output=True, text=True, check=False, timeout=60)
    assert done.returncode == 0, done.stdout + done.stderr
