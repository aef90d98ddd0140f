"""One workload: its data is made, its contenders take turns, and what they wrote is read back and compared."""

import os
import shutil
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
from benchmarks import inputs, measuring, servers
from benchmarks.contenders import Checked, Contender, read_back
from benchmarks.measuring import RunFailed, Runs, Took
from benchmarks.workload import Workload

_CLOSE = 0.15
"""How far the decoded and standardized pixels of two decoders may be apart, on average."""

_AT_HAND = 1 << 30
"""Most bytes that a contender touches before its clock begins (`peers/clocked.py`): more than all outputs but those of decoded images."""


def run(workload: Workload, folder: Path, *, records: int, rounds: int, seed: int, peers: set[str] | None) -> dict[str, Any]:
    """The results of a workload, as JSON has them; `peers` are those that take part, None for all. What failed is in `faults`."""
    source = folder / "input"
    source.mkdir()
    inputs.MAKERS[workload.make](source, records, np.random.default_rng(seed))
    if workload.prepare is not None:
        prepared = folder / "prepared"
        workload.prepare.run(source, prepared, records)
        source = prepared
    os.environ["BENCH_BYTES_AT_HAND"] = str(min(_AT_HAND, 4 * measuring.size_of(source)))
    os.environ.pop("BENCH_TWICE", None)
    if workload.twice:
        os.environ["BENCH_TWICE"] = "1"
    here = [each for each in workload.contenders if each.role != "peer" or peers is None or each.peer in peers]
    runs = {each.name: Runs() for each in here}
    faults: dict[str, str] = {}
    written: dict[str, Path] = {}
    with servers.started(workload.server, folder):
        for turn in range(rounds):
            left = [each for each in here if each.name not in faults]
            # The first one finds the caches cold, so it is another one each time.
            first = turn % max(1, len(left))
            for number, contender in enumerate(left[first:] + left[:first]):
                output = folder / f"output-{number}"
                output.mkdir()
                try:
                    runs[contender.name].runs.append(contender.run(source, output, records))
                except RunFailed as exc:
                    faults[contender.name] = str(exc)
                if turn == 0 and contender.writes and workload.check and contender.name not in faults:
                    written[contender.name] = output
                else:
                    shutil.rmtree(output)
            if turn == 0 and written:
                faults |= _faults(workload, {each.name: each.records(records) for each in here}, written)
                for output in written.values():
                    shutil.rmtree(output)
    return {
        "title": workload.title,
        "records": records,
        "bytes_in": measuring.size_of(source),
        "rounds": rounds,
        "check": workload.check,
        "twice": workload.twice,
        "goals": dict(workload.goals),
        "bounds": {name: list(bound) for name, bound in workload.bounds.items()},
        "contenders": {each.name: _told(each, runs[each.name]) for each in here if each.name not in faults},
        "faults": [f"{name}: {fault}" for name, fault in faults.items()],
    }


def _told(contender: Contender, runs: Runs) -> dict[str, Any]:
    first: Took = runs.runs[0]
    cpu = [run.cpu_seconds for run in runs.runs if run.cpu_seconds is not None]
    return {
        "role": contender.role,
        "records": first.records,
        "per_second": runs.per_second,
        "spread": runs.spread,
        "cpu_seconds": sorted(cpu)[len(cpu) // 2] if cpu else None,
        "seconds": sorted(run.seconds for run in runs.runs)[len(runs.runs) // 2],
        "written": first.written,
        "peak_bytes": max(run.peak_bytes for run in runs.runs),
        "most_bytes": contender.most_bytes,
    }


def _faults(workload: Workload, records: Mapping[str, int], written: Mapping[str, Path]) -> dict[str, str]:
    """What is wrong with outputs, by contender: each is held against the first, over the records that both have."""
    found = dict(zip(written, read_back(workload.check, list(written.values()), sorted(set(records.values()))), strict=True))
    name, first = next(iter(found.items()))
    wrong = {who: _fault(checked, records[who]) for who, checked in found.items()}
    for who, checked in found.items():
        if not wrong[who] and not wrong[name] and not _same(first, checked, str(min(records[who], records[name]))):
            wrong[who] = f"it wrote other records than {name}"
    return {who: fault for who, fault in wrong.items() if fault}


def _fault(found: Checked, records: int) -> str:
    if found.error:
        return f"what it wrote can't be read: {found.error}"
    return "" if found.records == records else f"it wrote {found.records:,} of {records:,} records"


def _same(one: Checked, other: Checked, records: str) -> bool:
    if one.values:
        return float(np.abs(np.subtract(one.values, other.values)).mean()) < _CLOSE
    return one.digests[records] == other.digests[records]
