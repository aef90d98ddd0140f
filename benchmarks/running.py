"""Runs a workload: makes its data, runs its contenders in turns, reads their outputs back and compares them."""

import os
import shutil
import sys
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

import numpy as np
from benchmarks import inputs, measuring, servers
from benchmarks.contenders import READ_BY, Asked, Checked, Contender, read_back
from benchmarks.measuring import RunFailed, Runs, Took
from benchmarks.workload import PREPARED, Workload

_CLOSE: Final = 0.15
"""The limit for the average difference between the values of two decoders for the same image. Between different images, the values differ
by 1 or more."""
_ALIKE: Final = {
    "shuffled": "contain the same records, in different orders",
    "decoded": "agree: values in all parts of each picture differ by less than a seventh of their standard deviation (decoders differ)",
    "resized": "agree: pictures have the same sizes, and the means of their 64 parts differ by less than 10 levels of 255 (resampling differs)",
}
"""The text on the page about outputs that agree although their bytes differ."""
_SCATTERED: Final = 0.25
"""If the spread of a contender's runs is larger than this, the contender runs the same number of times again."""
_AT_HAND: Final = 1 << 30
"""Before its clock starts, a contender touches at most this many bytes of memory (`peers/clocked.py`). Only the outputs of decoded
images are larger."""


@dataclass(frozen=True)
class Conditions:
    """The settings that all workloads of a run share."""

    rounds: int
    seed: int
    peers: set[str] | None
    """The peers that take part, or None for all."""
    data: Path
    """The folder in which data is kept for the next workload."""
    began: float
    """When the run began, by the monotonic clock."""

    def tell(self, text: str) -> None:
        """Prints the progress, with the time since the run began."""
        minutes, seconds = divmod(round(time.monotonic() - self.began), 60)
        print(f"{minutes:3}:{seconds:02}  {text}", file=sys.stderr, flush=True)


@dataclass
class _State:
    """The state of a workload while it runs."""

    workload: Workload
    folder: Path
    given: Path
    """The generated data."""
    source: Path
    """The contenders' input: the data, or the output that was prepared from it."""
    records: int
    runs: dict[str, Runs]
    faults: dict[str, str] = field(default_factory=dict)
    """The faults found so far, by contender."""
    compared: int = 0
    """The number of outputs that were read back to be compared with each other."""
    indexes: int = 0
    """The number of indexes whose record offsets were correct."""


def run(workload: Workload, folder: Path, *, records: int, conditions: Conditions) -> dict[str, Any]:
    """Returns the results of a workload, in the form of the JSON file. Failures are in `faults`."""
    conditions.tell(f"{workload.name}: {records:,} records")
    given = source = inputs.kept(conditions.data, workload.make, records, conditions.seed)
    if workload.prepare is not None:
        source = folder / "prepared"
        workload.prepare.run(given, source, records)
    # Wait for the disk, because otherwise it would still be writing this data during the first runs.
    os.sync()
    os.environ["BENCH_BYTES_AT_HAND"] = str(min(_AT_HAND, 4 * measuring.size_of(source)))
    os.environ.pop("BENCH_TWICE", None)
    if workload.twice:
        os.environ["BENCH_TWICE"] = "1"
    here = workload.taking_part(conditions.peers)
    state = _State(workload, folder, given, source, records, {each.name: Runs() for each in here})
    with servers.started(workload.server, folder):
        for turn in range(conditions.rounds):
            conditions.tell(f"{workload.name}: round {turn + 1} of {conditions.rounds}")
            _turn(state, here, turn)
            if turn == 0:
                conditions.tell(f"{workload.name}: outputs read back")
                _read_back(state, here)
        if again := _scattered(state, here):
            conditions.tell(f"{workload.name}: {conditions.rounds} more rounds of {', '.join(each.name for each in again)}")
            for turn in range(conditions.rounds):
                _turn(state, again, conditions.rounds + turn)
    return {
        "title": workload.title,
        "records": records,
        "bytes_in": measuring.size_of(source),
        "rounds": conditions.rounds,
        "checked": _checked(state),
        "twice": workload.twice,
        "goals": dict(workload.goals),
        "limit": workload.limit,
        "gains": {who: list(pair) for who, pair in workload.gains.items()},
        "bounds": {name: list(bound) for name, bound in workload.bounds.items()},
        "contenders": {each.name: _told(each, state.runs[each.name]) for each in here if each.name not in state.faults},
        "faults": [f"{name}: {fault}" for name, fault in state.faults.items()],
    }


def _turn(state: _State, contenders: Sequence[Contender], turn: int) -> None:
    """Runs each contender that hasn't failed. The outputs of the first turn are kept, in folders with the contenders' numbers in their
    names."""
    left = [(number, each) for number, each in enumerate(contenders) if each.name not in state.faults]
    # The first contender of a turn starts with cold caches, so each turn starts with a different contender.
    first = turn % max(1, len(left))
    for number, contender in left[first:] + left[:first]:
        output = _output(state, number)
        output.mkdir()
        try:
            state.runs[contender.name].runs.append(contender.run(state.source, output, state.records))
        except RunFailed as exc:
            state.faults[contender.name] = str(exc)
        if turn > 0 or not contender.writes:
            shutil.rmtree(output)


