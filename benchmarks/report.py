"""Formats the results as a table for the terminal, and as `docs/benchmarks.md` with a plot. The page and the plot are made from
`docs/benchmarks.json`."""

import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, Final
from xml.sax.saxutils import escape

from benchmarks.measuring import ROOT

RESULTS: Final = ROOT / "docs" / "benchmarks.json"
_PAGE: Final = ROOT / "docs" / "benchmarks.md"
_PLOT: Final = ROOT / "docs" / "benchmarks.svg"
_FINDINGS: Final = Path(__file__).with_name("findings.md")

_RATES: Final = ("contender", "records", "records/s", "spread", "MB/s", "CPU s", "peak MiB", "our relative speed", "goal")
_COMMANDS: Final = ("command", "seconds", "spread", "CPU s", "peak MiB", "goal")

_GOALS: Final = (
    "workload", "compared with", "goal", "reached", "met", "nearest measured limit", "result of the limit", "our share of the limit"
)  # fmt: skip
_GOALS_TOLD: Final = """A limit does only part of the work, and uses libraries alone. *Result of the limit* is the figure that the limit
itself reaches for this goal. For example, if the limit reaches 1.2 x for TensorFlow, a goal of 1.4 x is out of reach. If a goal compares
two runs of ours, the limit is the gain of the libraries alone from the same resources. The cells of the limit are empty if no limit was
measured, or if the goal itself compares ours with a limit."""

_BAR: Final = 18
_LEFT: Final = 330
_RIGHT: Final = 250
_WIDTH: Final = 900
_MOST: Final = 2.0
"""The longest bar, as a multiple of the goal."""
_COLOURS: Final = {"peer": "#4878a8", "limit": "#c08040", "ours": "#609060"}
_LEGEND: Final = {"peer": "vs. a peer", "limit": "vs. a limit", "ours": "alone, or vs. another run of ours"}

_HEAD: Final = """# Benchmarks

`make bench` writes this page from [benchmarks.json](benchmarks.json). Don't edit it.

Each table compares our job (*ours*) with contenders. A contender is a peer (another program for the same work) or a limit (only a part of
the work).

- *Our relative speed* is our number of records per second, divided by that of the contender. Compared with a peer, a value above 1
  means that our job is faster. Compared with a limit, 1 is the highest possible value. Compare ratios rather than seconds, because the
  machines that run the benchmarks are shared.
- All contenders of a workload ran alternately on the same data, and each run was a separate process. The clock starts when all processes of
  a run have imported their libraries and have touched as much memory as the run writes. Without this, the first contender would be slower,
  because a virtual machine returns free memory to its host. Workloads in memory take only a tenth of a second. Each run of such a workload
  does its work twice, and only the second time counts (*timed the second time*).
- Data and outputs are in memory (tmpfs) if they fit into it. Our jobs wait until the disk has stored the output (fsync), and peers don't.
  On a disk, waiting for fsync would take most of the measured time.
- Other libraries read the outputs back, outside the measured time. The result of reading back is below each table. Peers that would take
  minutes got only the first part of the data (see the number of records), and their outputs are compared with ours for this part only.
- Memory is the peak resident memory of all processes of a run, including libraries. Shared memory is counted once for each process that
  uses it. ✗ marks a job of ours that needed more than 512 MiB. `make memory` shows that jobs of any input size stay below this limit, in a
  control group of 512 MiB.
- CPU time is missing if processes that outlive the run do the work.

![our speed compared with each contender's speed](benchmarks.svg)
"""


def write(results: Mapping[str, Any]) -> None:
    """Write the results, the page and the plot."""
    RESULTS.write_text(json.dumps(results, indent=1) + "\n")
    _PLOT.write_text(plot(results))
    _PAGE.write_text(page(results))


def page(results: Mapping[str, Any]) -> str:
    """Return the page, in Markdown."""
    summary = f"## Goals\n\n{goals(results)}"
    tables = [f"## {found['title']}\n\n{table(name, found)}" for name, found in results["workloads"].items()]
    return "\n".join([_HEAD, *tables, summary, _FINDINGS.read_text()])


def goals(results: Mapping[str, Any]) -> str:
    """Return the table of all goals, in Markdown."""
    rows = [
        [f"`{name}`", who, goal, was, "✓" if share >= 1 else "✗", *_limit(found, who)]
        for name, found in results["workloads"].items()
        for who, share, goal, was in reached(found)
    ]
    met = sum(row[4] == "✓" for row in rows)
    lines = [f"{met} of {len(rows)} goals are met.", "", f"| {' | '.join(_GOALS)} |", f"|---|---|{'--:|' * 3}---|--:|--:|"]
    return "\n".join([*lines, *(f"| {' | '.join(row)} |" for row in rows), "", _GOALS_TOLD, ""])


