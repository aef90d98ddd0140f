"""The operator's benchmark finishes in time and loses no results, even if the cluster doesn't respond.

The operator accepts messages from the benchmark's simulated pods.
"""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from benchmarks.operator_load import __main__ as program
from benchmarks.operator_load import observing, one_look, played
from benchmarks.operator_load.measurements import Bench, Figures
from benchmarks.operator_load.patience import Overdue, Patience

from dataprep_api.dataset import messages
from dataprep_api.dataset.messages import CommitResult, PlanResult
from dataprep_api.resources.job import DataPrepJob
from dataprep_operator.objects import results


class Hours:
    """A clock that advances only while a test waits."""

    def __init__(self) -> None:
        self.now, self.said = 0.0, list[str]()

    def patience(self, *, seconds: float = 100) -> Patience:
        return Patience("row", seconds=seconds, clock=lambda: self.now, sleep=self._sleep, tell=self.said.append)

    def _sleep(self, seconds: float) -> None:
        self.now += seconds


# --- patience -----------------------------------------------------------------------------------------------------------------


def test_a_wait_says_how_far_it_has_come_and_how_long_it_took() -> None:
    hours = Hours()
    took = hours.patience().until("all complete", lambda: hours.now >= 40, every=1, reached=lambda: f"{hours.now:.0f} of 40 are")

    assert took == 40
    assert hours.said == ["  row    16 s: waits for all complete (16 of 40 are)", "  row    32 s: waits for all complete (32 of 40 are)"]


@pytest.mark.parametrize(("own", "seconds"), [(None, 100), (30, 30), (500, 100)], ids=["the row's", "its own", "the shorter"])
def test_a_wait_that_never_ends_is_given_up_and_says_where_it_stood(own: float | None, seconds: int) -> None:
    hours = Hours()
    with pytest.raises(Overdue, match=rf"timed out after {seconds} s waiting for: all complete \(7 of 9 are\)"):
        hours.patience().until("all complete", lambda: False, seconds=own, every=1, reached=lambda: "7 of 9 are")

    assert hours.now == seconds + 1


def test_several_waits_share_the_time_of_their_row() -> None:
    hours = Hours()
    patience = hours.patience()
    patience.until("the first", lambda: hours.now >= 60)
    patience.rest("a rest", 30)
    with pytest.raises(Overdue, match="timed out after 100 s waiting for: the second"):
        patience.until("the second", lambda: hours.now >= 110)
    with pytest.raises(Overdue, match="timed out after 100 s waiting for: jobs"):
        patience.check("jobs")


# --- rows ---------------------------------------------------------------------------------------------------------------------


def a_row(name: str, measure: Callable[[Bench, bool], Figures], **limits: Any) -> program.Row:  # Any: fields of Row
    return program.Row(name, name, measure, **{"at_most": {}, "minutes": 1.0, **limits})


def measured(tmp_path: Path, *rows: program.Row, seconds: float = 600, small: bool = False) -> tuple[int, dict[str, Any]]:
    bench = Bench(api=None, installation=None, patience=Patience("set-up", seconds=0))  # type: ignore[arg-type]  # no row in these tests uses them
    file = tmp_path / "results.json"
    code = program.measure(rows, bench, seconds=seconds, small=small, results=file, page=tmp_path / "page.md")
    return code, json.loads(file.read_text())


def overdue(*_: object) -> Figures:
    raise Overdue("timed out after 60 s waiting for: all complete (17 of 20 are)")


