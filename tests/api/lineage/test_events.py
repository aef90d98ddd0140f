"""OpenLineage events, built as JSON values."""

import hashlib
from datetime import UTC, datetime

from dataprep_api.lineage import events
from dataprep_api.lineage.names import DataSetName

RUN = events.Run(id="3f5e83fa-3480-44ff-99c5-ff943904e5e8", namespace="team-a", job="iris", kind="CONVERSION", version="1.2")


def test_an_event_names_the_run_the_job_and_the_data_sets() -> None:
    now = datetime(2026, 1, 2, tzinfo=UTC)
    event = events.run_event("START", RUN, inputs=[events.DataSet(DataSetName("s3://b", "day"))], now=now)

    assert event["eventType"] == "START"
    assert event["eventTime"] == "2026-01-02T00:00:00+00:00"
    assert event["run"]["runId"] == RUN.id
    assert (event["job"]["namespace"], event["job"]["name"]) == ("team-a", "iris")
    assert event["inputs"] == [{"namespace": "s3://b", "name": "day", "facets": {}, "inputFacets": {}}]
    assert event["job"]["facets"]["jobType"]["_producer"] == event["producer"] == "urn:dataprep-operator:1.2"


def test_the_error_of_a_failed_run_has_no_credentials() -> None:
    event = events.run_event("FAIL", RUN, error="https://host/a?X-Amz-Signature=0123 can't be read: ftp://me:secret@host")

    message = event["run"]["facets"]["errorMessage"]["message"]
    assert "can't be read" in message
    assert "0123" not in message
    assert "secret" not in message


def test_a_run_of_a_pipeline_names_its_parent() -> None:
    parent = events.Parent("argo", "nightly.convert", "01234567-0123-4123-8123-0123456789ab")
    event = events.run_event("START", events.Run(RUN.id, "team-a", "iris", "COPY", "1.2", parent=parent))

    facet = event["run"]["facets"]["parent"]
    assert facet["run"] == {"runId": parent.run}
    assert facet["job"] == {"namespace": "argo", "name": "nightly.convert"}


def test_the_version_of_a_file_is_its_pin_and_that_of_several_files_their_digest() -> None:
    assert events.version_of_files({"s3://b/a": "etag-1"}) == "etag-1"
    lines = b"etag-1  s3://b/a\netag-2  s3://b/b\n"
    wanted = f"sha256:{hashlib.sha256(lines).hexdigest()}"
    assert events.version_of_files({"s3://b/b": "etag-2", "s3://b/a": "etag-1"}) == wanted


def test_an_input_lists_at_most_a_hundred_files() -> None:
    few, many = (events.input_use(records=1, size=1, files=[f"f{n}" for n in range(count)]) for count in (100, 101))
    assert len(few["subset"]["inputCondition"]["locations"]) == 100
    assert "subset" not in many


def test_a_signature_is_no_part_of_a_file_s_address() -> None:
    use = events.input_use(records=1, size=1, files=["https://host/a.csv?X-Amz-Signature=0123"])
    assert use["subset"]["inputCondition"]["locations"] == ["https://host/a.csv"]


def test_bad_records_break_the_assertion_about_the_input() -> None:
    use = events.input_use(records=3, size=1, bad=2)
    (assertion,) = use["dataQualityAssertions"]["assertions"]
    assert (assertion["success"], assertion["actual"]) == (False, "2 bad records")


def test_an_input_without_numbers_has_no_statistics() -> None:
    assert events.input_use(records=None, size=None) == {}
