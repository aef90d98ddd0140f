"""The arguments of the data source and of the data sink."""

from pathlib import Path
from typing import Any

import pytest

from dataprep_converter.core.errors import BadSpec
from dataprep_ray.options import min_rows, read_options, write_options


def written(**options: Any) -> Any:
    """Return the parsed options of a write."""
    given: dict[str, Any] = {
        "uri": "/out",
        "format": "tfrecord",
        "mode": "append",
        "split": None,
        "split_column": None,
        "nested": None,
        "job": None,
    }
    own = {name: options.pop(name, value) for name, value in given.items()}
    return write_options(own.pop("uri"), **own, output=options)


def read(**options: Any) -> Any:
    """Return the parsed options of a read."""
    given: dict[str, Any] = {"columns": None, "split": None, "split_column": None, "job": None, **options}
    return read_options(given.pop("uri", "/set"), **given)


def test_an_option_is_the_field_of_the_output_with_this_name() -> None:
    output = written(format="parquet", parquet={"rowGroupSize": "1Mi"}, shards={"records": 50}, statistics="All", version="v2").spec.output
    assert (output.format, output.parquet.row_group_size, output.shards.records, output.statistics) == ("parquet", "1Mi", 50, "All")
    assert output.uri == "/out/v2"


@pytest.mark.parametrize(
    ("mode", "known", "rule"),
    [
        ("errorifexists", "errorifexists", "Never"),
        ("error", "errorifexists", "Never"),
        ("overwrite", "overwrite", "Always"),
        ("append", "append", "Extend"),
        ("ignore", "ignore", "Never"),
    ],
)
def test_a_save_mode_decides_what_happens_to_an_existing_data_set(mode: str, known: str, rule: str) -> None:
    parsed = written(mode=mode)
    assert (parsed.mode, parsed.spec.output.overwrite) == (known, rule)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"fromat": "parquet"}, "There is no option 'fromat'. Did you mean 'format'? The options are format, job, min_rows_per_file, "),
        ({"format": "tfrecrod"}, "There is no format 'tfrecrod'. Did you mean 'tfrecord'?"),
        ({"tfrecord": {"compresion": "Gzip"}}, "tfrecord.compresion"),
        ({"shards": {"records": "many"}}, "shards.records"),
        (
            {"shards": {"count": 3}},
            "The option shards can't have count: each write task makes a file: use ds.repartition(), min_rows_per_file",
        ),
        ({"shards": {"targetSize": "1Mi"}}, "The option shards can't have targetSize: each write task makes a file"),
        ({"granularity": "PerFile"}, "The option granularity isn't supported: set shards={'records': …}"),
        ({"overwrite": "Always"}, "The option overwrite isn't supported: use mode."),
        (
            {"fileName": "{split}.{ext}"},
            "fileName must contain {shard} but not {shards}, because the number of files changes when rows are appended to a data set that Ray",
        ),
        ({"mode": "replace"}, "The option mode must be errorifexists, overwrite, append or ignore; got 'replace'."),
        ({"split": "test", "split_column": "part"}, "The options split and split_column contradict each other"),
        ({"split": "a b"}, "'a b' can't be the name of a split"),
        ({"split_column": " "}, "The option split_column must be the name of a column; got ' '."),
        ({"nested": "a"}, "The option nested must be a list of names, such as ['a', 'b']; got 'a'."),
        ({"uri": ""}, "The URI of the data set must be a string or a path; got ''."),
        ({"uri": "s3:/bucket"}, "s3:/bucket isn't a URI: s3: must be followed by two slashes."),
    ],
)
def test_wrong_options_of_a_write_are_named(options: dict[str, Any], message: str) -> None:
    with pytest.raises(BadSpec) as caught:
        written(**options)
    assert message in str(caught.value)
    assert "spec." not in str(caught.value)


@pytest.mark.parametrize("rows", [0, -1, 1.5, "5", True])
def test_the_minimum_of_rows_is_a_whole_number(rows: Any) -> None:
    with pytest.raises(BadSpec, match="The option min_rows_per_file must be a whole number of at least 1; got "):
        min_rows(rows)


def test_the_folder_may_be_a_path() -> None:
    assert (written(uri=Path("/out")).spec.output.uri, read(uri=Path("/set")).uri) == ("/out", "/set")


def test_a_split_may_be_a_name_or_several() -> None:
    assert (read(split="train").splits, read(split=["a", "b"]).splits, read().splits) == (("train",), ("a", "b"), None)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"columns": "image"}, "The option columns must be a list of names, such as ['a', 'b']; got 'image'."),
        ({"columns": []}, "The option columns must be a list of names"),
        ({"columns": ["a", "a"]}, "The option columns contains 'a' twice."),
        ({"split": ["a", 1]}, "The option split must be a list of names"),
        ({"split_column": ""}, "The option split_column must be the name of a column; got ''."),
        ({"uri": None}, "The URI of the data set must be a string or a path; got None."),
    ],
)
def test_wrong_options_of_a_read_are_named(options: dict[str, Any], message: str) -> None:
    with pytest.raises(BadSpec) as caught:
        read(**options)
    assert message in str(caught.value)
