"""Jobs whose input is scanned by several pods. The plan pod requests the scan. After the scan, the merge step makes the plan."""

import json
from collections.abc import Callable
from typing import Any

import pytest
from tests.builders.children import DEFAULTS, a_job, a_spec, container_of, exit_rules
from tests.builders.watched import disrupted
from tests.operator.world import NAMESPACE, SHA, World, a_failure, a_plan, a_scan, retry

from dataprep_api import names
from dataprep_api.reasons import Reason
from dataprep_operator.children import jobs
from dataprep_operator.cluster.cluster import Body
from dataprep_operator.objects import times
from dataprep_operator.objects.child_jobs import QUEUE_LABEL

SCAN = "feed" * 4
GROWTH = {"memoryGrowth": 2, "maxMemory": "3Gi"}
WORKERS = {"parallelism": 2, "resources": {"requests": {"cpu": "1"}, "limits": {"memory": "1Gi"}}}


def variables_of(body: Any) -> dict[str, str]:  # Any: JSON
    return {variable["name"]: variable.get("value", "") for variable in container_of(body)["env"]}


def a_scan_job(**rest: Any) -> Any:  # Any: JSON
    given: dict[str, Any] = {"scan": SCAN, "parts": 10, "only": [], "attempt": 1, "memory": None, "defaults": DEFAULTS}
    return jobs.scan_job(rest.pop("seen", a_job()), rest.pop("spec", a_spec()), **(given | rest))


def running(world: World, suffix: str, index: int | None = None) -> None:
    world.pod(suffix, world.scheduled(phase="Running"), index=index)
    world.cluster.change("jobs", world.job(suffix)["metadata"]["name"], {"status": {"startTime": times.text(world.cluster.now)}})
    world.settle()


def progressed(world: World, indexes: str, suffix: str = "scan-1") -> str:
    world.cluster.change("jobs", world.job(suffix)["metadata"]["name"], {"status": {"completedIndexes": indexes}})
    return world.later(10)


# --- who may ask for a scan -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("fields", "may"),
    [
        pytest.param({}, True, id="by default"),
        pytest.param({"workers": {"onePod": "Never"}}, True, id="not in one pod"),
        pytest.param({"deletionPolicy": "Delete"}, True, id="whose output is removed with it"),
        pytest.param({"source": None, "script": {"command": ["true"], "outputs": ["a"]}, "features": None}, False, id="with a script"),
        pytest.param({"source": {"dataset": {"uri": "s3://in/a"}}, "output": {"uri": "s3://out/x", "format": "copy"}}, False, id="copy"),
    ],
)
def test_which_plan_pods_may_ask_for_a_scan(fields: dict[str, Any], *, may: bool) -> None:
    body = jobs.plan_job(a_job(), a_spec(**fields), attempt=1, defaults=DEFAULTS)
    assert (variables_of(body).get(names.MAY_SCAN) == "true") is may


@pytest.mark.parametrize(
    ("kueue", "gpus", "may"),
    [
        pytest.param(True, False, True, id="the whole job waits"),
        pytest.param(False, False, False, id="only the convert Job waits"),
        pytest.param(True, True, False, id="GPU nodes are reserved"),
    ],
)
def test_a_scan_never_runs_outside_a_quota(kueue: bool, gpus: bool, may: bool) -> None:
    world = World(kueue=kueue)
    world.apply(labels={QUEUE_LABEL: "research"}, workers=WORKERS | ({"accelerator": {"policy": "Required"}} if gpus else {}))
    world.settle()
    if kueue:
        world.cluster.change("jobs", world.job("queue-1")["metadata"]["name"], {"spec": {"suspend": False}})
        world.settle()
    assert (names.MAY_SCAN in variables_of(world.job("plan"))) is may


def test_the_pod_of_the_merge_step_neither_scans_again_nor_does_the_other_steps() -> None:
    body = jobs.merge_job(a_job(), a_spec(), scan=SCAN, attempt=3, defaults=DEFAULTS)

    assert {names.MAY_SCAN, names.ONE_POD}.isdisjoint(variables_of(body))
    assert container_of(body)["args"] == ["plan", "--job", "/etc/dataprep/job.yaml", "--scan", SCAN]
    assert body["metadata"]["name"] == "mnist-0f1e2d3c00-merge-3"
    assert exit_rules(body) == exit_rules(jobs.plan_job(a_job(), a_spec(), attempt=1, defaults=DEFAULTS))


