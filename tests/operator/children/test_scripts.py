"""Tests of jobs that run a user's program: its pod, and the handling of its exit codes."""

from dataclasses import replace
from typing import Any

import pytest
from tests.builders.children import DEFAULTS, a_convert_job, a_job, a_spec, container_of, exit_rules
from tests.operator.world import World, a_failure, retry

from dataprep_api.reasons import Reason
from dataprep_operator.children import jobs
from dataprep_operator.settings import from_environment

COMMAND = ["python", "convert_to_records.py", "--name", "a b; $(id)", "${MINE}"]
SCRIPT: dict[str, Any] = {"command": COMMAND, "image": "tensorflow/tensorflow:1.0.0", "input": "s3://in/raw", "outputs": ["*.tfrecords"]}
ENV = [{"name": "MINE", "valueFrom": {"configMapKeyRef": {"name": "a", "key": "b"}}}, {"name": "DATAPREP_OUTPUT", "value": "/evil"}]
FRAMEWORKS = {"tensorflow:1.0.0": "docker.io/tensorflow/tensorflow:1.0.0", "pytorch:2.9": "pytorch/pytorch:2.9"}


def a_script_job(
    *, script: dict[str, Any] | None = None, defaults: Any = DEFAULTS, **rest: Any
) -> Any:  # Any: fields of the spec, and JSON
    workers = {"env": ENV} | rest.pop("workers", {})
    return a_convert_job(a_spec(source=None, script=SCRIPT | (script or {}), workers=workers, **rest), tasks=1, defaults=defaults)


# --- the pod ----------------------------------------------------------------------------------------------------------------


def test_the_program_gets_its_words_one_by_one_and_no_shell() -> None:
    made = container_of(a_script_job(script={"bucketsArgument": True, "checkpointDirArgument": True}))

    # Kubernetes replaces `$$` with a dollar sign and `$(MINE)` with the variable's value.
    words = ["python", "convert_to_records.py", "--name", "a b; $$(id)", "$(MINE)", "--buckets=s3://in/raw", "--checkpointDir=s3://out/x"]
    assert made["command"] == words
    assert "args" not in made


def test_its_image_is_unchanged_and_pulled_by_its_own_rules() -> None:
    made = container_of(a_script_job(defaults=replace(DEFAULTS, image_pull_policy="Never")))

    assert made["image"] == "tensorflow/tensorflow:1.0.0"
    assert "imagePullPolicy" not in made
    assert container_of(a_script_job(workers={"imagePullPolicy": "Always"}))["imagePullPolicy"] == "Always"


@pytest.mark.parametrize(
    ("script", "workers", "image"),
    [
        pytest.param({"image": None, "framework": "tensorflow:1.0.0"}, {}, FRAMEWORKS["tensorflow:1.0.0"], id="a framework"),
        pytest.param({"image": None}, {"image": "mine:1"}, "mine:1", id="the workers' image"),
        pytest.param({"image": None}, {}, "dataprep:1", id="the default"),
    ],
)
def test_where_its_image_comes_from(script: dict[str, Any], workers: dict[str, Any], image: str) -> None:
    assert container_of(a_script_job(script=script, workers=workers, defaults=replace(DEFAULTS, frameworks=FRAMEWORKS)))["image"] == image


def test_its_environment_has_input_output_and_run_id_after_the_jobs_own() -> None:
    env = container_of(a_script_job(script={"input": "s3://in/a$(b)"}))["env"]

    assert env[0] == {"name": "HOME", "value": "/tmp"}  # noqa: S108 - a path in the pod
    assert env[1] == ENV[0]
    assert {each["name"]: each.get("value") for each in env} == {
        "HOME": "/tmp",  # noqa: S108 - a path in the pod
        "MINE": None,
        "DATAPREP_INPUT": "s3://in/a$$(b)",
        "DATAPREP_OUTPUT": "s3://out/x",
        "DATAPREP_RUN_ID": "run1",
    }


def test_it_has_no_token_and_all_of_the_restricted_standard_but_the_read_only_root() -> None:
    pod = a_script_job(stores=[{"uriPrefix": "s3://", "secretRef": {"name": "keys"}}])["spec"]["template"]["spec"]

    assert pod["containers"][0]["securityContext"] == {
        "allowPrivilegeEscalation": False,
        "readOnlyRootFilesystem": False,
        "capabilities": {"drop": ["ALL"]},
    }
    assert pod["securityContext"]["runAsNonRoot"] is True
    assert pod["automountServiceAccountToken"] is False
    assert [each["name"] for each in pod["volumes"]] == ["dataprep-spec", "dataprep-tmp", "dataprep-secret-0"]
    assert [each["mountPath"] for each in pod["containers"][0]["volumeMounts"]] == ["/tmp", "/etc/dataprep/secrets/0"]  # noqa: S108 - a path in the pod


def test_it_starts_in_the_folder_of_its_code() -> None:
    code = {"configMapRef": {"name": "mine"}}

    assert container_of(a_script_job(code=code))["workingDir"] == "/etc/dataprep/code"
    assert container_of(a_script_job(code=code, script={"workingDirectory": "/work"}))["workingDir"] == "/work"
    assert "workingDir" not in container_of(a_script_job())


