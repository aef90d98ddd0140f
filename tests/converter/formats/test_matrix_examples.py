"""Sources that `test_matrix.py` doesn't cover, in every format. Each job is the source's example with a different `output.format`."""

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Final

import pytest
from tests.builders import pairs
from tests.builders.shapes import SERVICES, SOURCES
from tests.converter.cli.commandline import EXAMPLES, code_of, settings

from dataprep_api.spec import Source
from dataprep_converter.formats.registry import FORMATS
from dataprep_converter.inputs.access import Access
from dataprep_converter.runtime import plugins
from dataprep_converter.tools.verification import verify
from workbench.example_inputs import INPUTS

EXAMPLE_OF: Final[Mapping[str, str]] = {
    "annotatedImages": "annotated-images-local.yaml",
    "masks": "masks-local.yaml",
    "text": "text-local.yaml",
    "parquet": "parquet-local.yaml",
    "arrow": "arrow-local.yaml",
    "avro": "avro-local.yaml",
    "orc": "orc-local.yaml",
    "fixedLength": "fixed-length-local.yaml",
    "wholeFile": "whole-file-local.yaml",
    "tfrecord": "tfrecord-local.yaml",
    "sequenceFile": "sequence-file-source-local.yaml",
    "webdataset": "webdataset-source-local.yaml",
    "mds": "mds-source-local.yaml",
    "dataset": "dataset-local.yaml",
    "libsvm": "libsvm-local.yaml",
    "join": "join-local.yaml",
    "sql": "sql-local.yaml",
    "plugin": "plugin-local.yaml",
}

REFUSED: Final[Mapping[str, Mapping[str, str]]] = {
    "annotatedImages": {
        "mapFile": "the feature 'image/encoded' holds bytes",
        "csv": "The feature 'image/encoded' has bytes",
        "npz": "The feature 'image/encoded' holds bytes or text",
        "fileBatch": "there is no feature named image/filename or path that holds text",
        "dl4jDataset": "The feature 'image/encoded' holds bytes or text",
    },
    "masks": {
        "mapFile": "the feature 'image/encoded' holds bytes",
        "csv": "The feature 'image/encoded' has bytes",
        "npz": "The feature 'image/encoded' holds bytes or text",
        "fileBatch": "there is no feature named image/filename or path that holds text",
        "dl4jDataset": "The feature 'image/encoded' holds bytes or text",
    },
    "text": {
        "npz": "The feature 'text' holds bytes or text",
        "fileBatch": "the features are text",
        "dl4jDataset": "The feature 'text' holds bytes or text",
    },
    "avro": {
        "mapFile": "the feature 'sepal' has lists of different lengths",
        "csv": "The feature 'sepal' is a list of any length, which csv can't store",
        "npz": "The feature 'sepal' has rows of different lengths",
        "fileBatch": "the features are petal/length, petal/width, sepal, species",
        "dl4jDataset": "The feature 'sepal' has rows of different lengths",
    },
    "orc": {
        "mapFile": "the feature 'sepal' has lists of different lengths",
        "csv": "The feature 'sepal' is a list of any length, which csv can't store",
        "npz": "The feature 'sepal' has rows of different lengths",
        "fileBatch": "the features are petal/length, petal/width, sepal, species",
        "dl4jDataset": "The feature 'sepal' has rows of different lengths",
    },
    "webdataset": {
        "npz": "The feature 'txt' holds bytes or text",
        "fileBatch": "the features are cls, txt",
        "dl4jDataset": "The feature 'txt' holds bytes or text",
    },
    "mds": {
        "npz": "The feature 'word' holds bytes or text",
        "fileBatch": "the features are label, word",
        "dl4jDataset": "The feature 'word' holds bytes or text",
    },
    "parquet": {
        "npz": "The feature 'species' holds bytes or text",
        "fileBatch": "the features are petal, species",
        "dl4jDataset": "The feature 'species' holds bytes or text",
    },
    "arrow": {
        "mapFile": "the feature 'sepal' has lists of different lengths",
        "csv": "The feature 'sepal' is a list of any length",
        "npz": "The feature 'sepal' has rows of different lengths",
        "fileBatch": "the features are petal/length, petal/width, sepal, species",
        "dl4jDataset": "The feature 'sepal' has rows of different lengths",
    },
    "fixedLength": {
        "recordioProtobuf": "The feature 'label': recordioProtobuf can't store int64",
        "fileBatch": "the features are image, label",
    },
    "wholeFile": {
        "mapFile": "the feature 'content' holds bytes",
        "csv": "The feature 'content' has bytes",
        "npz": "The feature 'content' holds bytes or text",
        "dl4jDataset": "The feature 'content' holds bytes or text",
    },
    "tfrecord": {
        "mapFile": "the feature 'record' holds bytes",
        "csv": "The feature 'record' has bytes",
        "npz": "The feature 'record' holds bytes or text",
        "fileBatch": "the features are record",
        "dl4jDataset": "The feature 'record' holds bytes or text",
    },
    "sequenceFile": {
        "npz": "The feature 'key' holds bytes or text",
        "fileBatch": "the features are key, value",
        "dl4jDataset": "The feature 'key' holds bytes or text",
    },
    "dataset": {
        "mapFile": "the feature 'sepal' has lists of different lengths",
        "csv": "The feature 'sepal' is a list of any length",
        "npz": "The feature 'sepal' has rows of different lengths",
        "fileBatch": "the features are petal/length, petal/width, sepal, species",
        "dl4jDataset": "The feature 'sepal' has rows of different lengths",
    },
    "libsvm": {
        "mapFile": "the feature 'keys' has lists of different lengths",
        "csv": "The feature 'keys' is a list of any length",
        "npz": "The feature 'keys' has rows of different lengths",
        "fileBatch": "the features are keys, label, shape, values",
        "dl4jDataset": "The feature 'keys' has rows of different lengths",
    },
    "join": {
        "recordioProtobuf": "The feature 'pulse' is a sequence",
        "csv": "The feature 'pulse' is a sequence",
        "npz": "The feature 'pulse' is a sequence",
        "fileBatch": "the features are age, id, outcome, pulse",
        "dl4jDataset": "The feature 'id' holds bytes or text",
    },
    "sql": {
        "fileBatch": "the features are churned, features",
    },
    "plugin": {
        "mapFile": "the feature 'track' has lists of different lengths",
        "csv": "The feature 'track' is a list of any length",
        "npz": "The feature 'track' has rows of different lengths",
        "fileBatch": "the features are distance, points, start, track, trip",
        "dl4jDataset": "The feature 'trip' holds bytes or text",
    },
}
"""The combinations that are refused, each with text that the error message must contain besides the format.

The tests check that all other combinations can be converted.
"""


