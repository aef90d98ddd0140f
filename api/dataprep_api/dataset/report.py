"""The report about each shard, and the manifest of the finished data set."""

import hashlib
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, ClassVar, Literal, Self, TypeVar

from pydantic import field_serializer, model_validator

from dataprep_api import canonical
from dataprep_api.dataset.messages import BadRecord
from dataprep_api.dataset.stored import StoredDocument
from dataprep_api.spec import Model

MAX_BAD_EXAMPLES = 20

Element = TypeVar("Element")


class Companion(Model):
    """A small visible file that belongs to a shard, such as the index of a MapFile."""

    file: str
    """The path relative to the output."""
    size: int
    sha256: str


class MetadataFile(Model):
    """A file beside the data set, such as statistics, an index or a loader. It contains no records."""

    file: str
    """The path relative to the output. A part of the path begins with `_`, so the file is hidden."""
    size: int
    sha256: str


class IndexFile(MetadataFile):
    """An index file, which contains the offset of each record of a shard."""

    pin: str
    """The store's identifier for this version of the object."""


class Lossy(Model):
    """A column with values that the data set can't store exactly."""

    feature: str
    column: str
    kind: Literal["Integer", "Decimal", "Time"]
    """The kind of values: whole numbers that floats can't represent exactly, decimals with more digits than a float, or times stored as
    numbers."""
    type: str
    """The type in which the values are stored. For times, however, this field contains the type in the source."""
    records: int
    """The number of records whose value in this column can't be stored exactly."""
    value: str
    """The first value that can't be stored exactly."""
    stored: str
    """The form in which `value` is stored."""


class ShardReport(StoredDocument):
    """The content of `reports/<number>.json`, which is written after the shard has its final name.

    A shard is committed when its report exists.
    """

    FILE: ClassVar[str] = "report"
    SINCE: ClassVar[Mapping[str, int]] = {"lossy": 2}
    SAYS_FIRST_VERSION: ClassVar[bool] = False

    run_id: str
    plan_sha256: str
    number: int
    split: str
    file: str
    """The path relative to the output."""
    records_in: int
    records_out: int
    bad: int = 0
    filtered: int = 0
    added: int = 0
    size: int
    """The size of the file."""
    raw_size: int
    """The size of the records before compression, including their framing."""
    sha256: str
    """The digest of the file."""
    raw_sha256: str
    """The digest of the uncompressed records. This digest doesn't depend on the version of zlib."""
    pin: str
    """The store's identifier for this version of the object: its etag, or its size and time."""
    companions: list[Companion] = []
    index: IndexFile | None = None
    statistics: str = ""
    """Statistics of the features, and the labels' classes. The commit step reads this field.

    The field's content is JSON that is compressed with zlib and then encoded in base 85.
    """
    bad_examples: list[BadRecord] = []
    lossy: list[Lossy] = []
    quarantine: str | None = None
    """The path of the file of bad records, relative to the output. The path is set only if there are bad records and the job keeps them."""
    quarantine_sha256: str | None = None
    bytes_in: int = 0
    # The following fields describe the attempt and not the result, so they are never copied into the manifest.
    bad_reasons: dict[str, int] = {}
    """The number of bad records for each reason in `stages.REFUSALS`."""
    attempt: str = ""
    """The pod or process that wrote the shard."""
    seconds: dict[str, float] = {}
    """Seconds by stage: read, transform, encode, statistics, sink. `readWait` is the time that encoding waited for input."""
    took_seconds: float = 0.0
    """The seconds between the first and the last byte of the shard."""
    finished_at: str = ""
    checksum: str = ""
    """The SHA-256 of all other fields. If this checksum doesn't match the fields, the report is damaged."""

    def to_bytes(self) -> bytes:
        """Serialise the report with its checksum."""
        return canonical.dumps(self._content() | {"checksum": self._checksum()}) + b"\n"

    def is_intact(self) -> bool:
        """Whether the report is unchanged since it was written, according to its checksum."""
        return self.checksum == self._checksum()

    def _content(self) -> dict[str, Any]:
        return {name: value for name, value in self.document().items() if name != "checksum"}

    def _checksum(self) -> str:
        return canonical.sha256(self._content())