def _limit(found: Mapping[str, Any], who: str) -> tuple[str, str, str]:
    """Return the cells of a goal's limit: the limit's name, its result in the goal's unit, and our share of that result."""
    contenders = found["contenders"]
    if who in found.get("gains", {}):
        quick, slow = found["gains"][who]
        ratio = beside(found, who)
        if ratio is None or quick not in contenders or slow not in contenders:
            return "", "", ""
        gain = contenders[quick]["per_second"] / contenders[slow]["per_second"]
        return f"{quick}, compared with {slow}", f"{_short(gain)} x", f"{ratio / gain:.2f}"
    name = found.get("limit", "")
    if name not in contenders or who == name:
        return "", "", ""
    limit = contenders[name]
    if who in found["goals"]:
        return (
            name,
            f"{_short(limit['per_second'] / contenders[who]['per_second'])} x",
            f"{_ours(found)['per_second'] / limit['per_second']:.2f}",
        )
    if found["bounds"][who][0] == "s":
        return name, f"{limit['seconds']:.2f} s", f"{limit['seconds'] / contenders[who]['seconds']:.2f}"
    share = contenders[who]["per_second"] / limit["per_second"]
    return name, f"{_short(_rate_of(found, who) / share)} {found['bounds'][who][0]}", f"{share:.2f}"


def _ours(found: Mapping[str, Any]) -> Mapping[str, Any]:
    told: Mapping[str, Any] = found["contenders"]["ours"]
    return told


def table(name: str, found: Mapping[str, Any]) -> str:
    """Return a workload's table, in Markdown."""
    is_commands = any(unit == "s" for unit, _ in found["bounds"].values())
    head, line = (_COMMANDS, _command) if is_commands else (_RATES, _rate)
    lines = [f"| {' | '.join(head)} |", f"|---|{'--:|' * (len(head) - 1)}"]
    lines += [f"| {' | '.join([who, *line(found, who)])} |" for who in found["contenders"]]
    where = (
        f", {found['machine']['cores']} cores of {found['machine']['processor']}{_files(found['machine'])}, {found['at']}"
        if "machine" in found
        else ""
    )
    twice = "; timed the second time" if found.get("twice") else ""
    rounds = f"{found['rounds']} round{'s' * (found['rounds'] > 1)}"
    told = f"`{name}`: {found['records']:,} records, {rounds}{_more_rounds(found)}{where}{twice}."
    return "\n".join([*lines, "", told, *_checked(found), ""])


def _files(machine: Mapping[str, str]) -> str:
    return f", files on {machine['files']}" if "files" in machine else ""


def _more_rounds(found: Mapping[str, Any]) -> str:
    """Return a note about the contenders that ran more often because their runs differed too much."""
    more = {who: told["runs"] for who, told in found["contenders"].items() if told.get("runs", 0) > found["rounds"]}
    return f" ({', '.join(f'{runs} of {who}' for who, runs in more.items())}, because runs varied)" if more else ""


def _checked(found: Mapping[str, Any]) -> list[str]:
    """Return the line about reading the outputs back. It is omitted if an output was wrong."""
    if found["faults"] or "checked" not in found:
        return []
    return [f"Verified: {found['checked']}." if found["checked"] else "This workload writes no output, so no output was read back."]


def _rate(found: Mapping[str, Any], who: str) -> list[str]:
    told = found["contenders"][who]
    ratio = beside(found, who)
    return [
        f"{told['records']:,}",
        _short(told["per_second"]),
        f"± {told['spread']:.0%}",
        f"{_megabytes(found, who):,.0f}",
        _cpu(told),
        _memory(told),
        "" if ratio is None else f"{_short(ratio)} x",
        *_goals(found, who),
    ]


def _command(found: Mapping[str, Any], who: str) -> list[str]:
    told = found["contenders"][who]
    return [f"{told['seconds']:.2f}", f"± {told['spread']:.0%}", _cpu(told), _memory(told), *_goals(found, who)]


def _goals(found: Mapping[str, Any], who: str) -> list[str]:
    """Return the cell with a contender's goal and a mark that shows whether it is met."""
    return [next((f"{goal}{' ✓' if share >= 1 else ' ✗'}" for at, share, goal, _ in reached(found) if at == who), "")]


