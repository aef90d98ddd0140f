"""Tests that run DataPrepCronJobs through `reconcile` with a fake clock, and restart the operator wherever it might stop."""

from datetime import timedelta
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.builders.crons import TEMPLATE, Cron, named
from tests.builders.examples import examples
from tests.operator.world import NAMESPACE, START

from dataprep_api.resources.job import DataPrepJob
from dataprep_operator.cluster.cluster import Body
from dataprep_operator.errors import Conflict, Refused, Unavailable
from dataprep_operator.informer.cache import Kind
from dataprep_operator.objects import times

# --- jobs -------------------------------------------------------------------------------------------------------------------


def test_a_job_is_made_when_it_is_due_and_named_after_its_time() -> None:
    cron = Cron()
    assert cron.jobs() == []
    assert cron.wait == 600.05
    assert cron.status["nextScheduleTime"] == "2026-01-31T12:10:00Z"

    assert cron.at("12:09") == []
    assert cron.at("12:10") == ["12:10"]
    assert cron.job("12:10")["metadata"]["name"] == "nightly-29497690"
    assert cron.at("12:15") == ["12:10"]
    assert cron.status["lastScheduleTime"] == "2026-01-31T12:10:00Z"
    assert cron.status["nextScheduleTime"] == "2026-01-31T12:20:00Z"
    assert cron.said() == ("True", "JobCreated", "nightly-29497690 was created for 2026-01-31T12:10:00Z.")


def test_a_job_has_the_template_its_time_and_its_owner() -> None:
    template = {**TEMPLATE, "metadata": {"labels": {"team": "a"}, "annotations": {"note": "b"}}}
    cron = Cron(jobTemplate=template)
    cron.at("12:10")
    job = cron.job("12:10")
    metadata = job["metadata"]

    assert metadata["labels"] == {"team": "a", "dataprep.io/cron-job": "nightly"}
    assert metadata["annotations"] == {"note": "b", "dataprep.io/scheduled-at": "2026-01-31T12:10:00Z"}
    assert [owner["kind"] for owner in metadata["ownerReferences"]] == ["DataPrepCronJob"]
    assert metadata["ownerReferences"][0]["controller"] is True
    assert job["spec"]["params"] == {"SCHEDULED_TIME": "20260131T1210Z"}
    assert DataPrepJob.parse(job).spec.output.uri == "s3://out/20260131T1210Z"


def test_a_job_of_a_schedule_runs_like_any_other() -> None:
    cron = Cron()
    cron.at("12:10")
    cron.world.look(named("12:10"))

    assert cron.world.status(named("12:10"))["phase"] == "Planning"
    assert cron.status["active"] == [{"name": named("12:10"), "uid": cron.job("12:10")["metadata"]["uid"]}]


def test_the_status_follows_the_jobs() -> None:
    cron = Cron()
    cron.at("12:10")
    cron.at("12:14")
    cron.end("12:10")

    assert "active" not in cron.status
    assert cron.status["lastSuccessfulTime"] == "2026-01-31T12:14:00Z"


def test_jobs_go_with_their_cron_job() -> None:
    cron = Cron()
    cron.at("12:10")
    cron.world.cluster.remove("dataprepcronjobs", NAMESPACE, "nightly")

    assert cron.jobs() == []
    cron.look()
    assert cron.wait is None


# --- late -------------------------------------------------------------------------------------------------------------------


def test_after_a_long_pause_only_the_last_time_is_made_up_for() -> None:
    cron = Cron()

    assert cron.at("13:05") == ["13:00"]
    assert cron.at("13:10") == ["13:00", "13:10"]
    assert "TooManyMissedTimes" not in cron.world.events()


@pytest.mark.parametrize(("hour", "told"), [("13:40", False), ("13:41", True)], ids=["100", "101"])
def test_more_than_a_hundred_missed_times_are_told_once(hour: str, told: bool) -> None:
    cron = Cron(schedule="* * * * *")
    cron.at(hour)
    cron.world.restart()
    cron.settle()

    assert cron.jobs() == [hour]
    assert cron.world.events().count("TooManyMissedTimes") == int(told)


def test_what_could_not_be_made_in_time_is_left_out() -> None:
    cron = Cron(startingDeadlineSeconds=60)

    assert cron.at("12:12") == []
    assert cron.said() == ("False", "MissedSchedule", "The job due at 2026-01-31T12:10:00Z could not be created within 60 s.")
    assert cron.at("12:21") == ["12:20"]
    assert cron.said()[:2] == ("True", "JobCreated")


def test_a_deadline_also_bounds_what_counts_as_missed() -> None:
    cron = Cron(schedule="* * * * *", startingDeadlineSeconds=120)

    assert cron.at("18:00") == ["18:00"]
    assert "TooManyMissedTimes" not in cron.world.events()


