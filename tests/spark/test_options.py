"""The options of `spark.read` and `df.write`.

Their names are those of the fields of `spec.output`, in upper or lower case, and their values are strings.
"""

from pathlib import Path
from typing import Any

import pytest

from dataprep_converter.core.errors import BadSpec
from dataprep_spark.options import read_options, write_options


def written(**options: str) -> Any:
    """Return the parsed options, in which a dot in a name is written as two underscores."""
    return write_options({"path": "/out", **{name.replace("__", "."): text for name, text in options.items()}}, overwrite=False)


def test_an_option_is_the_field_of_the_output_with_this_name() -> None:
    output = written(FORMAT="parquet", parquet__rowGroupSize="1Mi", SHARDS__records="50", statistics="All").spec.output
    assert (output.format, output.parquet.row_group_size, output.shards.records, output.statistics) == ("parquet", "1Mi", 50, "All")


def test_values_keep_the_type_of_their_field() -> None:
    output = written(index="false", fileName="1-{split}-{shard}.{ext}", hdfs__replication="2", hdfs__permission="644").spec.output
    assert (output.index, output.file_name) == (False, "1-{split}-{shard}.{ext}")
    assert (output.hdfs.replication, output.hdfs.permission) == (2, "644")


def test_the_version_is_part_of_the_uri() -> None:
    assert written(version="v2").spec.output.uri == "/out/v2"


@pytest.mark.parametrize(
    ("options", "overwrite", "mode", "rule"),
    [
        ({}, True, "overwrite", "Always"),
        ({"mode": "overwrite"}, True, "overwrite", "Always"),
        ({}, False, "append", "Extend"),
        ({"mode": "ErrorIfExists"}, False, "errorifexists", "Never"),
        ({"mode": "error"}, False, "errorifexists", "Never"),
        ({"mode": "ignore"}, False, "ignore", "Never"),
    ],
)
def test_the_save_mode_is_sparks_flag_or_an_option(options: dict[str, str], overwrite: bool, mode: str, rule: str) -> None:
    parsed = write_options({"path": "/out", **options}, overwrite=overwrite)
    assert (parsed.mode, parsed.spec.output.overwrite) == (mode, rule)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"fromat": "parquet"}, "There is no option 'fromat'. Did you mean 'format'? The options are format, job, mode, nested, "),
        ({"format": "tfrecrod"}, "There is no format 'tfrecrod'. Did you mean 'tfrecord'? The formats are tfrecord, "),
        ({"tfrecord.compresion": "Gzip"}, "There is no option 'tfrecord.compresion'. Did you mean 'tfrecord.compression'?"),
        ({"tfrecord.compression": "Zip"}, "The option tfrecord.compression can't be 'Zip': input should be "),
        ({"shards.records": "many"}, "The option shards.records can't be 'many': input should be a valid integer"),
        ({"shards.count": "3"}, "The option shards.count isn't supported: each partition becomes a file: use df.repartition()."),
        ({"shards": "{count: 4}"}, "The option shards can't be set as a whole. It has the options shards.records."),
        ({"parquet": "{}"}, "The option parquet can't be set as a whole. It has the options parquet."),
        ({"split": "test", "splitColumn": "part"}, "The options split and splitColumn contradict each other"),
        ({"splitColumn": " "}, "The option splitColumn must be the name of a column; got ' '."),
        ({"nested": "a,b,a"}, "The option nested contains 'a' twice."),
        ({"overwrite": "Always"}, "The option overwrite isn't supported: use mode()."),
        ({"table.uri": "odps://p/tables/t"}, "The option table.uri isn't supported: write the DataFrame to the table with Spark."),
        ({"fileName": "{split}.{ext}"}, "fileName must contain {shard} but not {shards}"),
        ({"mode": "replace"}, "The option mode must be errorifexists, append or ignore; got 'replace'."),
        ({"split": "a b"}, "'a b' can't be the name of a split"),
        ({"version": "a/b"}, "version may contain only letters"),
    ],
)
def test_wrong_options_of_a_write_are_named(options: dict[str, str], message: str) -> None:
    with pytest.raises(BadSpec) as caught:
        write_options({"path": "/out", **options}, overwrite=False)
    assert message in str(caught.value)


def test_a_mode_that_contradicts_sparks_is_refused() -> None:
    with pytest.raises(BadSpec, match=r"mode\('overwrite'\) contradicts the option mode='ignore'"):
        write_options({"path": "/out", "mode": "ignore"}, overwrite=True)
    with pytest.raises(BadSpec, match=r"mode\('append'\) contradicts the option mode='Overwrite': use mode\('overwrite'\)"):
        write_options({"path": "/out", "mode": "Overwrite"}, overwrite=False)


def test_without_a_path_the_call_is_named() -> None:
    with pytest.raises(BadSpec, match=r"pass it to save\(\)"):
        write_options({}, overwrite=False)
    with pytest.raises(BadSpec, match=r"pass it to load\(\)"):
        read_options({})


@pytest.mark.parametrize(
    ("path", "uri"),
    [
        ("file:/a/set", "/a/set"),
        ("file:///a/set", "/a/set"),
        ("FILE:/a/set", "/a/set"),
        ("file://localhost/a/set", "/a/set"),
        # As in all other commands and in Spark's own paths, % has no special meaning.
        ("file:/a%20b", "/a%20b"),
        ("s3://bucket/a:b", "s3://bucket/a:b"),
        ("/a:b/set", "/a:b/set"),
        ("set", str(Path("set").absolute())),
        ("./a:b", str(Path("a:b").absolute())),
    ],
)
def test_a_path_is_a_uri_or_a_path_of_the_machine(path: str, uri: str) -> None:
    assert read_options({"path": path}).uri == uri
    assert write_options({"path": path}, overwrite=True).spec.output.uri == uri


@pytest.mark.parametrize("path", ["s3:/bucket/set", "hdfs:set", "file:set"])
def test_a_scheme_without_slashes_is_refused(path: str) -> None:
    with pytest.raises(BadSpec, match=r"isn't a URI: .*: must be followed by .* For a path that contains a colon, put ./ before it."):
        read_options({"path": path})


def test_lists_of_names_are_read() -> None:
    options = read_options({"path": "file:///set", "COLUMNS": "a, b", "split": '["train", "x,y"]', "splitcolumn": "part"})
    assert (options.uri, options.columns, options.splits, options.split_column) == ("/set", ("a", "b"), ("train", "x,y"), "part")


@pytest.mark.parametrize("text", ["", "a,,b", "[1]", "[a"])
def test_a_list_without_names_is_refused(text: str) -> None:
    with pytest.raises(BadSpec, match="The option columns must be a list of names"):
        read_options({"path": "/set", "columns": text})


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"columns": "a,a"}, "The option columns contains 'a' twice."),
        ({"split": '["train", "train"]'}, "The option split contains 'train' twice."),
        ({"splitColumn": ""}, "The option splitColumn must be the name of a column; got ''."),
    ],
)
def test_wrong_options_of_a_read_are_named(options: dict[str, str], message: str) -> None:
    with pytest.raises(BadSpec, match=message):
        read_options({"path": "/set", **options})


def test_an_unknown_option_of_a_read_is_named() -> None:
    with pytest.raises(
        BadSpec, match=r"There is no option 'column'. Did you mean 'columns'\? The options are columns, job, path, split, splitColumn."
    ):
        read_options({"path": "/set", "column": "a"})
