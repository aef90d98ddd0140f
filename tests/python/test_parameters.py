"""Parameters of `write` with invalid values: the message names the parameter, and says what was expected."""

import inspect
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import dataprep_io as dp


@pytest.mark.parametrize(
    ("parameters", "message"),
    [
        *(({"shard_records": value}, "shard_records must be a whole number of at least 1; got ") for value in (0, -1, 1.5, "5", True)),
        *(({"workers": value}, "workers must be a whole number of at least 1; got ") for value in (0, -1, 2.5, "2")),
        *(
            ({"shard_size": value}, "shard_size must be a number of bytes or a string such as '64Mi'; got ")
            for value in (0, -1, None, 1e6, "big", "64MB", "0")
        ),
        *(({"mode": value}, "mode must be one of 'error', 'overwrite', 'append', 'ignore'; got ") for value in (None, ["error"])),
        *(({"format": value}, "format must be the name of a format, such as 'tfrecord'; got ") for value in (None, 3)),
        *(({"split_column": value}, "split_column must be the name of a column; got ") for value in ("", 3)),
        *(({"split": value}, "can't be the name of a split") for value in (None, 3, "", "..", "a/b", "x" * 64)),
        ({"split": "test", "split_column": "s"}, "split and split_column contradict each other"),
        ({"nested": "box"}, r'nested must be a list of names, such as \["a", "b"\]; got \'box\''),
        ({"columns": "ab"}, r'columns must be a list of names, such as \["a", "b"\]; got \'ab\''),
        ({"columns": [1, 2]}, "columns must be a list of names"),
        ({"columns": ["a", "a"]}, "columns has the name 'a' twice"),
        ({"overwrite": "Always"}, "^overwrite: write has no such parameter. Use mode"),
        ({"shards": {"records": 1}}, "^shards: write has no such parameter. Use shard_records or shard_size"),
        ({"split_colum": "s"}, "^split_colum: write has no such parameter. Did you mean 'split_column'"),
    ],
)
def test_an_impossible_value_is_named(tmp_path: Path, parameters: dict[str, Any], message: str) -> None:
    with pytest.raises((dp.BadSpec, dp.SpecError), match=message):
        dp.write([{"s": "a", "n": 1}], tmp_path / "set", **parameters)
    assert list(tmp_path.iterdir()) == []


def test_a_typo_in_any_parameter_is_told(tmp_path: Path) -> None:
    named = [name for name, each in inspect.signature(dp.write).parameters.items() if each.kind is each.KEYWORD_ONLY]
    for name in named:
        unknown: dict[str, Any] = {f"{name}x": None}
        with pytest.raises(dp.SpecError, match=f"Did you mean '{name}'"):
            dp.write([{"n": 1}], tmp_path / "set", **unknown)


@pytest.mark.parametrize("schema", [{"n": "int64"}, [("n", pa.int64())]])
def test_a_schema_is_one_of_arrow(tmp_path: Path, schema: Any) -> None:
    with pytest.raises(TypeError, match=r"schema must be a pyarrow\.Schema; got (dict|list)\. Use pyarrow\.schema\("):
        dp.write([{"n": 1}], tmp_path / "set", schema=schema)


@pytest.mark.parametrize(
    ("uri", "error", "message"), [("", dp.BadSpec, "got ''"), (" ", dp.BadSpec, "got ' '"), (b"x", TypeError, "got b'x'")]
)
def test_an_output_without_a_name_is_refused(uri: Any, error: type[Exception], message: str) -> None:
    with pytest.raises(error, match=message):
        dp.write([{"n": 1}], uri)


def test_a_path_can_begin_with_the_home_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    assert dp.write([{"n": 1}], "~/set").uri == f"{tmp_path}/set"
    assert dp.open("~/set").records == 1
    assert dp.write([{"n": 1}], Path("~/other")).uri == f"{tmp_path}/other"


@pytest.mark.parametrize("form", ["file://{}/set", "file:{}/set", "{}/set/", "{}/set//"])
def test_a_path_has_several_forms(tmp_path: Path, form: str) -> None:
    assert dp.write([{"n": 1}], form.format(tmp_path)).uri == f"{tmp_path}/set"


def test_a_relative_path_begins_in_the_working_directory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    assert dp.write([{"n": 1}], "set").uri == f"{tmp_path}/set"