@pytest.mark.parametrize(
    "changes",
    [{"scan": "../etc"}, {"scan": "feed"}, {"scan": "FEED" * 4}, {"parts": 1}, {"parts": 10_001}],
    ids=lambda changes: str(changes),
)
def test_a_request_of_the_wrong_form_becomes_no_argument(world: World, changes: dict[str, Any]) -> None:
    world.apply()
    world.settle()
    world.pod("plan", world.ended(0, json.dumps({"kind": "scan", "scan": SCAN, "parts": 4} | changes)))
    world.complete("plan")

    assert world.settle() == "Failed"
    assert "The plan step's termination message was not written by dataprep" in world.message()


# --- the Job of the scan --------------------------------------------------------------------------------------------------


def test_the_scan_has_an_index_for_each_part_and_the_resources_of_workers() -> None:
    spec = a_spec(
        workers=WORKERS | {"accelerator": {"policy": "Required", "count": 1}},
        planning={"resources": {"limits": {"memory": "9Gi"}}},
        backoffLimitPerIndex=5,
        onBadRecord={"policy": "Skip"},
    )
    body = a_scan_job(spec=spec)

    assert body["metadata"]["name"] == "mnist-0f1e2d3c00-scan-1"
    assert body["metadata"]["annotations"] == {"dataprep.io/scan": f"{SCAN}/10", "dataprep.io/suspend": "false"}
    fields = ("completionMode", "completions", "parallelism", "backoffLimitPerIndex", "suspend")
    assert [body["spec"][field] for field in fields] == ["Indexed", 10, 2, 5, False]
    container = container_of(body)
    assert container["args"] == ["scan", "--job", "/etc/dataprep/job.yaml", "--scan", SCAN, "--parts", "10"]
    assert container["resources"] == WORKERS["resources"], "a scan has no use for devices"
    assert exit_rules(body) == {"Ignore": [143], "FailJob": [2, 3, 5]}


def test_a_scan_runs_only_what_is_left() -> None:
    body = a_scan_job(only=[2, 3, 7], attempt=2)

    assert (body["spec"]["completions"], container_of(body)["args"][-2:]) == (3, ["--tasks", "2-3,7"])
    assert body["metadata"]["annotations"]["dataprep.io/tasks"] == "2-3,7"


# --- the flow -------------------------------------------------------------------------------------------------------------


def test_a_job_is_scanned_merged_and_converted(world: World) -> None:
    world.scanning()
    assert (world.status()["phase"], world.status()["step"]) == ("Planning", "Scan")
    assert world.status()["scan"] == {"id": SCAN, "parts": 4}
    assert world.status()["progress"]["summary"] == "0/4"
    assert world.message("Running") == "Pods scan the input in parts."
    assert progressed(world, "0,2-3") == "Planning"
    assert world.status()["progress"]["summary"] == "3/4"

    world.scanned()
    assert world.settle() == "Planning"
    assert (world.status()["step"], world.status()["progress"]["summary"]) == ("Merge", "4/4")
    assert container_of(world.job("merge-1"))["args"][-2:] == ["--scan", SCAN]
    world.planned("merge-1")
    assert world.settle() == "Running"
    assert (world.status()["runId"], world.status()["progress"]["summary"]) == ("0123abcd", "0/8")
    assert world.status()["timings"]["planningSeconds"] == 30.0, "the sum of three Jobs of ten seconds"
    world.converted()
    world.settle()
    world.committed()
    assert world.settle() == "Succeeded"
    assert world.jobs() == ["commit-1", "convert-1", "merge-1", "plan", "scan-1"]
    messages = [body["message"] for (plural, _, _), body in world.cluster.objects.items() if plural == "events"]
    assert messages.count(f"The input is scanned in 4 parts. The scan's name is {SCAN}.") == 1