# --- while another is unfinished --------------------------------------------------------------------------------------------


def test_allow_lets_both_run() -> None:
    cron = Cron()
    cron.at("12:10")

    assert cron.at("12:20") == ["12:10", "12:20"]
    assert [job["name"] for job in cron.status["active"]] == [named("12:10"), named("12:20")]


def test_forbid_waits_for_the_end_and_then_makes_the_last() -> None:
    cron = Cron(concurrencyPolicy="Forbid")
    cron.at("12:10")

    assert cron.at("12:35") == ["12:10"]
    assert cron.said() == ("False", "JobActive", f"The job due at 2026-01-31T12:30:00Z waits for {named('12:10')} to finish.")
    cron.end("12:10", "Failed")
    assert cron.jobs() == ["12:10", "12:30"]


def test_forbid_with_a_deadline_gives_up_waiting() -> None:
    cron = Cron(concurrencyPolicy="Forbid", startingDeadlineSeconds=120)
    cron.at("12:10")
    cron.at("12:21")
    assert cron.wait == 60.05
    cron.at("12:23")

    assert cron.said()[:2] == ("False", "MissedSchedule")
    cron.end("12:10")
    assert cron.jobs() == ["12:10"]


def test_replace_deletes_the_unfinished_one_before_it_makes_the_next() -> None:
    cron = Cron(concurrencyPolicy="Replace")
    cron.at("12:10")
    cron.world.cluster.calls.clear()

    assert cron.at("12:20") == ["12:20"]
    done = [(verb, name) for verb, what, name in cron.world.cluster.calls if what == "dataprepjobs"]
    assert done == [("delete", named("12:10")), ("create", named("12:20"))]
    assert "JobReplaced" in cron.world.events()


def test_replace_waits_for_one_that_is_still_going_away() -> None:
    cron = Cron(concurrencyPolicy="Replace")
    cron.at("12:10")
    cron.world.cluster.change("dataprepjobs", named("12:10"), {"metadata": {"deletionTimestamp": "2026-01-31T12:15:00Z"}})

    assert cron.at("12:20") == ["12:10"]
    cron.world.cluster.remove("dataprepjobs", NAMESPACE, named("12:10"))
    cron.settle()
    assert cron.jobs() == ["12:20"]


def test_a_finished_job_is_not_replaced() -> None:
    cron = Cron(concurrencyPolicy="Replace")
    cron.at("12:10")
    cron.end("12:10")

    assert cron.at("12:20") == ["12:10", "12:20"]


# --- history ----------------------------------------------------------------------------------------------------------------


def test_finished_jobs_beyond_the_limits_go_the_oldest_first() -> None:
    cron = Cron(successfulJobsHistoryLimit=2, failedJobsHistoryLimit=1)
    for due, phase in (("12:10", "Succeeded"), ("12:20", "Failed"), ("12:30", "Succeeded"), ("12:40", "Failed"), ("12:50", "Succeeded")):
        cron.at(due)
        cron.end(due, phase)

    assert cron.jobs() == ["12:30", "12:40", "12:50"]
    cron.edit(successfulJobsHistoryLimit=0, failedJobsHistoryLimit=0)
    assert cron.jobs() == []
    assert cron.at("12:55") == []


# --- suspension and edits -----------------------------------------------------------------------------------------------------


def test_a_suspended_one_makes_nothing_and_a_resumed_one_makes_up_for_the_last() -> None:
    cron = Cron(suspend=True)

    assert cron.at("12:35") == []
    assert cron.said("Suspended")[:2] == ("True", "Suspended")
    assert "nextScheduleTime" not in cron.status
    assert cron.wait is None
    cron.edit(suspend=False)
    assert cron.jobs() == ["12:30"]
    assert cron.said("Suspended")[:2] == ("False", "Resumed")


def test_another_schedule_holds_from_now_on() -> None:
    cron = Cron()
    cron.at("12:10")
    cron.edit(schedule="15 * * * *")

    assert cron.status["nextScheduleTime"] == "2026-01-31T12:15:00Z"
    assert cron.at("12:20") == ["12:10", "12:15"]