def is_quick(kind: str, format_: str) -> bool:
    """Return whether a case is in the quick run: all refusals, and one format for each source.

    This is the first format that accepts the source. The search begins at a different format for each source.
    """
    start = list(EXAMPLE_OF).index(kind)
    formats = [each for each in (*list(FORMATS)[start:], *list(FORMATS)[:start]) if each not in REFUSED.get(kind, {})]
    return format_ in REFUSED.get(kind, {}) or format_ == formats[0]


CASES: Final = pairs.chosen(((kind, format_) for kind in EXAMPLE_OF for format_ in FORMATS), is_quick)


def test_every_source_takes_part() -> None:
    kinds = {field.alias or name for name, field in Source.model_fields.items()}
    assert kinds == {*SOURCES, *EXAMPLE_OF, *SERVICES}


@pytest.fixture(scope="module")
def source(tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], Path]:
    """Make the input of an example. Each input is made only once."""
    known: dict[str, Path] = {}

    def of(kind: str) -> Path:
        if kind not in known:
            known[kind] = INPUTS[EXAMPLE_OF[kind]][0](tmp_path_factory.mktemp(kind))
        return known[kind]

    return of


@pytest.mark.slow
@pytest.mark.parametrize(("kind", "format_"), CASES)
def test_any_source_in_any_format(
    kind: str,
    format_: str,
    source: Callable[[str], Path],
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("os.fsync", lambda _: None)
    monkeypatch.setenv(plugins.CODE_VARIABLE, "")
    wanted = {"params.input": source(kind), "output.uri": tmp_path / "out", "output.format": format_, "splits": "{into: [{name: train}]}"}
    code = code_of("run", EXAMPLES / EXAMPLE_OF[kind], *settings(wanted), "--quiet")
    said = capsys.readouterr().err
    if refusal := REFUSED.get(kind, {}).get(format_):
        assert code == 2
        assert format_ in said
        assert refusal in said
        assert not [path for path in tmp_path.rglob("*") if path.is_file()]
        return
    assert code == 0, said
    assert verify(str(tmp_path / "out"), Access()).records_out == INPUTS[EXAMPLE_OF[kind]][1]
