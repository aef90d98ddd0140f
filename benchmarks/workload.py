"""Defines the class Workload, and the runs of our code that several workloads share. INPUT and OUTPUT in a spec are replaced by the
folders."""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Final, Literal

from benchmarks.contenders import Command, Contender, ours

Unit = Literal["s", "records/s", "MB/s"]
PREPARED: Final = "the prepare step"
ONE_FILE: Final[Mapping[str, Any]] = {"uri": "OUTPUT", "shards": {"count": 1}}
IDX: Final[Mapping[str, Any]] = {"idx": {"subsets": [{"name": "all", "images": "INPUT/images.idx", "labels": "INPUT/labels.idx"}]}}
IMAGES: Final[Mapping[str, Any]] = {"images": {"uris": ["INPUT"]}}
PARQUET: Final[Mapping[str, Any]] = {"parquet": {"uris": ["INPUT/table.parquet"]}}


@dataclass(frozen=True)
class Against:
    """An output that is compared with the complete input.

    It isn't enough to compare the outputs with the outputs of peers, because slow peers get only a share of the input. Only third-party
    libraries read the input and the output.
    """

    output: str
    """The kind of the output, which selects a function of `peers/reading_back.py`."""
    input: str
    """The kind of the input, which also selects a function of `peers/reading_back.py`."""
    who: str = "ours"
    """The contender that wrote the output, or PREPARED."""


@dataclass(frozen=True)
class Workload:
    """One table of the report."""

    name: str
    title: str
    make: str
    """The name of the function in `inputs` that makes the data."""
    records: int
    quick: int
    """The number of records in quick mode."""
    contenders: Sequence[Contender]
    goals: Mapping[str, float] = field(default_factory=dict)
    """Maps a contender's name to the lowest speed that our run should reach, as a multiple of the contender's speed."""
    bounds: Mapping[str, tuple[Unit, float]] = field(default_factory=dict)
    """Maps the name of one of our own contenders to its absolute goal: a maximum number of seconds, or a minimum speed."""
    limit: str = ""
    """The contender that best shows the upper limit. Empty if there is no such contender."""
    gains: Mapping[str, tuple[str, str]] = field(default_factory=dict)
    """Maps each goal that compares two of our runs to two contenders. The ratio of the contenders' speeds is the highest possible gain."""
    check: str = ""
    """The kind by which the outputs are read back and compared with each other. It is empty if there are fewer than two outputs."""
    against: Against | None = None
    """The output that is compared with the input itself."""
    twice: bool = False
    """Whether a run does its work once before its clock starts, so that memory is already allocated. Set for work in memory that takes only
    about a tenth of a second."""
    prepare: Contender | None = None
    """The step that makes the contenders' input from the data, if the input isn't the data itself."""
    server: str = ""
    """The server of `servers` that the contenders upload to."""

    def taking_part(self, peers: Collection[str] | None) -> list[Contender]:
        """Returns our contenders, the limits, and the peers that are named in `peers`. None means all peers."""
        return [each for each in self.contenders if peers is None or not each.peer or each.peer in peers]


def job(
    spec: Mapping[str, Any],
    output: Mapping[str, Any] | None = None,
    *,
    name: str = "ours",
    workers: int = 1,
    is_bounded: bool = True,
    **options: Any,
) -> Contender:
    """Returns a contender that runs one of our jobs from start to end. `is_bounded` is False if the job has no memory limit."""
    told = {"spec": {**spec, "output": {**ONE_FILE, **(output or {})}}, "workers": workers, **options}
    made = ours("job", told, name=name)
    return made if is_bounded else replace(made, most_bytes=None)


def encode(output: Mapping[str, Any] | None = None, **options: Any) -> Contender:
    """Returns a contender that runs only our encoder, on columns in memory."""
    return replace(ours("encode", {"output": output or {}, **options}), most_bytes=None)


def read(table: str, output: Mapping[str, Any], *, name: str = "ours", masks: bool = False) -> Contender:
    """Returns a contender that reads all arrays of a data set with `dataprep_reader`. The data set is made from a table before the clock
    starts. With `masks`, every feature has a mask."""
    spec = {"source": {"parquet": {"uris": [f"INPUT/{table}.parquet"]}}, "output": {**ONE_FILE, **output}}
    return replace(ours("read", {"spec": spec, "masks": masks}, name=name, writes=False), most_bytes=None)


def command(name: str, *words: str) -> Command:
    """Returns a contender that runs one of our commands from start to end or, as the limit, a Python process that does nothing."""
    return Command(
        name, "limit" if name == "an empty Python" else "ours", "", "", options=words, writes=any("OUTPUT" in word for word in words)
    )
