"""The tests that the data set reader must pass for every format."""

from pathlib import Path

from tests.builders.data_sets import data_set, dataset_source, lines
from tests.converter.readers.reader_contract import ReaderContract

from dataprep_api.spec import Source
from dataprep_converter.readers.dataset import DatasetReader


class DatasetReaderContract(ReaderContract):
    reader = DatasetReader

    def a_source(self, folder: Path) -> Source:
        return dataset_source(data_set(folder, lines(40)))

    def an_empty_source(self, folder: Path) -> Source:
        return dataset_source(data_set(folder, []))

    def a_missing_source(self, folder: Path) -> tuple[Source, str]:
        return dataset_source(folder / "absent"), str(folder / "absent")

    def change(self, folder: Path) -> Path:
        file = folder / "set" / "train-00001-of-00003.tfrecords"
        file.write_bytes(file.read_bytes() + b"\0")
        return file
