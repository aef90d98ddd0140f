"""What the results say: a table on the terminal, and `docs/benchmarks.md` with its plot, both made from `docs/benchmarks.json`."""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final
from xml.sax.saxutils import escape

from benchmarks.measuring import ROOT

RESULTS: Final = ROOT / "docs" / "benchmarks.json"
_PAGE: Final = ROOT / "docs" / "benchmarks.md"
_PLOT: Final = ROOT / "docs" / "benchmarks.svg"
_FINDINGS: Final = Path(__file__).with_name("findings.md")

_BAR: Final = 18
_LEFT: Final = 330
_WIDTH: Final = 760
_COLOURS: Final = {"peer": "#4878a8", "limit": "#c08040", "ours": "#609060"}

_HEAD: Final = """# Benchmarks

Made by `make bench` from [benchmarks.json](benchmarks.json); don't edit. Each workload's contenders took turns in one run on the same data, each run a
process of its own; its clock begins when libraries are imported. *Ours beside it* is our speed, in records a second, as a multiple of the
contender's: for a peer above 1 is quicker than it, for a limit 1 is what can be reached. Read ratios, not seconds: the machines that run this are
shared. Outputs were read back by libraries that are not ours, and were equal record for record; peers that would take minutes got the first part of
the data, as the number of records says. Memory is what was resident in all processes of a run at its peak, libraries included.

![our speed beside each contender's](benchmarks.svg)
"""


def write(results: Mapping[str, Any]) -> None:
    """The results, the page and the plot."""
    RESULTS.write_text(json.dumps(results, indent=1) + "\n")
    _PLOT.write_text(plot(results))
    _PAGE.write_text(page(results))


def page(results: Mapping[str, Any]) -> str:
    """The page, in Markdown."""
    tables = [f"## {found['title']}\n\n{table(name, found)}" for name, found in results["workloads"].items()]
    return "\n".join([_HEAD, *tables, _FINDINGS.read_text()])


def table(name: str, found: Mapping[str, Any]) -> str:
    """One workload's table, in Markdown."""
    lines = [
        "| contender | records | records/s | spread | MB/s | CPU s | peak MiB | ours beside it | goal |",
        "|---|--:|--:|--:|--:|--:|--:|--:|--:|",
    ]
    for who, told in found["contenders"].items():
        ratio = beside(found, who)
        goal = found["goals"].get(who)
        size = told["written"] or found["bytes_in"] * told["records"] / found["records"]
        lines.append(
            f"| {who} | {told['records']:,} | {_short(told['per_second'])} | ± {told['spread']:.0%} | {size / told['seconds'] / 1e6:,.0f} "
            f"| {told['cpu_seconds']:.2f} | {told['peak_bytes'] / 2**20:,.0f} | {'' if ratio is None else f'{_short(ratio)} x'} "
            f"| {'' if goal is None else f'{goal:g} x{_verdict(ratio, goal)}'} |"
        )
    where = f", {found['machine']['cores']} cores of {found['machine']['processor']}, {found['at']}" if "machine" in found else ""
    checked = "; outputs read back and equal" if found["check"] and not found["faults"] else ""
    return "\n".join([*lines, "", f"`{name}`: {found['records']:,} records, {found['rounds']} rounds{where}{checked}.", ""])


def beside(found: Mapping[str, Any], who: str) -> float | None:
    """Our speed as a multiple of this contender's; None for ourselves."""
    ours = "ours"
    if who == ours or ours not in found["contenders"]:
        return None
    return float(found["contenders"][ours]["per_second"] / found["contenders"][who]["per_second"])


def plot(results: Mapping[str, Any]) -> str:
    """A bar for each goal: the share of it that was reached, as SVG. The line is the goal."""
    bars = [
        (f"{name}: {who}", ratio / goal, found["contenders"][who]["role"], f"{_short(ratio)} x of {goal:g} x")
        for name, found in results["workloads"].items()
        for who, goal in found["goals"].items()
        if who in found["contenders"] and (ratio := beside(found, who)) is not None
    ]
    unit = (_WIDTH - _LEFT - 120) / 2
    height = _BAR * (len(bars) + 2)
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{_WIDTH}" height="{height}" font-family="sans-serif" font-size="11">',
        f'<rect width="{_WIDTH}" height="{height}" fill="white"/>',
    ]
    for place, (label, share, role, text) in enumerate(bars):
        top = _BAR * (place + 1)
        width = unit * min(share, 2.0)
        parts += [
            f'<text x="{_LEFT - 6}" y="{top + 12}" text-anchor="end">{escape(label)}</text>',
            f'<rect x="{_LEFT}" y="{top + 2}" width="{width:.0f}" height="{_BAR - 4}" fill="{_COLOURS[role]}"/>',
            f'<text x="{_LEFT + width + 5:.0f}" y="{top + 12}">{escape(text)}</text>',
        ]
    parts.append(
        f'<line x1="{_LEFT + unit:.0f}" x2="{_LEFT + unit:.0f}" y1="{_BAR // 2}" y2="{height - _BAR // 2}" stroke="black" stroke-dasharray="4 3"/>'
    )
    return "\n".join([*parts, "</svg>", ""])


def _verdict(ratio: float | None, goal: float) -> str:
    return "" if ratio is None else " ✓" if ratio >= goal else " ✗"


def _short(number: float) -> str:
    return f"{number:,.0f}" if number >= 100 else f"{number:.1f}" if number >= 10 else f"{number:.2f}"