FAULTS: dict[str, tuple[Body, str]] = {
    "field": ({"schedule": "61 * * * *"}, "spec.schedule: bad minute in '61 * * * *'"),
    "impossible day": ({"schedule": "0 0 31 2 *"}, "spec.schedule: bad day-of-month in '0 0 31 2 *'"),
    "zone": ({"timeZone": "Europe/Berln"}, "spec.timeZone: unknown time zone 'Europe/Berln'; expected a name such as Europe/Berlin"),
    "no zone": ({"timeZone": "../../etc/passwd"}, "spec.timeZone: unknown time zone '../../etc/passwd'"),
    "template": ({"jobTemplate": {"spec": {"output": {"uri": "/out"}}}}, "spec.jobTemplate.spec: set exactly one of source and script"),
    "params": (
        {"jobTemplate": {"spec": {**TEMPLATE["spec"], "params": ["a"]}}},
        "spec.jobTemplate.spec.params: expected a mapping",
    ),
    "unknown param": (
        {"jobTemplate": {"spec": {**TEMPLATE["spec"], "output": {"uri": "/out/${TIME}"}}}},
        "spec.jobTemplate.spec.output.uri: ${TIME} is not in spec.params (known: SCHEDULED_TIME)",
    ),
}


@pytest.mark.parametrize(("spec", "said"), FAULTS.values(), ids=FAULTS.keys())
def test_what_can_t_be_accepted_is_said_and_nothing_made(spec: Body, said: str) -> None:
    cron = Cron(**spec)

    assert cron.at("12:30") == []
    status, reason, message = cron.said("Validated")
    assert (status, reason) == ("False", "InvalidSpec")
    assert message.startswith(said)
    assert cron.world.events() == ["InvalidSpec"]
    cron.edit(schedule="*/10 * * * *", timeZone="UTC", jobTemplate=None)
    cron.edit(jobTemplate=TEMPLATE)
    assert cron.jobs() == ["12:30"]
    assert cron.said("Validated")[:2] == ("True", "Accepted")


# --- faults -----------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("verb", ["create", "status"])
def test_a_crash_before_or_after_the_job_was_made_loses_and_doubles_nothing(verb: str) -> None:
    cron = Cron(concurrencyPolicy="Replace")
    plural = {"create": "dataprepjobs", "status": "dataprepcronjobs"}[verb]
    cron.world.cluster.refusals[(verb, plural)] = Unavailable("gone")
    cron.at("12:10")
    del cron.world.cluster.refusals[(verb, plural)]
    cron.world.restart()
    uids = [body["metadata"]["uid"] for (kind, _, _), body in cron.world.cluster.objects.items() if kind == "dataprepjobs"]
    cron.at("12:11")

    assert cron.jobs() == ["12:10"]
    assert uids in ([], [cron.job("12:10")["metadata"]["uid"]])
    assert cron.status["lastScheduleTime"] == "2026-01-31T12:10:00Z"


def test_nothing_goes_before_the_status_knows_of_the_job() -> None:
    cron = Cron(successfulJobsHistoryLimit=0)
    cron.world.cluster.refusals[("status", "dataprepcronjobs")] = Unavailable("gone")
    cron.at("12:10")
    cron.end("12:10")
    assert cron.jobs() == ["12:10"]
    del cron.world.cluster.refusals[("status", "dataprepcronjobs")]
    cron.world.restart()
    cron.settle()

    assert cron.jobs() == []
    assert cron.world.created("dataprepjobs") == 1


def test_a_job_that_the_watch_has_not_shown_yet_is_found_by_its_name() -> None:
    cron = Cron()
    cron.world.cluster.watch = lambda *_: None
    cron.world.cluster.refusals[("status", "dataprepcronjobs")] = Unavailable("gone")
    cron.at("12:10")
    cron.world.cache.drop(Kind.DATAPREPJOBS, cron.job("12:10"))
    del cron.world.cluster.refusals[("status", "dataprepcronjobs")]
    cron.settle()

    assert cron.jobs() == ["12:10"]
    assert cron.said()[:2] == ("True", "JobCreated")


def test_a_job_of_someone_else_is_left_alone() -> None:
    cron = Cron()
    cron.world.apply(named("12:10"))
    cron.world.cluster.change("dataprepjobs", named("12:10"), {"metadata": {"annotations": {"dataprep.io/scheduled-at": "x" * 16}}})
    cron.at("12:10")

    assert cron.said()[:2] == ("False", "ConflictingChild")
    assert cron.said()[2].startswith(f"DataPrepJob {named('12:10')} already exists and doesn't belong to this DataPrepCronJob")
    assert "12:20" in cron.at("12:20")


@pytest.mark.parametrize("text", ["2099-01-01T00:00:00Z", "soon"])
def test_an_edited_annotation_stops_no_schedule(text: str) -> None:
    cron = Cron()
    cron.at("12:10")
    cron.world.cluster.change("dataprepjobs", named("12:10"), {"metadata": {"annotations": {"dataprep.io/scheduled-at": text}}})
    cron.at("12:20")

    assert ("dataprepjobs", NAMESPACE, named("12:20")) in cron.world.cluster.objects


