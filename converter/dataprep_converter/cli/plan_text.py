"""The figures of a plan as text: what a job would read and write (`dataprep plan --dry-run`)."""

from collections.abc import Iterator, Sequence

from dataprep_api.dataset.messages import PlanResult
from dataprep_api.redaction import one_line
from dataprep_api.resources.status import LabelStatus, SplitStatus

_MOST_CLASSES = 10
_NUMBERS = ("records", "expected", "shards")


def lines(plan: PlanResult) -> Iterator[str]:
    """Yields the lines of the text, each at most 80 characters long unless a name or a warning is longer."""
    state = "reuses the finished data set" if plan.reused else "nothing is written by a dry run"
    yield f"run {plan.run_id}: {state}"
    yield f"reads   {_count(plan.records, 'record')}, {plan.bytes_in:,} bytes"
    yield f"writes  {_count(plan.shards, 'shard')} in {_count(plan.tasks, 'task')}"
    if plan.ignored:
        yield f"ignores {_count(plan.ignored, 'file')} (hidden, of another kind, or of data sets)"
    if plan.splits:
        yield ""
        yield from _table(plan.splits)
    for label in plan.labels:
        yield from ("", _label(label))
    for warning in plan.warnings:
        yield one_line(f"warning: {warning}")


def _table(splits: Sequence[SplitStatus]) -> Iterator[str]:
    rows = [("split", *_NUMBERS)]
    rows += [(split.name, f"{split.records:,}", _expected(split), f"{split.shards:,}") for split in splits]
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