def _output(state: _State, number: int) -> Path:
    return state.folder / f"output-{number}"


def _read_back(state: _State, here: Sequence[Contender]) -> None:
    """Reads the outputs of the first turn back, compares them and removes them. A difference is recorded as a fault of the contender."""
    workload, against = state.workload, state.workload.against
    written = _written(state, here)
    compared = list(written) if workload.check else []
    records = {each.name: each.records(state.records) for each in here}
    shared = {who: min(records[who], records[compared[0]]) for who in compared}
    asked = [Asked(workload.check, written[who], sorted(set(shared.values()))) for who in compared]
    places = {**written, PREPARED: state.source}
    if against is not None and against.who in places:
        asked += [Asked(against.output, places[against.who], [state.records]), Asked(against.input, state.given, [state.records])]
    # One process reads all outputs, because importing TensorFlow takes seconds.
    found = read_back(asked)
    _compare(state, dict(zip(compared, found, strict=False)), records, shared)
    if against is not None and len(found) > len(compared):
        _compare_with_input(state, against.who, *found[len(compared) :])
    for number in range(len(here)):
        shutil.rmtree(_output(state, number), ignore_errors=True)


def _written(state: _State, here: Sequence[Contender]) -> dict[str, Path]:
    """Returns the output of each contender that hasn't failed. Outputs that weren't kept are made again (`shown_by`)."""
    written = {}
    for number, contender in enumerate(here):
        output = _output(state, number)
        if contender.shown_by is not None and contender.name not in state.faults:
            output.mkdir()
            try:
                contender.shown_by.run(state.source, output, state.records)
            except RunFailed as exc:
                state.faults[contender.name] = str(exc)
        if output.exists() and contender.name not in state.faults:
            written[contender.name] = output
    return written


def _compare(state: _State, found: Mapping[str, Checked], records: Mapping[str, int], shared: Mapping[str, int]) -> None:
    """Compares each output with the first output, considering only the records that both have."""
    wrong = {who: _fault(checked, records[who]) for who, checked in found.items()}
    state.compared = len(found)
    state.indexes = sum(checked.indexes for checked in found.values())
    for who, checked in list(found.items())[1:]:
        name, first = next(iter(found.items()))
        if wrong[who] or wrong[name]:
            continue
        if not _same(first, checked, str(shared[who])):
            wrong[who] = f"it wrote other records than {name}"
        elif checked.order and checked.order == first.order:
            wrong[who] = f"its records have the same order as those of {name}, but the order should differ"
    state.faults |= {who: fault for who, fault in wrong.items() if fault}


def _compare_with_input(state: _State, who: str, found: Checked, expected: Checked) -> None:
    """Compares one output with the input."""
    fault = _fault(found, state.records) or _fault(expected, state.records)
    if not fault and not _same(found, expected, str(state.records)):
        fault = "its records differ from the input's"
    if fault:
        state.faults.setdefault(who, fault)


def _fault(found: Checked, records: int) -> str:
    if found.error:
        return f"its output can't be read: {found.error}"
    return "" if found.records == records else f"it wrote {found.records:,} of {records:,} records"


def _same(one: Checked, other: Checked, records: str) -> bool:
    if one.values:
        return all(
            len(values) == len(others) and float(np.abs(np.subtract(values, others)).mean()) < _CLOSE
            for values, others in zip(one.values, other.values, strict=True)
        )
    return one.digests[records] == other.digests[records]


def _checked(state: _State) -> str:
    """Returns the result of the comparisons as text, assuming that no fault was found. The text is empty if no output is written."""
    workload, against = state.workload, state.workload.against
    told = []
    if workload.check:
        # Without peers there might be only one output.
        alike = _ALIKE.get(workload.check, "are equal") if state.compared > 1 else "have the expected number of records"
        told.append(f"the outputs, read back by {READ_BY[workload.check]}, {alike}")
    if state.indexes:
        told.append(f"{state.indexes} indexes have the record offsets that TensorFlow found")
    if against is not None:
        told.append(f"the output of *{against.who}* contains exactly the input's records, as read back by {READ_BY[against.output]}")
    return "; ".join(told)


def _scattered(state: _State, here: Sequence[Contender]) -> list[Contender]:
    """Returns the contenders whose runs vary too much for a reliable median, and the first contender, with which they are compared."""
    runs = {name: found for name, found in state.runs.items() if name not in state.faults}
    scattered = {name for name, found in runs.items() if found.spread > _SCATTERED}
    return [each for each in here if each.name in scattered or each is here[0]] if scattered else []


def _told(contender: Contender, runs: Runs) -> dict[str, Any]:
    first: Took = runs.runs[0]
    cpu = [run.cpu_seconds for run in runs.runs if run.cpu_seconds is not None]
    return {
        "role": contender.role,
        "records": first.records,
        "runs": len(runs.runs),
        "per_second": runs.per_second,
        "spread": runs.spread,
        "cpu_seconds": sorted(cpu)[len(cpu) // 2] if cpu else None,
        "seconds": sorted(run.seconds for run in runs.runs)[len(runs.runs) // 2],
        "written": first.written,
        "peak_bytes": max(run.peak_bytes for run in runs.runs),
        "most_bytes": contender.most_bytes,
    }