def test_nothing_depends_on_the_plan_pod_once_it_has_asked(world: World) -> None:
    world.scanning()
    world.cluster.remove("jobs", NAMESPACE, world.job("plan")["metadata"]["name"])
    world.restart()

    assert world.later(6) == "Planning"
    assert world.jobs() == ["scan-1"]
    world.scanned()
    assert world.settle() == "Planning"
    assert world.jobs() == ["merge-1", "scan-1"]


def test_the_scan_begins_before_the_plan_job_is_complete(world: World) -> None:
    world.apply()
    world.settle()
    world.pod("plan", world.ended(0, a_scan()))

    assert world.settle() == "Planning"
    assert world.jobs() == ["plan", "scan-1"]
    assert not world.job("plan")["spec"].get("suspend")
    world.scanned()
    world.settle()
    world.pod("merge-1", world.ended(0, a_plan()))
    assert world.settle() == "Running"


@pytest.mark.parametrize("stop_at", range(12))
def test_a_restart_at_any_step_loses_nothing(world: World, stop_at: int) -> None:
    moves: list[Callable[[], object]] = [
        world.apply,
        world.look,
        world.scan_requested,
        world.look,
        world.scanned,
        world.look,
        lambda: world.planned("merge-1"),
        world.look,
        world.converted,
        world.look,
        world.committed,
        world.look,
    ]
    for number, move in enumerate(moves):
        move()
        if number == stop_at:
            world.restart()
            world.settle()

    assert world.settle() == "Succeeded"
    assert world.jobs() == ["commit-1", "convert-1", "merge-1", "plan", "scan-1"]


def test_a_deleted_scan_is_made_again(world: World) -> None:
    world.scanning()
    world.cluster.remove("jobs", NAMESPACE, world.job("scan-1")["metadata"]["name"])
    world.settle()

    assert world.later(6) == "Planning"
    assert world.jobs() == ["plan", "scan-1"]


def test_a_merge_whose_message_was_lost_runs_again(world: World) -> None:
    world.scanning()
    world.scanned()
    world.settle()
    world.complete("merge-1")
    world.settle()

    assert world.later(6) == "Planning"
    world.planned("merge-1")
    assert world.settle() == "Running"


def test_a_merged_plan_may_be_that_of_a_finished_data_set(world: World) -> None:
    world.scanning()
    world.scanned()
    world.settle()
    world.planned("merge-1", reused=True, commit={"runId": "0123abcd"} | _COMMIT)

    assert world.settle() == "Succeeded"
    assert world.condition("Complete") == ("True", "Reused")


def test_a_merge_may_not_report_a_data_set_of_its_own(world: World) -> None:
    world.scanning()
    world.scanned()
    world.settle()
    world.planned("merge-1", commit={"runId": "0123abcd"} | _COMMIT)

    assert world.settle() == "Failed"
    assert world.message() == "The merge step reports a finished data set, but it may only make the plan."


_COMMIT: Body = {
    "manifestUri": "s3://out/manifest.json",
    "manifestSha256": SHA,
    "files": 8,
    "records": {"in": 10, "out": 10},
    "bytesIn": 10,
    "bytesOut": 10,
}


def test_a_merge_can_not_ask_for_another_scan(world: World) -> None:
    world.scanning()
    world.scanned()
    world.settle()
    world.pod("merge-1", world.ended(0, a_scan(parts=9)))
    world.complete("merge-1")

    assert world.settle() == "Failed"
    assert "The merge step's termination message was not written by dataprep" in world.message()


def test_the_code_of_the_plan_step_is_that_of_the_scan_and_of_the_merge(world: World) -> None:
    commit = "0123456789abcdef0123456789abcdef01234567"
    world.apply(code={"git": {"url": "https://git.example/code", "ref": "main"}})
    world.settle()
    world.scan_requested(code_commit=commit)
    world.settle()
    world.scanned()
    world.settle()

    for suffix in ("scan-1", "merge-1"):
        [fetch] = world.job(suffix)["spec"]["template"]["spec"]["initContainers"]
        assert fetch["args"][-2:] == ["--commit", commit]
    world.planned("merge-1", code_commit="f" * 40)
    assert world.settle() == "Failed"
    assert world.message() == f"The merge step used the commit {'f' * 40} of code.git, expected {commit}."