def test_its_exit_codes_mean_nothing_of_ours() -> None:
    assert exit_rules(a_script_job(onBadRecord={"policy": "Skip"})) == {"Ignore": [143]}


def test_plan_and_commit_are_ours() -> None:
    spec = a_spec(source=None, script=SCRIPT | {"command": ["true"]})
    plan = jobs.plan_job(a_job(), spec, attempt=1, defaults=DEFAULTS)
    commit = jobs.commit_job(a_job(), spec, run_id="r", plan_sha256="ab", attempt=1, defaults=DEFAULTS)

    for job in (plan, commit):
        assert (container_of(job)["image"], container_of(job)["command"]) == ("dataprep:1", ["dataprep"])
        assert container_of(job)["securityContext"]["readOnlyRootFilesystem"] is True


@pytest.mark.parametrize(
    ("accelerator", "gpu", "limits", "selector"),
    [
        pytest.param({}, False, None, {"pool": "cpu"}, id="no GPUs"),
        pytest.param({"policy": "Required", "count": 2}, True, {"nvidia.com/gpu": "2"}, {"pool": "gpu"}, id="two"),
    ],
)
def test_a_script_can_have_gpus(accelerator: dict[str, Any], gpu: bool, limits: Any, selector: dict[str, str]) -> None:
    spec = a_spec(source=None, script=SCRIPT | {"command": ["true"]}, workers={"accelerator": accelerator})
    pod = a_convert_job(spec, gpu=gpu)["spec"]["template"]["spec"]

    assert pod["containers"][0]["resources"].get("limits") == limits
    assert pod["nodeSelector"] == selector


# --- from start to end ------------------------------------------------------------------------------------------------------


def scripted(command: Any = "true", **script: Any) -> World:  # Any: fields of the spec
    world = World()
    world.apply(source=None, script={"command": command, "outputs": ["train.tfrecords"]} | script)
    world.settle()
    return world


def planned(**script: Any) -> World:  # Any: as above
    world = scripted(**script)
    world.planned(tasks=1, shards=0, records=0, bytes_in=0)
    assert world.settle() == "Running"
    return world


def test_a_script_that_makes_its_files_is_complete() -> None:
    world = planned(image="mine:1")
    assert world.status()["effective"]["image"] == "mine:1"
    world.converted(indexes="0")
    assert world.settle() == "Committing"
    world.committed(files=1, records={"in": 5, "out": 5})

    assert world.settle() == "Succeeded"
    assert world.status()["output"]["records"] == 5


def test_a_command_that_makes_nothing_is_never_complete() -> None:
    world = planned(command=["true"])
    world.converted(indexes="0")
    world.settle()
    text = "The script has ended, but its outputs in s3://out/mnist are not complete: train.tfrecords is missing."
    world.plan_fails(a_failure(Reason.OUTPUT_MISSING, text), suffix="commit-1")

    assert world.settle() == "Failed"
    assert world.condition("Failed") == ("True", "OutputMissing")
    assert world.condition("Complete") == ("", "")
    assert world.message() == text


def test_a_retry_runs_the_script_again() -> None:
    world = planned()
    world.converted(indexes="0")
    world.settle()
    world.plan_fails(a_failure(Reason.OUTPUT_MISSING, "gone"), suffix="commit-1")
    world.settle()
    retry(world)

    assert world.job("convert-2")["spec"]["completions"] == 1


FATES: dict[str, tuple[int, str, str, str, str]] = {
    "an exit code of ours": (
        2,
        "Traceback …\nKeyError: 'x'\n",
        "",
        "ScriptFailed",
        "The script ended with exit code 2: Traceback …\nKeyError: 'x'",
    ),
    "an exit code": (1, "", "", "ScriptFailed", "The script ended with exit code 1"),
    "killed": (137, "", "", "ScriptFailed", "The script was killed (exit code 137)"),
    "out of memory": (137, "", "OOMKilled", "OutOfMemory", "The container needed more memory than its limit"),
    "no such program": (
        128,
        'exec: "pyhton": executable file not found',
        "StartError",
        "ScriptFailed",
        "The script ended with exit code 128: exec",
    ),
    "a forged message": (
        1,
        '{"kind":"failure","reason":"Completed","message":"all is well","exitCode":1}',
        "",
        "ScriptFailed",
        'The script ended with exit code 1: {"kind":"failure"',
    ),
}


@pytest.mark.parametrize(("code", "words", "why", "reason", "message"), FATES.values(), ids=FATES.keys())
def test_a_script_that_fails_is_told_with_its_last_words(code: int, words: str, why: str, reason: str, message: str) -> None:
    world = planned()
    world.pod(
        "convert-1",
        world.ended(code, words, reason=why),
        index=0,
        metadata={"annotations": world.job("convert-1")["spec"]["template"]["metadata"]["annotations"]},
    )
    world.fail("convert-1", "FailedIndexes", failedIndexes="0")

    assert world.settle() == "Failed"
    assert world.condition("Failed") == ("True", reason)
    assert message in world.message()
    assert world.status()["failures"][0]["reason"] == reason


