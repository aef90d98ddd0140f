"""What was made: a report beside each shard, and the manifest of the finished data set."""

import hashlib
from collections.abc import Iterable, Mapping
from typing import Any, ClassVar, Literal, Self

from dataprep_api import canonical
from dataprep_api.dataset.messages import BadRecord
from dataprep_api.dataset.stored import Stored
from dataprep_api.spec import Model

MAX_BAD_EXAMPLES = 20


class Companion(Model):
    """A small visible file that belongs to a shard: the index of a MapFile."""

    file: str
    """Path relative to the output."""
    size: int
    sha256: str


class MetadataFile(Model):
    """A file around the data set: statistics, an index, a loader. No part of the records."""

    file: str
    """Path relative to the output; hidden, so a part of it begins with `_`."""
    size: int
    sha256: str


class IndexFile(MetadataFile):
    """Where each record of a shard lies in it."""

    pin: str
    """The store's own word for this very object."""


class Lossy(Model):
    """Values of a column that the records hold only in part."""

    feature: str
    column: str
    kind: Literal["Integer", "Decimal", "Time"]
    """Whole numbers that are not exact as floats, decimals of more digits than a float has, and times, which are numbers in the records."""
    type: str
    """What they are stored as; of times the type that they had."""
    records: int
    """Records with such a value."""
    value: str
    """The first of them."""
    stored: str
    """What it is instead."""


class ShardReport(Stored):
    """`reports/<number>.json`, written after the shard has its final name. Its presence commits the shard."""

    FILE: ClassVar[str] = "report"
    SINCE: ClassVar[Mapping[str, int]] = {"lossy": 2}
    SAYS_FIRST_VERSION: ClassVar[bool] = False

    run_id: str
    plan_sha256: str
    number: int
    split: str
    file: str
    """Path relative to the output."""
    records_in: int
    records_out: int
    bad: int = 0
    filtered: int = 0
    added: int = 0
    size: int
    """Size of the file."""
    raw_size: int
    """Size of the records before compression, framing included."""
    sha256: str
    """Of the file."""
    raw_sha256: str
    """Of the records before compression: independent of the zlib in use."""
    pin: str
    """The store's own word for this very object: etag, or size and time."""
    companions: list[Companion] = []
    index: IndexFile | None = None
    statistics: str = ""
    """Of the records' features, and the classes of the labels: Base85 of a zlib stream of JSON, for the commit step alone."""
    bad_examples: list[BadRecord] = []
    lossy: list[Lossy] = []
    quarantine: str | None = None
    """Path of the file of bad records relative to the output, when there are any and they are kept."""
    quarantine_sha256: str | None = None
    bytes_in: int = 0
    # What happened, not what was made: never copied into the manifest.
    bad_reasons: dict[str, int] = {}
    """Number of bad records by `stages.REFUSALS`."""
    attempt: str = ""
    """The pod or process that wrote it."""
    seconds: dict[str, float] = {}
    """Time by stage: read, transform, encode, statistics, sink; and `readWait`, for which encoding waited."""
    took_seconds: float = 0.0
    """From the first byte to the last."""
    finished_at: str = ""
    checksum: str = ""
    """SHA-256 of all the rest, because nothing else says whether a report is the one that was written."""

    def to_bytes(self) -> bytes:
        """The file's bytes, with their checksum."""
        return canonical.dumps(self._content() | {"checksum": self._checksum()}) + b"\n"

    def is_intact(self) -> bool:
        """Whether a report that was read is still as it was written."""
        return self.checksum == self._checksum()

    def _content(self) -> dict[str, Any]:
        return {name: value for name, value in self.document().items() if name != "checksum"}

    def _checksum(self) -> str:
        return canonical.sha256(self._content())


class ManifestFile(Model):
    """One shard."""

    file: str
    split: str
    records: int
    size: int
    sha256: str
    raw_sha256: str
    companions: list[Companion] = []

    @classmethod
    def of(cls, report: ShardReport) -> Self:
        """What the manifest says of a shard that has this report."""
        return cls(
            file=report.file,
            split=report.split,
            records=report.records_out,
            size=report.size,
            sha256=report.sha256,
            raw_sha256=report.raw_sha256,
            companions=report.companions,
        )


def digest_of_files(files: Iterable[tuple[str, str]]) -> str:
    """SHA-256 over `<sha256>  <file>\\n` of each (sha256, file): what `sha256sum` of the files would have as its own."""
    digest = hashlib.sha256()
    for sha256, file in files:
        digest.update(f"{sha256}  {file}\n".encode())
    return digest.hexdigest()


class ManifestSplit(Model):
    """One split."""

    name: str
    records: int
    size: int
    shards: int
    label_counts: dict[str, dict[str, int]] = {}
    """How often each class is there, by label feature."""


class Manifest(Stored):
    """`manifest.json`: deterministic, free of times and hosts, so that equal runs have equal manifests."""

    FILE: ClassVar[str] = "manifest"
    SINCE: ClassVar[Mapping[str, int]] = {"parts": 2, "lossy": 3}

    run_id: str
    encoding_version: int
    parts: dict[str, int] = {}
    """As in the plan: versions of the parts that decide the bytes, but for those of version 1."""
    inputs_sha256: str
    content: dict[str, Any]
    """What of the spec decides the bytes (see `run_id.content`)."""
    format: str
    compression: str
    features: list[dict[str, Any]]
    """Name, kind (int64, float, bytes), dtype and shape of each feature of the records, in their order."""
    labels: dict[str, list[str]] = {}
    """Class names in the order of their numbers, by label feature."""
    records_in: int
    records_out: int
    bad: int
    filtered: int
    added: int = 0
    size: int
    splits: list[ManifestSplit]
    files: list[ManifestFile]
    digest: str
    """SHA-256 over `<sha256>  <file>\\n` of every file in order: what `sha256sum` prints."""
    raw_digest: str
    """The same over the digests before compression."""
    bad_examples: list[BadRecord] = []
    lossy: list[Lossy] = []
    """Columns with values that the records hold only in part."""
    quarantine: list[str] = []
    """Files of bad records, relative to the output."""
    metadata: list[MetadataFile] = []
    """Files for the data set's readers."""
    tools: dict[str, str] = {}
    """Versions that may change compressed bytes: dataprep, zlib, pyarrow, numpy."""

    def to_bytes(self) -> bytes:
        """The file's bytes, canonical."""
        return super().to_bytes() + b"\n"


class Success(Model):
    """`_SUCCESS`: written last."""

    run_id: str
    manifest: str
    """Path of the manifest relative to the output."""
    sha256: str
    """Of the manifest."""

    def to_bytes(self) -> bytes:
        """The file's bytes, canonical."""
        return canonical.dumps(self.model_dump(by_alias=True)) + b"\n"