def test_a_request_without_the_commit_of_the_code_fails_the_job(world: World) -> None:
    world.apply(code={"git": {"url": "https://git.example/code", "ref": "main"}})
    world.settle()
    world.scan_requested()

    assert world.settle() == "Failed"
    assert world.message() == "The plan step doesn't report the commit of code.git."


# --- changes while it runs ------------------------------------------------------------------------------------------------


def test_the_number_of_pods_may_change_during_a_scan(world: World) -> None:
    world.scanning()
    assert world.job("scan-1")["spec"]["parallelism"] == 2
    world.edit(workers={"parallelism": 3})
    world.settle()
    assert world.job("scan-1")["spec"]["parallelism"] == 3
    world.edit(workers={"parallelism": 9})
    world.settle()
    assert world.job("scan-1")["spec"]["parallelism"] == 4, "there are four parts"


@pytest.mark.parametrize("suffix", ["scan-1", "merge-1"])
def test_a_suspended_job_stops_and_goes_on(world: World, suffix: str) -> None:
    world.scanning()
    if suffix == "merge-1":
        world.scanned()
        world.settle()
    world.edit(suspend=True)
    assert world.settle() == "Suspended"
    assert world.job(suffix)["spec"]["suspend"] is True

    world.edit(suspend=False)
    assert world.settle() == "Planning"
    assert world.job(suffix)["spec"]["suspend"] is False


def test_evictions_without_a_scanned_part_are_followed_by_pauses(world: World) -> None:
    world.scanning()
    for number in range(2):
        world.pod("scan-1", disrupted(world), name=f"evicted-{number}", index=0)

    assert world.settle() == "Pending"
    assert world.job("scan-1")["spec"]["suspend"] is True
    assert world.message("Running").startswith("Pods were evicted 2 times without a finished part of the scan.")
    assert world.wait is not None
    assert world.later(world.wait) == "Planning"

    progressed(world, "1")
    world.pod("scan-1", disrupted(world), name="evicted-2", index=0)
    assert world.settle() == "Planning", "a part was scanned in between"
    assert world.status()["evictions"]["inARow"] == 1


def test_the_merge_step_begins_a_new_row_of_evictions(world: World) -> None:
    world.scanning()
    world.pod("scan-1", disrupted(world), name="evicted-0", index=0)
    world.settle()
    world.scanned()
    world.settle()
    world.later(5)
    world.pod("merge-1", disrupted(world), name="evicted-1")
    world.settle()

    assert (world.status()["evictions"]["count"], world.status()["evictions"]["inARow"]) == (2, 1)


def test_too_many_evictions_fail_a_scan(world: World) -> None:
    world.apply(maxEvictions=1)
    world.settle()
    world.scan_requested()
    world.settle()
    for number in range(2):
        world.pod("scan-1", disrupted(world), name=f"evicted-{number}", index=0)
    assert world.settle() == "Failed"
    assert world.condition("Failed") == ("True", "TooManyEvictions")


@pytest.mark.parametrize("step", ["scan", "merge"])
def test_each_job_of_the_planning_has_the_deadline_of_the_plan_step(world: World, step: str) -> None:
    world.apply(stepDeadlines={"planSeconds": 100})
    world.settle()
    world.later(90)
    world.scan_requested()
    world.settle()
    if step == "merge":
        world.later(90)
        world.scanned()
        world.settle()
    running(world, f"{step}-1")

    assert world.later(99) == "Planning"
    assert world.later(2) == "Failed"
    assert world.message() == f"The {step} step ran for longer than stepDeadlines.planSeconds (100 s)."
    assert world.job(f"{step}-1")["spec"]["suspend"] is True


# --- failures -------------------------------------------------------------------------------------------------------------