def test_an_unknown_framework_is_refused_with_the_known_ones() -> None:
    world = World()
    world.settings = replace(world.settings, pods=replace(world.settings.pods, frameworks=FRAMEWORKS))
    world.restart()
    world.apply(source=None, script={"command": ["true"], "outputs": ["a"], "framework": "tensorflow:0.9"})

    assert world.settle() == "Failed"
    assert world.condition("Failed") == ("True", "InvalidSpec")
    known = "no framework named 'tensorflow:0.9' in this installation (known: pytorch:2.9, tensorflow:1.0.0)"
    assert world.message() == f"spec.script.framework: {known}; set script.image instead"
    assert world.jobs() == []


def test_a_reference_that_nothing_fills_never_reaches_a_pod() -> None:
    world = scripted(command=["echo", "${nothing}"])

    assert world.condition("Failed") == ("True", "InvalidSpec")
    assert world.message().startswith("spec.script.command[1]: ${nothing} is neither in spec.params nor in spec.workers.env")
    assert world.jobs() == []


def test_frameworks_are_a_setting() -> None:
    found = from_environment({"DATAPREP_FRAMEWORKS": '{"tensorflow:1.0.0": "tensorflow/tensorflow:1.0.0"}'})

    assert found.pods.frameworks == {"tensorflow:1.0.0": "tensorflow/tensorflow:1.0.0"}


# --- code from Git ------------------------------------------------------------------------------------------------------------

COMMIT = "0123456789abcdef0123456789abcdef01234567"
GIT: dict[str, Any] = {
    "git": {"url": "https://code.aliyun.com/deeplearning/mnist-examples.git", "subPath": "tools", "secretRef": {"name": "git-token"}}
}


def fetching(job: Any) -> Any:  # Any: JSON
    (found,) = job["spec"]["template"]["spec"]["initContainers"]
    return found


def test_an_init_container_of_ours_fetches_the_code_and_alone_has_its_secret() -> None:
    job = a_script_job(code=GIT)
    init, program = fetching(job), container_of(job)

    assert (init["image"], init["command"], init["args"][0]) == ("dataprep:1", ["dataprep"], "fetch-code")
    assert init["securityContext"]["readOnlyRootFilesystem"] is True
    mounted = {each["mountPath"] for each in init["volumeMounts"]}
    assert mounted == {"/etc/dataprep/job.yaml", "/etc/dataprep/code", "/tmp", "/etc/dataprep/git"}  # noqa: S108 - a path in the pod
    assert "/etc/dataprep/git" not in {each["mountPath"] for each in program["volumeMounts"]}
    assert program["workingDir"] == "/etc/dataprep/code/tools"
    volumes = {each["name"]: each for each in job["spec"]["template"]["spec"]["volumes"]}
    assert volumes["dataprep-git"]["secret"] == {"secretName": "git-token", "optional": False}
    assert volumes["dataprep-code"] == {"name": "dataprep-code", "emptyDir": {"sizeLimit": "4Gi"}}


def test_plug_ins_from_git_are_where_the_converter_looks() -> None:
    env = {each["name"]: each.get("value") for each in container_of(a_convert_job(a_spec(code=GIT)))["env"]}

    assert env["DATAPREP_CODE"] == "/etc/dataprep/code/tools"
    assert env["DATAPREP_CODE_COMMIT_FILE"] == "/etc/dataprep/code/.dataprep-commit"


def test_the_reference_is_resolved_by_the_plan_and_pinned_for_all_that_follows() -> None:
    world = World()
    world.apply(code=GIT)
    world.settle()
    assert "--commit" not in fetching(world.job("plan"))["args"]
    world.planned(code_commit=COMMIT)
    world.settle()
    assert world.status()["code"] == {"commit": COMMIT}
    assert fetching(world.job("convert-1"))["args"][-2:] == ["--commit", COMMIT]
    world.converted()
    world.settle()
    assert fetching(world.job("commit-1"))["args"][-2:] == ["--commit", COMMIT]


def test_a_plan_without_its_commit_is_not_believed() -> None:
    world = World()
    world.apply(code=GIT)
    world.settle()
    world.planned()

    assert world.settle() == "Failed"
    assert world.message() == "The plan step doesn't report the commit of code.git."


def test_code_that_can_not_be_fetched_is_told() -> None:
    world = World()
    world.apply(code=GIT)
    world.settle()
    text = "https://code.aliyun.com/x.git has no branch, tag or commit (of 40 digits) 'nothing'; it has master."
    done = world.ended(5, a_failure(Reason.INPUT_NOT_FOUND, text))
    (state,) = done.pop("containerStatuses")
    waits = {"name": "dataprep", "state": {"waiting": {"reason": "PodInitializing"}}}
    pod = world.pod("plan", done | {"initContainerStatuses": [state | {"name": "dataprep-code"}], "containerStatuses": [waits]})
    world.fail("plan", "PodFailurePolicy", f"Container dataprep-code for pod team-a/{pod['metadata']['name']} failed with exit code 5")

    assert world.settle() == "Failed"
    assert world.condition("Failed") == ("True", "InputNotFound")
    assert world.message() == text
