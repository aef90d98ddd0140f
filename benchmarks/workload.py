"""What a workload is, and the runs of ours that several of them have. A spec's INPUT and OUTPUT stand for the folders."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Final, Literal

from benchmarks.contenders import Command, Contender, ours

Unit = Literal["s", "records/s", "MB/s"]
PREPARED: Final = "the data set that it is given"
ONE_FILE: Final[Mapping[str, Any]] = {"uri": "OUTPUT", "shards": {"count": 1}}
IDX: Final[Mapping[str, Any]] = {"idx": {"subsets": [{"name": "all", "images": "INPUT/images.idx", "labels": "INPUT/labels.idx"}]}}
IMAGES: Final[Mapping[str, Any]] = {"images": {"uris": ["INPUT"]}}
PARQUET: Final[Mapping[str, Any]] = {"parquet": {"uris": ["INPUT/table.parquet"]}}


@dataclass(frozen=True)
class Against:
    """An output that must be what the input says, read by libraries alone: where no peer writes all of it."""

    output: str
    """How it is read, see `peers/reading_back.py`."""
    input: str
    """How the input is read."""
    who: str = "ours"
    """Whose output, or PREPARED."""


@dataclass(frozen=True)
class Workload:
    """One table of the report."""

    name: str
    title: str
    make: str
    """Which of `inputs` makes the data."""
    records: int
    quick: int
    """Records in quick mode."""
    contenders: Sequence[Contender]
    goals: Mapping[str, float] = field(default_factory=dict)
    """The least speed of ours as a multiple of a contender's."""
    bounds: Mapping[str, tuple[Unit, float]] = field(default_factory=dict)
    """What a contender of ours must reach by itself: at most this many seconds, or at least so much a second."""
    limit: str = ""
    """The contender that says best what can be reached; empty where none does."""
    gains: Mapping[str, tuple[str, str]] = field(default_factory=dict)
    """Of goals beside a run of ours: two contenders, the first of which is as much quicker than the second as can be."""
    check: str = ""
    """How the outputs are read back, to be compared with each other; empty where there are no two."""
    against: Against | None = None
    """What is compared with the input itself."""
    twice: bool = False
    """Whether a run does the work once before its clock begins: what comes from memory and is done in a tenth of a second is measured with memory at hand."""
    prepare: Contender | None = None
    """What makes the input of the data, when that is not the data itself."""
    server: str = ""
    """Which of `servers` it goes to."""


def job(
    spec: Mapping[str, Any],
    output: Mapping[str, Any] | None = None,
    *,
    name: str = "ours",
    workers: int = 1,
    is_bounded: bool = True,
    **options: Any,
) -> Contender:
    """A whole job of ours. `is_bounded` is False for one that may take more memory than others."""
    told = {"spec": {**spec, "output": {**ONE_FILE, **(output or {})}}, "workers": workers, **options}
    made = ours("job", told, name=name)
    return made if is_bounded else replace(made, most_bytes=None)


def encode(output: Mapping[str, Any] | None = None, **options: Any) -> Contender:
    """Our encoder alone, from columns in memory."""
    return replace(ours("encode", {"output": output or {}, **options}), most_bytes=None)


def command(name: str, *words: str) -> Command:
    """A whole command of ours, its start included; or an empty Python, which is the limit."""
    return Command(
        name, "limit" if name == "an empty Python" else "ours", "", "", options=words, writes=any("OUTPUT" in word for word in words)
    )
