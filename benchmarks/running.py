"""One workload: its data is made, its contenders take turns, and what they wrote is read back and compared."""

import shutil
from pathlib import Path
from typing import Any

import numpy as np
from benchmarks import inputs, measuring, servers
from benchmarks.contenders import Checked, Contender, read_back
from benchmarks.measuring import RunFailed, Runs, Took
from benchmarks.workloads import Workload

_CLOSE = 0.15
"""How far the decoded and standardized pixels of two decoders may be apart, on average."""


def run(workload: Workload, folder: Path, *, records: int, rounds: int, seed: int, peers: set[str] | None) -> dict[str, Any]:
    """The results of a workload, as JSON has them; `peers` are those that take part, None for all. What failed is in `faults`."""
    source = folder / "input"
    source.mkdir()
    inputs.MAKERS[workload.make](source, records, np.random.default_rng(seed))
    if workload.prepare is not None:
        prepared = folder / "prepared"
        workload.prepare.run(source, prepared, records)
        source = prepared
    here = [each for each in workload.contenders if each.role != "peer" or peers is None or each.peer in peers]
    runs = {each.name: Runs() for each in here}
    faults: list[str] = []
    seen: dict[str, Checked] = {}
    left = list(here)
    with servers.started(workload.server, folder):
        for turn in range(rounds):
            # The first one finds the caches cold, so it is another one each time.
            first = turn % max(1, len(left))
            for contender in left[first:] + left[:first]:
                output = folder / "output"
                output.mkdir()
                try:
                    runs[contender.name].runs.append(contender.run(source, output, records))
                    if turn == 0 and contender.writes and workload.check:
                        found = _faults(workload, contender, here, output, records, seen)
                        if found:
                            raise RunFailed("; ".join(found))
                except RunFailed as exc:
                    faults.append(f"{contender.name}: {exc}")
                    runs[contender.name].runs.clear()
                    left.remove(contender)
                shutil.rmtree(output)
    return {
        "title": workload.title,
        "records": records,
        "bytes_in": measuring.size_of(source),
        "rounds": rounds,
        "check": workload.check,
        "goals": dict(workload.goals),
        "contenders": {each.name: _told(each, runs[each.name]) for each in here if runs[each.name].runs},
        "faults": faults,
    }


def _told(contender: Contender, runs: Runs) -> dict[str, Any]:
    first: Took = runs.runs[0]
    return {
        "role": contender.role,
        "records": first.records,
        "per_second": runs.per_second,
        "spread": runs.spread,
        "cpu_seconds": sorted(run.cpu_seconds for run in runs.runs)[len(runs.runs) // 2],
        "seconds": sorted(run.seconds for run in runs.runs)[len(runs.runs) // 2],
        "written": first.written,
        "peak_bytes": max(run.peak_bytes for run in runs.runs),
    }


def _faults(
    workload: Workload, contender: Contender, here: list[Contender], output: Path, records: int, seen: dict[str, Checked]
) -> list[str]:
    """What is wrong with an output: each is held against the one of the first contender, over the records that both have."""
    each = contender.records(records)
    found = read_back(workload.check, output, sorted({other.records(records) for other in here}))
    if found.records != each:
        return [f"it wrote {found.records:,} of {each:,} records"]
    first = seen.setdefault("first", found)
    return [] if _same(first, found, str(each)) else [f"it wrote other records than {here[0].name}"]


def _same(one: Checked, other: Checked, records: str) -> bool:
    if one.values:
        return float(np.abs(np.subtract(one.values, other.values)).mean()) < _CLOSE
    return one.digests[records] == other.digests[records]
