"""`_dataprep/loaders/LoadHadoop.java` and `LoadDl4j.java` compile and count the records of their data set."""

from pathlib import Path

import pytest
from tests.availability import unavailable
from tests.interop import loader_sets

import javareaders
from storeservers.cache import BuildFailed

pytestmark = pytest.mark.interop

COUNTED = "train: 5 of 5 records\nvalidation: 2 of 2 records\n"


def said(pom: str, program: str, out: Path) -> str:
    try:
        jars = javareaders.classpath(pom)
        return javareaders.run([out / "_dataprep/loaders" / f"{program}.java"], program, jars, [str(out)])
    except BuildFailed as exc:
        unavailable(f"The Java readers aren't available: {exc}")


@pytest.mark.parametrize("format_", ["sequenceFile", "mapFile"])
def test_hadoops_program_counts(tmp_path: Path, format_: str) -> None:
    assert said("datavec", "LoadHadoop", loader_sets.numbers(tmp_path, format=format_)) == COUNTED


@pytest.mark.parametrize("holds", ["DataSet", "MultiDataSet"])
def test_dl4js_program_counts_the_records_of_minibatches(tmp_path: Path, holds: str) -> None:
    output = {"format": "dl4jDataset", "dl4jDataset": {"holds": holds}, "granularity": "Minibatch", "minibatchSize": 2}
    out = loader_sets.vectors(tmp_path, **output)
    assert said("dl4j", "LoadDl4j", out) == COUNTED


def test_dl4js_program_counts_the_files_of_batches(tmp_path: Path) -> None:
    out = loader_sets.files(tmp_path)
    assert said("dl4j", "LoadDl4j", out) == "train: 39 of 39 records\n"