def test_a_row_that_fails_is_told_and_the_others_are_measured(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    code, found = measured(tmp_path, a_row("restart", overdue), a_row("idle", lambda *_: {"x": 1.0}))

    assert code == 1
    assert found["restart"]["error"] == "Overdue: timed out after 60 s waiting for: all complete (17 of 20 are)"
    assert found["idle"]["figures"] == {"x": 1.0}
    assert "restart: not measured: Overdue: timed out after 60 s waiting for: all complete" in capsys.readouterr().err


def test_what_is_measured_is_kept_when_the_next_row_breaks(tmp_path: Path) -> None:
    def interrupted(*_: object) -> Figures:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        measured(tmp_path, a_row("latency", lambda *_: {"x": 1.0}), a_row("burst", interrupted))

    assert json.loads((tmp_path / "results.json").read_text())["latency"]["figures"] == {"x": 1.0}
    assert "1.00" in (tmp_path / "page.md").read_text()


@pytest.mark.parametrize(
    ("limits", "small", "code"),
    [
        ({"at_most": {"jobs": 4}}, False, 1),
        ({"at_most": {"jobs": 5}}, False, 0),
        ({"at_least": {"jobs": 6}}, False, 1),
        ({"at_least": {"jobs": 6}}, True, 0),
    ],
    ids=["too much", "as much as may be", "too few", "too few for a trial"],
)
def test_a_figure_beyond_its_threshold_fails_the_run(tmp_path: Path, limits: dict[str, Any], small: bool, code: int) -> None:
    assert measured(tmp_path, a_row("idle", lambda *_: {"jobs": 5.0}, **limits), small=small)[0] == code


def test_a_row_has_no_more_time_than_is_left_of_the_whole(tmp_path: Path) -> None:
    def late(bench: Bench, _: bool) -> Figures:
        bench.patience.check("anything")
        return {}

    code, found = measured(tmp_path, a_row("growth", late), seconds=-1)

    assert (code, found["growth"]["error"]) == (1, "Overdue: timed out after -1 s waiting for: its turn")


def test_the_page_tells_what_could_not_be_measured() -> None:
    row = program.ROWS[0]
    page = program._page({row.name: {"at": "2026-01-01", "error": "Overdue: a | b"}})

    assert f"| {row.title} | | not measured: Overdue: a / b | |" in page


def test_every_row_is_usually_done_when_the_whole_must_be() -> None:
    assert sum(row.minutes for row in program.ROWS) / 2 <= program._MINUTES
    assert [row.name for row in program.ROWS].index("idle") > [row.name for row in program.ROWS].index("burst3000")


def test_the_row_without_a_cluster_starts_none(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setattr(program, "_bench", lambda: pytest.fail("a cluster was started"))
    monkeypatch.setattr("sys.argv", ["operator_load", "--only", "look", "--small"])
    monkeypatch.setattr(one_look, "measure", lambda **_: {"cpu_ms": 11.0, "bytes_per_finished_pod": 1000.0})

    assert program.main() == 1
    assert "look: cpu_ms is 11.00, but must be at most 10" in capsys.readouterr().err


@pytest.mark.slow
def test_a_look_is_measured_at_a_job_whose_pods_are_believed() -> None:
    figures = one_look.measure(pods=200, looks=10)

    assert figures["finished_pods"] == 180
    assert 1780 < figures["shards_done_seen"] <= 1880
    assert figures.keys() >= next(row for row in program.ROWS if row.name == "look").at_most.keys()


# --- metrics and simulated pods ---------------------------------------------------------------------------------------------------


def test_metrics_are_read_as_the_operator_tells_them() -> None:
    text = """\
# TYPE dataprep_jobs gauge
dataprep_jobs{phase="Running"} 3.0
# TYPE dataprep_job_duration_seconds histogram
dataprep_job_duration_seconds_bucket{le="5.0",phase="Succeeded"} 1.0
dataprep_job_duration_seconds_count{phase="Succeeded"} 7.0
dataprep_job_duration_seconds_count{phase="Failed"} 2.0
# TYPE dataprep_api_requests counter
dataprep_api_requests_total{method="GET",code="200"} 4.0
dataprep_api_requests_total{method="PATCH",code="409"} 5.0
# TYPE dataprep_workqueue_depth gauge
dataprep_workqueue_depth 0.0
"""
    reading = observing._parsed(text)

    assert (reading.jobs, reading.completed, reading.values["dataprep_workqueue_depth"]) == ({"Running": 3.0}, 7.0, 0.0)
    assert (reading.all_requests, reading.writes) == (9.0, 5.0)


@pytest.mark.parametrize("part", [played.SHORT, played.FOUND, played.HELD, played.BIG])
def test_what_played_pods_say_is_believed(part: str) -> None:
    spec = DataPrepJob.parse(played.job("one", part)).spec
    plan, commit = messages.parse(played._says(part, "plan")), messages.parse(played._says(part, "commit"))

    assert isinstance(plan, PlanResult)
    assert isinstance(commit, CommitResult)
    assert results.plan_fault(plan, spec, step="plan") is None
    assert results.commit_fault(commit, run_id=plan.run_id) is None
    assert (plan.reused, plan.commit == commit) == ((True, True) if part == played.FOUND else (False, False))


def test_only_the_workers_that_must_go_on_never_end(tmp_path: Path) -> None:
    text = played.stages(tmp_path / "stages.yaml").read_text()

    assert "short-convert" in text
    assert "found-plan" in text
    assert "held-convert" not in text
    assert "big-convert" not in text
