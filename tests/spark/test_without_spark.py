"""Without PySpark, only the data source itself is missing."""

import importlib
import sys

import pytest

import dataprep_spark


@pytest.mark.parametrize("name", ["pyspark", "pyspark.sql.datasource"])
def test_without_pyspark_the_error_says_what_to_install(monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    monkeypatch.setitem(sys.modules, name, None)
    monkeypatch.delitem(sys.modules, "dataprep_spark.source", raising=False)
    with pytest.raises(ImportError, match=r"dataprep_spark needs PySpark 4.1 or later: pip install 'dataprep-operator\[spark\]'"):
        dataprep_spark.DataprepDataSource  # noqa: B018 - the access imports PySpark


def test_other_names_are_missing_as_usual() -> None:
    module = importlib.import_module("dataprep_spark")
    with pytest.raises(AttributeError, match="module 'dataprep_spark' has no attribute 'Other'"):
        module.Other  # noqa: B018 - the access raises the error
