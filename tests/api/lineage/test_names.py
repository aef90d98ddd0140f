"""The names of data sets in OpenLineage events. The first cases come from OpenLineage's naming conventions."""

from pathlib import Path

import pytest

from dataprep_api.lineage.names import DataSetName, data_set_name


@pytest.mark.parametrize(
    ("uri", "namespace", "name"),
    [
        ("s3://bucket/day/a.csv", "s3://bucket", "day/a.csv"),
        ("s3a://bucket/day/", "s3://bucket", "day"),
        ("s3://bucket", "s3://bucket", "/"),
        ("gs://bucket/day", "gs://bucket", "day"),
        ("oss://bucket/day", "oss://bucket", "day"),
        ("hdfs://namenode:8020/data/day", "hdfs://namenode:8020", "/data/day"),
        ("abfss://box@account.dfs.core.windows.net/day", "abfss://box@account.dfs.core.windows.net", "day"),
        ("abfs://box@account.dfs.core.windows.net/day", "abfss://box@account.dfs.core.windows.net", "day"),
        ("/data/day", "file", "/data/day"),
        ("/data/day/", "file", "/data/day"),
        ("file:///data/day", "file", "/data/day"),
        ("postgresql://user@host:5433/shop?sslmode=require", "postgres://host:5433", "shop"),
        ("postgres://host/shop", "postgres://host:5432", "shop"),
        ("odps://project/tables/clicks", "odps://project", "clicks"),
        ("odps://project/tables/clicks/pt=20260101", "odps://project", "clicks"),
        ("https://example.org/a/b.csv?X-Amz-Signature=secret", "https://example.org", "/a/b.csv"),
        ("hf://datasets/org/name@main/train", "hf://datasets", "org/name@main/train"),
    ],
)
def test_a_uri_has_the_name_of_the_conventions(uri: str, namespace: str, name: str) -> None:
    assert data_set_name(uri) == DataSetName(namespace, name)


@pytest.mark.parametrize(
    ("pattern", "name"),
    [
        ("s3://bucket/day/*.csv", "day"),
        ("s3://bucket/*/part-[0-9].csv", "/"),
        ("hdfs://n:1/data/**/*.csv", "/data"),
        ("/data/day-?/x", "/data"),
    ],
)
def test_a_pattern_names_its_folder(pattern: str, name: str) -> None:
    assert data_set_name(pattern).name == name


def test_a_relative_path_becomes_absolute(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    assert data_set_name("in/*.csv") == DataSetName("file", str(tmp_path / "in"))
    assert data_set_name("*.csv") == DataSetName("file", str(tmp_path))


@pytest.mark.parametrize("uri", ["ftp://user:secret@host/day", "https://user:secret@host/day", "postgres://user:secret@host/shop"])
def test_a_name_has_no_user_and_no_password(uri: str) -> None:
    assert "secret" not in str(data_set_name(uri))
    assert "user" not in str(data_set_name(uri))