def test_a_part_that_fails_for_good_fails_the_job_with_its_sentence_and_a_retry_plans_again(world: World) -> None:
    world.scanning()
    failure = a_failure(Reason.BAD_RECORDS, "s3://in/a: line 7 is no JSON", exit_code=3, index=2, input="s3://in/a")
    pod = world.pod("scan-1", world.ended(3, failure), index=2)
    cause = f"Container dataprep for pod {NAMESPACE}/{pod['metadata']['name']} failed with exit code 3"
    world.fail("scan-1", "PodFailurePolicy", cause, completedIndexes="0-1")

    assert world.settle() == "Failed"
    assert world.message() == "s3://in/a: line 7 is no JSON"
    [found] = world.status()["failures"]
    assert (found["step"], found["index"], found["reason"]) == ("Scan", 2, "BadRecords")

    assert retry(world) == "Planning"
    assert (world.status()["step"], world.status().get("scan"), world.status().get("progress")) == ("Plan", None, None)
    assert world.jobs() == ["plan", "plan-2", "scan-1"]
    world.scan_requested("plan-2")
    world.settle()
    assert container_of(world.job("scan-2"))["args"][-2:] == ["--tasks", "2-3"], "the others are done"
    world.later(10)
    assert world.status()["progress"]["summary"] == "2/4"


@pytest.mark.parametrize(("scan", "parts"), [("beef" * 4, 4), ("beef" * 4, 8), (SCAN, 8), (SCAN, 3), (SCAN, 2)])
def test_another_scan_or_division_after_a_retry_scans_everything(world: World, scan: str, parts: int) -> None:
    world.scanning()
    world.fail("scan-1", "FailedIndexes", "Job has failed indexes", failedIndexes="2", completedIndexes="0-1")
    assert world.settle() == "Failed"
    retry(world)
    world.scan_requested("plan-2", scan=scan, parts=parts)
    world.settle()

    arguments = ["--scan", scan, "--parts", str(parts)]
    assert (world.job("scan-2")["spec"]["completions"], container_of(world.job("scan-2"))["args"][-4:]) == (parts, arguments)
    assert world.status()["progress"]["summary"] == f"0/{parts}"


def test_parts_that_fail_too_often_are_counted(world: World) -> None:
    world.scanning()
    world.pod("scan-1", world.ended(4, a_failure(Reason.STORE_UNREACHABLE, "the store timed out", exit_code=4)), index=1)
    world.fail("scan-1", "FailedIndexes", "Job has failed indexes", failedIndexes="1", completedIndexes="0,2-3")

    assert world.settle() == "Failed"
    assert world.message() == "1 of 4 parts failed permanently (indexes 1); last failure: the store timed out"


def test_a_part_has_the_retries_of_a_task(world: World) -> None:
    world.apply(backoffLimit=0, backoffLimitPerIndex=1)
    world.settle()
    world.scan_requested()
    world.settle()
    for number in range(2):
        world.pod("scan-1", world.ended(143), name=f"stopped-{number}", index=1)
        assert world.settle() == ("Planning" if number == 0 else "Failed")
    assert world.message().startswith("The part of index 1 failed 2 times; last failure: The container ended with exit code 143")


def test_a_complete_scan_has_no_result_to_look_for(world: World) -> None:
    world.scanning()
    world.scanned()
    world.cluster.calls.clear()
    world.settle()

    assert ("list", "pods") not in [call[:2] for call in world.cluster.calls]


def test_a_retry_after_a_failed_merge_plans_again(world: World) -> None:
    world.scanning()
    world.scanned()
    world.settle()
    world.plan_fails(a_failure(Reason.INPUT_CHANGED, "s3://in/a was changed"), "merge-1")
    assert world.settle() == "Failed"
    assert world.status()["failures"][0]["step"] == "Merge"

    assert retry(world) == "Planning"
    assert world.status()["step"] == "Plan"
    world.planned("plan-2")
    assert world.settle() == "Running"
    assert world.status().get("scan") is None, "the plan pod needed no scan this time"


# --- memory ---------------------------------------------------------------------------------------------------------------


def out_of_memory(world: World, suffix: str, *, index: int | None = None, **status: Any) -> str:  # Any: the API's JSON
    world.pod(suffix, world.ended(137, reason="OOMKilled"), index=index)
    world.fail(suffix, "BackoffLimitExceeded" if index is None else "FailedIndexes", "Job has failed", **status)
    return world.settle()


