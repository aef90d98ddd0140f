"""What a notebook shows. IPython is simulated."""

import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pyarrow as pa
import pytest

import dataprep_io as dp
from dataprep_io.notebook import Bar, Written


class Handle:
    """The handle that IPython returns for an output that can be replaced."""

    def __init__(self, shown: list[Any]) -> None:
        self._shown = shown

    def update(self, value: Any) -> None:
        self._shown[-1] = value


def play_ipython(monkeypatch: pytest.MonkeyPatch, *, kernel: object) -> list[Any]:
    """Simulate IPython in this process, with or without a kernel. Return a list that collects the outputs."""
    outputs: list[Any] = []

    def display(value: Any, *, display_id: bool) -> Handle:
        assert display_id
        outputs.append(value)
        return Handle(outputs)

    shell = SimpleNamespace(kernel=kernel)
    monkeypatch.setitem(sys.modules, "IPython", SimpleNamespace(get_ipython=lambda: shell, display=SimpleNamespace(display=display)))
    return outputs


def test_the_bar_is_one_output_that_changes(monkeypatch: pytest.MonkeyPatch) -> None:
    outputs = play_ipython(monkeypatch, kernel=object())
    bar = Bar()
    for percent in (0, 50, 100):
        bar.show(dp.Progress("Running", percent))
    assert outputs == [dp.Progress("Running", 100)]


@pytest.mark.parametrize("has_ipython", [True, False])
def test_without_a_kernel_nothing_is_shown(monkeypatch: pytest.MonkeyPatch, has_ipython: bool) -> None:
    outputs = play_ipython(monkeypatch, kernel=None)
    if not has_ipython:
        monkeypatch.delitem(sys.modules, "IPython")
    Bar().show(dp.Progress("Running"))
    assert outputs == []


def test_a_write_shows_how_far_it_is(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    outputs = play_ipython(monkeypatch, kernel=object())
    dp.write(({"n": n} for n in range(10)), tmp_path / "set", shard_records=4)
    (output,) = outputs
    assert output._repr_html_() == '<progress value="100" max="100"></progress> written: 10 records in 3 shards'
    assert Written(1, 4)._repr_html_() == "<progress></progress> writing: 4 records in 1 shard"


def test_progress_is_a_bar() -> None:
    html = dp.Progress("Running", 40, 2, 5)._repr_html_()
    assert html == '<progress value="40" max="100"></progress> Running 40 %, 2 of 5 shards'


def test_results_readers_and_jobs_are_tables_with_escaped_values(tmp_path: Path) -> None:
    result = dp.write(pa.table({"<b>": [1.0, 2.0]}), tmp_path / "set", format="parquet")
    assert '<td style="text-align:left">2 records</td>' in result._repr_html_()
    reader = result.open()
    assert "&lt;b&gt;" in reader._repr_html_()
    assert repr(reader) == f"<Reader of {tmp_path}/set: 2 records, 1 features>"
    job = dp.Job("rows", source={"csv": {"uris": ["<i>.csv"]}}, output={"uri": "<i>"})
    assert "&lt;i&gt;" in job._repr_html_()
    assert "(not submitted)" in job._repr_html_()