def reached(found: Mapping[str, Any]) -> Iterator[tuple[str, float, str, str]]:
    """Yield (contender, the result as a share of its goal, the goal, the result) for each goal."""
    for who, goal in found["goals"].items():
        ratio = beside(found, who) if who in found["contenders"] else None
        if ratio is not None:
            yield who, ratio / goal, f"{goal:g} x", f"{_short(ratio)} x"
    for who, (unit, bound) in found["bounds"].items():
        if who not in found["contenders"]:
            continue
        told = found["contenders"][who]
        if unit == "s":
            yield who, bound / told["seconds"], f"≤ {bound:g} s", f"{told['seconds']:.2f} s"
        else:
            rate = _rate_of(found, who)
            yield who, rate / bound, f"≥ {bound:,.0f} {unit}", f"{_short(rate)} {unit}"


def _rate_of(found: Mapping[str, Any], who: str) -> float:
    """Return a contender's speed in the unit of its goal."""
    is_counted = found["bounds"][who][0] == "records/s"
    return float(found["contenders"][who]["per_second"]) if is_counted else _megabytes(found, who)


def _megabytes(found: Mapping[str, Any], who: str) -> float:
    """Return the speed in MB/s of the written bytes, or of the input's bytes if the contender writes nothing."""
    told = found["contenders"][who]
    size = told["written"] or found["bytes_in"] * told["records"] / found["records"]
    return float(size / told["seconds"] / 1e6)


def _cpu(told: Mapping[str, Any]) -> str:
    return "" if told["cpu_seconds"] is None else f"{told['cpu_seconds']:.2f}"


def _memory(told: Mapping[str, Any]) -> str:
    most = told["most_bytes"]
    return f"{told['peak_bytes'] / 2**20:,.0f}{' ✗' if most is not None and told['peak_bytes'] > most else ''}"


def beside(found: Mapping[str, Any], who: str) -> float | None:
    """Return our speed as a multiple of this contender's speed, or None for our own run."""
    ours = "ours"
    if who == ours or ours not in found["contenders"]:
        return None
    return float(found["contenders"][ours]["per_second"] / found["contenders"][who]["per_second"])


def plot(results: Mapping[str, Any]) -> str:
    """Return an SVG plot with a bar for each goal. The bar shows the share of the goal that was reached, and a line marks the goal."""
    bars = [
        (f"{name}: {who}", share, found["contenders"][who]["role"], f"{was} of {goal}")
        for name, found in results["workloads"].items()
        for who, share, goal, was in reached(found)
    ]
    unit = (_WIDTH - _LEFT - _RIGHT) / _MOST
    height = _BAR * (len(bars) + 3)
    goal = _LEFT + unit
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{_WIDTH}" height="{height}" font-family="sans-serif" font-size="11">',
        f'<rect width="{_WIDTH}" height="{height}" fill="white"/>',
        f'<line x1="{goal:.0f}" x2="{goal:.0f}" y1="{_BAR * 1.5:.0f}" y2="{height - _BAR // 2}" stroke="black" stroke-dasharray="4 3"/>',
        _text(goal, 0, "the goal", anchor="middle"),
    ]
    for place, (role, what) in enumerate(_LEGEND.items()):
        parts += [_bar(10 + 120 * place, 0, 12, role), _text(27 + 120 * place, 0, what)]
    for place, (label, share, role, told) in enumerate(bars, start=2):
        width = unit * min(share, _MOST)
        parts += [_text(_LEFT - 6, place, label, anchor="end"), _bar(_LEFT, place, width, role), _text(_LEFT + width + 5, place, told)]
    return "\n".join([*parts, "</svg>", ""])


def _bar(left: float, place: int, width: float, role: str) -> str:
    return f'<rect x="{left:.0f}" y="{_BAR * place + 4}" width="{width:.0f}" height="{_BAR - 4}" fill="{_COLOURS[role]}"/>'


def _text(left: float, place: int, text: str, *, anchor: str = "start") -> str:
    """Return an SVG text. Its white rim separates it from the line behind it."""
    rim = 'stroke="white" stroke-width="3" paint-order="stroke"'
    return f'<text x="{left:.0f}" y="{_BAR * place + 15}" text-anchor="{anchor}" {rim}>{escape(text)}</text>'


def _short(number: float) -> str:
    return f"{number:,.0f}" if number >= 100 else f"{number:.1f}" if number >= 10 else f"{number:.2f}"
