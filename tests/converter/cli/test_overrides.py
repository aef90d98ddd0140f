"""`--set FIELD=VALUE`: sets any field of the spec from the command line."""

from pathlib import Path
from typing import Any

import pytest

from dataprep_api.errors import SpecError
from dataprep_converter.inputs import job_file

JOB = """
apiVersion: dataprep.io/v1alpha1
kind: DataPrepJob
metadata: {name: job}
spec:
  params:
    input: here
  source:
    csv:
      uris: ["${input}/a.csv", "${input}/b.csv"]
  splits:
    into:
      - {name: train, fraction: 0.8}
      - {name: test, fraction: 0.2}
  output:
    uri: out
  shuffle:
"""


def loaded(tmp_path: Path, *overrides: str) -> dict[str, Any]:
    file = tmp_path / "job.yaml"
    file.write_text(JOB)
    return job_file.load(str(file), overrides=overrides).spec.model_dump(by_alias=True, exclude_none=True, exclude_defaults=True)


@pytest.mark.parametrize(
    ("override", "path", "value"),
    [
        pytest.param("output.uri=s3://bucket/x=y", ["output", "uri"], "s3://bucket/x=y", id="a text with an equals sign"),
        pytest.param("spec.output.uri=elsewhere", ["output", "uri"], "elsewhere", id="with spec. in front"),
        pytest.param("shuffle.seed=8", ["shuffle", "seed"], 8, id="below a field without a value"),
        pytest.param("output.hdfs.replication=2", ["output", "hdfs", "replication"], 2, id="below a field that is not there"),
        pytest.param("splits.into.1.name=check", ["splits", "into", 1, "name"], "check", id="an item of a list"),
        pytest.param("source.csv.uris.0=c.csv", ["source", "csv", "uris", 0], "c.csv", id="a whole item"),
        pytest.param("source.csv.uris=[d.csv]", ["source", "csv", "uris"], ["d.csv"], id="a list as YAML"),
        pytest.param("onBadRecord={policy: Skip}", ["onBadRecord", "policy"], "Skip", id="a mapping as YAML"),
        pytest.param("source.csv.delimiter=|", ["source", "csv", "delimiter"], "|", id="a bar, which is YAML for nothing"),
        pytest.param("source.csv.delimiter=#", ["source", "csv", "delimiter"], "#", id="a hash, which is YAML for nothing"),
        pytest.param("source.csv.delimiter=;", ["source", "csv", "delimiter"], ";", id="a semicolon"),
        pytest.param("source.csv.quote='", ["source", "csv", "quote"], "'", id="a quote, which is no YAML"),
        pytest.param("params.input=1.50", ["source", "csv", "uris", 0], "1.50/a.csv", id="a param stays text"),
        pytest.param("params.input=on", ["params", "input"], "on", id="a param is never true or false"),
        pytest.param("params={input: there}", ["source", "csv", "uris", 1], "there/b.csv", id="all params"),
    ],
)
def test_a_field_is_set(tmp_path: Path, override: str, path: list[str | int], value: object) -> None:
    found: Any = loaded(tmp_path, override)
    for part in path:
        found = found[part]
    assert found == value


def test_later_overrides_win_and_an_empty_one_takes_the_field_away(tmp_path: Path) -> None:
    assert loaded(tmp_path, "output.uri=a", "output.uri=b")["output"]["uri"] == "b"
    assert "splits" not in loaded(tmp_path, "splits=")


@pytest.mark.parametrize(
    ("override", "said"),
    [
        pytest.param("output.uri", "--set: expected FIELD=VALUE, got 'output.uri'", id="no value"),
        pytest.param("=x", "--set: expected FIELD=VALUE, got '=x'", id="no field"),
        pytest.param("output..uri=x", "--set: expected FIELD=VALUE", id="an empty part"),
        pytest.param("splits.into.2.name=x", "--set splits.into.2.name: expected an index from 0 to 1, got 2", id="beyond a list"),
        pytest.param("splits.into.first=x", "--set splits.into.first: expected an index from 0 to 1, got first", id="a name for an index"),
        pytest.param(
            "output.uri.name=x", "--set output.uri.name: the parent of name is of type text, which has no fields", id="below a text"
        ),
        pytest.param("output.shards.cuont=x", "spec.output.shards.cuont: unknown field; did you mean count?", id="an unknown field"),
        pytest.param("output.shards.count={", "spec.output.shards.count: ", id="a value that is neither"),
    ],
)
def test_an_override_that_cannot_be_is_refused(tmp_path: Path, override: str, said: str) -> None:
    with pytest.raises(SpecError) as refused:
        loaded(tmp_path, override)
    assert str(refused.value).startswith(said)


def test_a_param_that_nothing_names_is_told(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    loaded(tmp_path, "params.inptu=there", "params.input=there")
    assert caplog.messages == ["--set params.inptu has no effect: the job doesn't contain ${inptu}"]