class ManifestFile(Model):
    """One shard in the manifest."""

    file: str
    split: str
    records: int
    size: int
    sha256: str
    raw_sha256: str
    companions: list[Companion] = []

    @classmethod
    def of(cls, report: ShardReport) -> Self:
        """Return the manifest's entry for the shard with this report."""
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
    """Return the SHA-256 of the text that has a line `<sha256>  <file>\\n` for each pair (sha256, file).

    The result equals the digest of the text that `sha256sum` prints for these files.
    """
    digest = hashlib.sha256()
    for sha256, file in files:
        digest.update(f"{sha256}  {file}\n".encode())
    return digest.hexdigest()


class ManifestSplit(Model):
    """One split in the manifest."""

    name: str
    records: int
    size: int
    shards: int
    label_counts: dict[str, dict[str, int]] = {}
    """For each label feature, the number of records of each class."""


class ManifestTable(Model):
    """A table beside the manifest with a row for each shard, for manifests with very many shards."""

    file: str
    """The path relative to the output."""
    rows: int
    sha256: str


class TableRows(Sequence[Element]):
    """A sequence of a manifest's elements.

    The elements from the manifest's table come first, followed by the elements from `manifest.json`.
    """

    listed: Sequence[Element]


class Manifest(StoredDocument):
    """The content of `manifest.json`. The manifest contains no times or hosts, so identical runs give identical manifests."""

    FILE: ClassVar[str] = "manifest"
    SINCE: ClassVar[Mapping[str, int]] = {"parts": 2, "lossy": 3, "nested": 4, "types": 5, "file_table": 6}

    run_id: str
    encoding_version: int
    parts: dict[str, int] = {}
    """The versions of the rules that affect the bytes, as in the plan. Rules with version 1 are omitted."""
    inputs_sha256: str
    content: dict[str, Any]
    """The fields of the spec that affect the bytes (see `run_id.content`)."""
    format: str
    compression: str
    features: list[dict[str, Any]]
    """The name, kind (int64, float, bytes), dtype and shape of each feature, in the order in which records contain the features."""
    nested: dict[str, Any] = {}
    """Maps each feature with nested values to a description of its type. Formats that can't hold nested values store them as JSON."""
    types: dict[str, Any] = {}
    """Maps each feature that is stored as times or decimals to its type.

    For these features, `features` contains the type of the corresponding numbers.
    """
    labels: dict[str, list[str]] = {}
    """For each label feature, the class names in the order of their numbers."""
    records_in: int
    records_out: int
    bad: int
    filtered: int
    added: int = 0
    size: int
    splits: list[ManifestSplit]
    files: Sequence[ManifestFile]
    """The shards. If `fileTable` is set, `manifest.json` doesn't contain this field, because the table lists the shards."""
    file_table: ManifestTable | None = None
    """The table of the shards, their record indexes, and their files of bad records."""
    digest: str
    """The SHA-256 of the lines `<sha256>  <file>\\n` of all files, in order. `sha256sum` prints such lines."""
    raw_digest: str
    """A digest like `digest`, computed from the digests of the uncompressed records."""
    bad_examples: list[BadRecord] = []
    lossy: list[Lossy] = []
    """Columns with values that couldn't be stored exactly."""
    quarantine: Sequence[str] = []
    """Files of bad records, relative to the output."""
    metadata: Sequence[MetadataFile] = []
    """Files for the data set's readers."""
    tools: dict[str, str] = {}
    """The versions of dataprep, zlib, pyarrow and numpy, which may affect compressed bytes."""

    @model_validator(mode="before")
    @classmethod
    def _without_files(cls, content: Any) -> Any:
        """Accept a manifest without the field `files` if a table lists the files."""
        has_table = isinstance(content, dict) and content.get("fileTable") is not None
        return content | {"files": []} if has_table else content

    @field_serializer("files", "quarantine", "metadata")
    def _listed(self, elements: Sequence[Any]) -> list[Any]:
        """Return the elements that `manifest.json` contains."""
        if self.file_table is not None and isinstance(elements, TableRows):
            return list(elements.listed)
        return list(elements)

    def document(self) -> dict[str, Any]:
        """Return the content of the file, as JSON values. If a table lists the files, the field `files` is left out."""
        document = super().document()
        if self.file_table is not None:
            del document["files"]
        return document

    def to_bytes(self) -> bytes:
        """Serialise the file as canonical JSON."""
        return super().to_bytes() + b"\n"


class Success(Model):
    """The content of `_SUCCESS`, which is written last."""

    run_id: str
    manifest: str
    """The path of the manifest relative to the output."""
    sha256: str
    """The digest of the manifest."""

    def to_bytes(self) -> bytes:
        """Serialise the file as canonical JSON."""
        return canonical.dumps(self.model_dump(by_alias=True)) + b"\n"
