"""A plan as text: what a job would read and write, and likely mistakes (`dataprep plan --dry-run`)."""

from collections import Counter
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Final

from dataprep_api.dataset.messages import PlanResult
from dataprep_api.redaction import one_line
from dataprep_api.resources.status import LabelStatus, SplitStatus

if TYPE_CHECKING:
    from dataprep_converter.tools.plan_preview import Counts, Preview

_MOST_CLASSES: Final = 10
_MOST_ROWS: Final = 20
_LONGEST_NAME: Final = 32
_WIDTH: Final = 80
_NUMBERS: Final = ("records", "expected", "shards")


def lines(plan: PlanResult, preview: "Preview | None" = None) -> Iterator[str]:
    """Yields the lines of the text, each at most 80 characters long unless a path or a warning is longer."""
    state = "reuses the finished data set" if plan.reused else "nothing is written by a dry run"
    yield f"run {plan.run_id}: {state}"
    files = f"{_count(preview.files, 'file')}, " if preview is not None and preview.files is not None else ""
    yield f"reads   {files}{_count(plan.records, 'record')}, {plan.bytes_in:,} bytes"
    to = one_line(f": {preview.format} at {preview.output}") if preview is not None else ""
    yield f"writes  {_count(plan.shards, 'shard')} in {_count(plan.tasks, 'task')}{to}"
    if plan.shuffle_tasks and not plan.reused:
        task = f"{_count(plan.shuffle_tasks, 'task')} divide{'s' * (plan.shuffle_tasks == 1)}"
        yield f"shuffle {task} the records in a first round, and may store about"
        yield f"        {plan.bytes_in:,} bytes in the output until the data set is finished"
    if plan.ignored:
        yield f"ignores {_count(plan.ignored, 'file')} (hidden, of another kind, or part of a data set)"
    if plan.splits:
        yield ""
        yield from _aligned([("split", *_NUMBERS), *map(_split, plan.splits)])
    counted = preview.classes if preview is not None else {}
    for label in plan.labels:
        if label.feature not in counted:
            yield from ("", _label(label))
    for name, counts in counted.items():
        yield ""
        yield from _classes(name, counts, plan.splits)
    problems = [*plan.warnings, *(preview.mistakes if preview is not None else ())]
    if problems and preview is not None:
        yield ""
    for problem in problems:
        yield one_line(f"warning: {problem}")


def _split(split: SplitStatus) -> tuple[str, ...]:
    return (split.name, f"{split.records:,}", _expected(split), f"{split.shards:,}")


def _classes(label: str, counts: "Counts", splits: Sequence[SplitStatus]) -> Iterator[str]:
    """Yields a table with a row for each class and a column for each split. Splits that don't fit on the line follow in further tables."""
    totals = sum(counts.values(), Counter[str]())
    records = sum(split.records for split in splits if split.name in counts)
    some = "" if totals.total() == records else f", in {totals.total():,} of {_count(records, 'record')}"
    yield one_line(f"{label}: {'1 class' if len(totals) == 1 else f'{len(totals):,} classes'}{some}")
    if not totals:
        return
    shown = [name for name, _ in totals.most_common(_MOST_ROWS)]
    numbers = {split: [f"{counts[split][name]:,}" for name in shown] for split in counts}
    if len(counts) > 1:
        numbers["all"] = [f"{totals[name]:,}" for name in shown]
    first = ["class", *map(_short, shown)]
    room = _WIDTH - max(map(len, first))
    for part in _folded({_short(split): column for split, column in numbers.items()}, room):
        yield from _aligned(list(zip(first, *([name, *part[name]] for name in part), strict=True)))
    if len(totals) > len(shown):
        yield f"… and {len(totals) - len(shown):,} more"


def _folded(columns: dict[str, list[str]], room: int) -> Iterator[dict[str, list[str]]]:
    """Divides columns into groups that are at most `room` characters wide, with two spaces before each column."""
    group: dict[str, list[str]] = {}
    used = 0
    for name, column in columns.items():
        width = 2 + max(map(len, [name, *column]))
        if group and used + width > room:
            yield group
            group, used = {}, 0
        group[name] = column
        used += width
    yield group


def _short(name: str) -> str:
    text = one_line(name)
    return text if len(text) <= _LONGEST_NAME else text[: _LONGEST_NAME - 1] + "…"


def _aligned(rows: Sequence[Sequence[str]]) -> Iterator[str]:
    """Yields the rows as lines, with the first column left-aligned and the others right-aligned."""
    widths = [max(len(row[column]) for row in rows) for column in range(len(rows[0]))]
    for name, *numbers in rows:
        yield "  ".join([f"{name:<{widths[0]}}", *(f"{number:>{width}}" for number, width in zip(numbers, widths[1:], strict=True))])


def _expected(split: SplitStatus) -> str:
    return "-" if split.expected is None else f"{split.expected:,} ± {split.tolerance or 0:,}"


def _label(label: LabelStatus) -> str:
    names = ", ".join(label.classes[:_MOST_CLASSES]) + ", …" * (label.num_classes > min(_MOST_CLASSES, len(label.classes)))
    classes = "1 class" if label.num_classes == 1 else f"{label.num_classes:,} classes"
    return one_line(f"{label.feature}: {classes} ({names})")


def _count(number: int, what: str) -> str:
    return f"{number:,} {what}{'s' * (number != 1)}"