def test_a_scan_that_needs_more_memory_shares_it_with_the_conversion_and_scans_what_is_left(world: World) -> None:
    world.apply(workers=WORKERS, retry=GROWTH)
    world.settle()
    world.scan_requested()
    world.settle()

    assert out_of_memory(world, "scan-1", index=2, failedIndexes="2", completedIndexes="0-1") == "Planning"
    assert world.status()["effective"] == {"memory": "2048Mi"}
    assert "MemoryRaised" in world.events()
    container = container_of(world.job("scan-2"))
    assert (container["resources"]["limits"], container["args"][-2:]) == ({"memory": "2048Mi"}, ["--tasks", "2-3"])
    assert world.status()["progress"]["summary"] == "2/4"
    world.restart()
    progressed(world, "1", "scan-2")
    assert world.status()["progress"]["summary"] == "3/4"

    world.scanned("scan-2", indexes="0-1")
    world.settle()
    assert (world.status()["progress"]["summary"], container_of(world.job("merge-2"))["resources"]) == ("4/4", WORKERS["resources"])
    world.planned("merge-2")
    world.settle()
    assert container_of(world.job("convert-2"))["resources"]["limits"] == {"memory": "2048Mi"}


def test_a_merge_that_needs_more_memory_is_repeated_with_that_of_the_plan_step(world: World) -> None:
    world.apply(workers=WORKERS, planning={"resources": {"limits": {"memory": "1Gi"}}}, retry=GROWTH)
    world.settle()
    world.scan_requested()
    world.settle()
    world.scanned()
    world.settle()

    assert out_of_memory(world, "merge-1") == "Planning"
    assert (world.status()["step"], world.status()["effective"]) == ("Merge", {"planMemory": "2048Mi"})
    assert container_of(world.job("merge-2"))["resources"]["limits"] == {"memory": "2048Mi"}
    assert "scan-2" not in world.jobs()


@pytest.mark.parametrize(("suffix", "field"), [("scan-1", "workers"), ("merge-1", "planning")])
def test_the_message_names_the_field_to_raise(world: World, suffix: str, field: str) -> None:
    world.scanning()
    if suffix == "merge-1":
        world.scanned()
        world.settle()
    assert out_of_memory(world, suffix, index=0 if suffix == "scan-1" else None) == "Failed"
    assert f"raise {field}.resources.limits.memory" in world.message()


# --- many pods, metrics and the end ---------------------------------------------------------------------------------------


def test_a_part_that_claims_to_have_converted_shards_counts_as_a_scanned_part_only(world: World) -> None:
    world.scanning()
    lie = '{"kind": "work", "index": 0, "shardsDone": 8, "shardsSkipped": 0, "records": {"in": 9, "out": 9}, "bytesOut": 9}'
    world.pod("scan-1", world.ended(0, lie), index=0)
    world.settle()
    world.scanned()
    world.settle()
    world.planned("merge-1")
    world.settle()

    assert world.status()["progress"]["shards"] == {"total": 8, "done": 0, "active": 0, "failed": 0}


def test_cleanup_rules_delete_the_pods_of_a_scan(world: World) -> None:
    world.apply(cleanup=[{"when": "Succeeded", "action": "DeletePods", "afterSeconds": 60}])
    world.settle()
    world.scan_requested()
    world.settle()
    for index in range(4):
        world.pod("scan-1", world.ended(0), index=index)
    world.scanned()
    world.settle()
    world.planned("merge-1")
    world.settle()
    world.converted()
    world.settle()
    world.committed()
    assert world.settle() == "Succeeded"
    world.later(61)

    assert [name for plural, _, name in world.cluster.objects if plural == "pods"] == []


def test_a_job_that_is_deleted_during_its_scan_leaves_no_pod(world: World) -> None:
    world.apply(deletionPolicy="Delete")
    world.settle()
    world.scan_requested()
    world.settle()
    running(world, "scan-1", index=0)
    world.cluster.end("dataprepjobs", NAMESPACE, "mnist")
    world.settle()
    assert world.job("scan-1")["spec"]["suspend"] is True
    world.cluster.remove("pods", NAMESPACE, f"{world.job('scan-1')['metadata']['name']}-0-pod")

    assert world.settle() == "gone"
