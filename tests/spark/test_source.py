"""Tests the classes that Spark calls. Other classes stand in for PySpark's own classes. The heavy tests use Spark itself."""

import importlib
import pickle
import sys
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any

import pyarrow as pa
import pytest
from tests.builders.dataframes import numbers, rows_of

from dataprep_converter.core.errors import BadSpec, NotWhole


class Base:
    """Stands in for PySpark's base classes and for its schema type."""

    def __init__(self, value: Any = None) -> None:
        self.options = self.value = value


class Context:
    """Stands in for `TaskContext`."""

    partition = 0

    @classmethod
    def get(cls) -> Any:
        return SimpleNamespace(partitionId=lambda: cls.partition, taskAttemptId=lambda: cls.partition + 70)


@pytest.fixture
def source(monkeypatch: pytest.MonkeyPatch) -> Iterator[Any]:
    """The module `dataprep_spark.source`, with Arrow's schemas in place of Spark's."""
    names = ("DataSource", "DataSourceArrowWriter", "DataSourceReader", "InputPartition", "WriterCommitMessage")
    contents: dict[str, dict[str, Any]] = {
        "pyspark": {"TaskContext": Context},
        "pyspark.sql": {},
        "pyspark.sql.datasource": dict.fromkeys(names, Base),
        "pyspark.sql.pandas": {},
        "pyspark.sql.pandas.types": {"from_arrow_schema": lambda schema: schema, "to_arrow_schema": lambda schema, **_: schema},
        "pyspark.sql.types": {"StructType": list},
    }
    for name, content in contents.items():
        module = ModuleType(name)
        module.__dict__.update(content)
        monkeypatch.setitem(sys.modules, name, module)
    monkeypatch.delitem(sys.modules, "dataprep_spark.source", raising=False)
    yield importlib.import_module("dataprep_spark.source")
    sys.modules.pop("dataprep_spark.source", None)


def written(source: Any, folder: Path, partitions: list[list[pa.RecordBatch]], **options: str) -> tuple[Any, list[Any]]:
    """Run the tasks, each with a pickled copy of the writer. Return the writer and the tasks' messages."""
    writer = source.DataprepDataSource({"path": str(folder), **options}).writer(partitions[0][0].schema, overwrite=False)
    messages = []
    for Context.partition, batches in enumerate(partitions):
        messages.append(pickle.loads(pickle.dumps(writer)).write(iter(batches)))  # noqa: S301 - it was pickled just now
    return writer, messages


def test_a_frame_is_written_and_read(source: Any, tmp_path: Path) -> None:
    writer, messages = written(source, tmp_path / "out", [[numbers(0, 2)], [numbers(2, 2)]])
    writer.commit(messages)
    assert [row["n"] for row in rows_of(tmp_path / "out")] == [0, 1, 2, 3]
    data_source = source.DataprepDataSource({"path": str(tmp_path / "out")})
    assert (data_source.name(), data_source.schema().names) == ("dataprep", ["n", "word", "split"])
    reader = data_source.reader(data_source.schema())
    partitions = reader.partitions()
    task = pickle.loads(pickle.dumps(reader))  # noqa: S301 - see above
    assert [row["n"] for part in partitions for batch in task.read(part) for row in batch.to_pylist()] == [0, 1, 2, 3]
    assert list(task.read(Base(None))) == []


def test_a_message_that_spark_lost_fails_the_commit(source: Any, tmp_path: Path) -> None:
    writer, messages = written(source, tmp_path / "out", [[numbers(0, 2)], [numbers(2, 2)]])
    with pytest.raises(NotWhole, match="no successful attempt for partition 1, so its rows would be missing"):
        writer.commit([messages[0], None])
    writer.abort([messages[0], None])
    assert not (tmp_path / "out/_SUCCESS").exists()
    assert not list((tmp_path / "out").rglob("*.tfrecords"))


def test_a_type_that_arrow_lacks_names_its_column(source: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: object, **__: object) -> None:
        raise TypeError("unsupported")

    monkeypatch.setattr(source, "to_arrow_schema", refuse)
    column = SimpleNamespace(name="m", dataType=SimpleNamespace(simpleString=lambda: "interval month"))
    with pytest.raises(BadSpec, match="The DataFrame's column 'm' is interval month, which records can't contain. Drop or cast it."):
        source.DataprepDataSource({"path": str(tmp_path / "out")}).writer([column], overwrite=False)