def test_what_the_api_server_refuses_is_said_in_its_words_and_tried_again() -> None:
    cron = Cron()
    cron.world.cluster.refusals[("create", "dataprepjobs")] = Refused("exceeded quota: jobs")
    cron.at("12:10")

    assert cron.said() == ("False", "JobRefused", "The job due at 2026-01-31T12:10:00Z was refused: exceeded quota: jobs")
    assert cron.wait == 60
    del cron.world.cluster.refusals[("create", "dataprepjobs")]
    assert cron.at("12:11") == ["12:10"]


def test_a_status_that_somebody_else_wrote_is_read_before_it_is_written() -> None:
    cron = Cron()
    cron.world.cluster.now += timedelta(minutes=10)
    cron.world.cluster.refusals[("status", "dataprepcronjobs")] = Conflict("modified")
    with pytest.raises(Conflict):
        cron.look()
    del cron.world.cluster.refusals[("status", "dataprepcronjobs")]
    cron.settle()

    assert cron.jobs() == ["12:10"]
    assert cron.world.created("dataprepjobs") == 1


def test_a_calm_one_writes_nothing() -> None:
    cron = Cron()
    cron.at("12:10")
    cron.end("12:10")
    cron.world.cluster.calls.clear()
    cron.world.restart()
    for minute in range(11, 20):
        cron.at(f"12:{minute}")

    assert cron.world.cluster.calls == []


# --- random sequences -------------------------------------------------------------------------------------------------------

STEPS = st.lists(
    st.one_of(
        st.tuples(st.just("wait"), st.integers(1, 45)),
        st.tuples(st.just("end"), st.sampled_from(["Succeeded", "Failed"])),
        st.tuples(st.just("suspend"), st.booleans()),
        st.tuples(st.just("crash"), st.sampled_from([("create", "dataprepjobs"), ("status", "dataprepcronjobs"), ("create", "events")])),
        st.tuples(st.just("restart"), st.none()),
    ),
    max_size=25,
)


@pytest.mark.slow
@settings(max_examples=examples(60), deadline=None)
@given(steps=STEPS, policy=st.sampled_from(["Allow", "Forbid", "Replace"]))
def test_no_life_makes_a_time_twice_or_breaks_its_policy(steps: list[tuple[str, Any]], policy: str) -> None:
    cron = Cron(concurrencyPolicy=policy)
    cluster = cron.world.cluster
    created: list[str] = []
    for what, how in steps:
        made_before = {name for plural, _, name in cluster.objects if plural == "dataprepjobs"}
        match what:
            case "wait":
                cluster.now += timedelta(minutes=how)
            case "end":
                for (plural, _, name), body in list(cluster.objects.items()):
                    if plural == "dataprepjobs" and "phase" not in (body.get("status") or {}):
                        cluster.change("dataprepjobs", name, {"status": {"phase": how, "completionTime": times.text(cluster.now)}})
                        break
            case "suspend":
                cluster.change("dataprepcronjobs", "nightly", {"spec": {"suspend": how}})
            case "crash":
                cluster.refusals[how] = Unavailable("gone")
                cron.settle()
                del cluster.refusals[how]
                cron.world.restart()
            case "restart":
                cron.world.restart()
        cron.settle()
        jobs = {name: body for (plural, _, name), body in cluster.objects.items() if plural == "dataprepjobs"}
        created += sorted(set(jobs) - made_before)
        unfinished = [name for name, body in jobs.items() if "phase" not in (body.get("status") or {})]
        assert len(created) == len(set(created)), "two jobs were created for the same time"
        assert policy == "Allow" or len(unfinished) <= 1
        assert sorted(each["name"] for each in cron.status.get("active", [])) == sorted(unfinished)
        assert sum(1 for body in jobs.values() if (body.get("status") or {}).get("phase") == "Succeeded") <= 3
        assert sum(1 for body in jobs.values() if (body.get("status") or {}).get("phase") == "Failed") <= 1
    last = max((int(name.rpartition("-")[2]) for name in created), default=0)
    suspended = cluster.objects[("dataprepcronjobs", NAMESPACE, "nightly")]["spec"].get("suspend")
    if policy != "Forbid" and not suspended and cluster.now >= START + timedelta(minutes=10):
        assert last * 60 == int(cluster.now.timestamp()) // 600 * 600, "no job was created for the last time"


def test_a_status_of_a_newer_operator_is_read_after_a_rollback() -> None:
    cron = Cron()
    cron.at("12:10")
    cron.end("12:10")
    cron.world.cluster.change("dataprepcronjobs", "nightly", {"status": {"aNewField": {"x": 1}}})

    assert cron.at("12:20") == ["12:10", "12:20"]
