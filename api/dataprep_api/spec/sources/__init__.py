"""`spec.source`, with one module per kind of source."""

from typing import ClassVar

from dataprep_api.spec.model import OneOf
from dataprep_api.spec.sources.annotated_images import AnnotatedImagesSource
from dataprep_api.spec.sources.arrow import ArrowSource
from dataprep_api.spec.sources.avro import AvroSource
from dataprep_api.spec.sources.csv import CsvSource
from dataprep_api.spec.sources.csv_sequences import CsvSequencesSource
from dataprep_api.spec.sources.dataset import DatasetSource
from dataprep_api.spec.sources.fixed_length import FixedLengthSource
from dataprep_api.spec.sources.from_job import FromJobSource
from dataprep_api.spec.sources.idx import IdxSource
from dataprep_api.spec.sources.images import ImagesSource
from dataprep_api.spec.sources.join import JoinSource
from dataprep_api.spec.sources.jsonl import JsonlSource
from dataprep_api.spec.sources.libsvm import LibsvmSource
from dataprep_api.spec.sources.masks import MasksSource
from dataprep_api.spec.sources.mds import MdsSource
from dataprep_api.spec.sources.numpy import NumpySource
from dataprep_api.spec.sources.orc import OrcSource
from dataprep_api.spec.sources.parquet import ParquetSource
from dataprep_api.spec.sources.plugin import PluginSource
from dataprep_api.spec.sources.sequence_file import SequenceFileSource
from dataprep_api.spec.sources.sql import SqlSource
from dataprep_api.spec.sources.table import TableSource
from dataprep_api.spec.sources.text import TextSource
from dataprep_api.spec.sources.tfrecord import TfrecordSource
from dataprep_api.spec.sources.webdataset import WebdatasetSource
from dataprep_api.spec.sources.whole_file import WholeFileSource


class Source(OneOf):
    """The raw data: set exactly one member."""

    what: ClassVar[str] = "source"

    idx: IdxSource | None = None
    images: ImagesSource | None = None
    annotated_images: AnnotatedImagesSource | None = None
    masks: MasksSource | None = None
    csv: CsvSource | None = None
    csv_sequences: CsvSequencesSource | None = None
    jsonl: JsonlSource | None = None
    text: TextSource | None = None
    parquet: ParquetSource | None = None
    arrow: ArrowSource | None = None
    avro: AvroSource | None = None
    orc: OrcSource | None = None
    fixed_length: FixedLengthSource | None = None
    whole_file: WholeFileSource | None = None
    tfrecord: TfrecordSource | None = None
    sequence_file: SequenceFileSource | None = None
    webdataset: WebdatasetSource | None = None
    mds: MdsSource | None = None
    dataset: DatasetSource | None = None
    from_job: FromJobSource | None = None
    numpy: NumpySource | None = None
    libsvm: LibsvmSource | None = None
    join: JoinSource | None = None
    sql: SqlSource | None = None
    table: TableSource | None = None
    plugin: PluginSource | None = None

    def inputs(self) -> list[str]:
        """Return every URI that the source names."""
        uris: list[str] = getattr(self, self.kind).inputs()
        return uris
