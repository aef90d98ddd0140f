"""Tests of the bodies of child objects: their names, arguments and failure rules, and the pods' privileges."""

from dataclasses import replace
from typing import Any

import pytest
from tests.builders.children import DEFAULTS, SHA, a_convert_job, a_job, a_spec, container_of, exit_rules

from dataprep_api import names
from dataprep_api.spec import DataPrepJobSpec
from dataprep_operator.children import jobs
from dataprep_operator.children.metadata import child_name
from dataprep_operator.objects.child_jobs import ANNOTATION_TASKS, QUEUE_LABEL
from dataprep_operator.settings import PodDefaults


@pytest.mark.parametrize(
    ("name", "step", "attempt", "expected"),
    [
        ("mnist", "plan", 1, "mnist-0f1e2d3c00-plan"),
        ("mnist", "plan", 2, "mnist-0f1e2d3c00-plan-2"),
        ("mnist", "convert", 1, "mnist-0f1e2d3c00-convert-1"),
        ("a.b.c", "commit", 3, "a-b-c-0f1e2d3c00-commit-3"),
        ("x" * 253, "convert", 9, "x" * 36 + "-0f1e2d3c00-convert-9"),
    ],
)
def test_names_of_children(name: str, step: str, attempt: int, expected: str) -> None:
    assert child_name(a_job(name), step, attempt) == expected


def test_an_index_behind_the_longest_name_fits_63_characters() -> None:
    assert len(f"{child_name(a_job('x' * 253), 'convert', 9)}-99999") <= 63


def test_the_spec_is_stored_as_the_user_wrote_it() -> None:
    body = jobs.spec_config_map(a_job(), None)

    assert body["immutable"] is True
    assert body["metadata"]["name"] == "mnist-0f1e2d3c00-spec"
    assert '"uri":"${where}"' in body["data"]["job.yaml"]


def test_the_stored_spec_has_no_defaults_of_the_api_server() -> None:
    """Without the defaults, an earlier release that doesn't know the field `anonymous` can run a job that doesn't set this field."""
    spec = {"output": {"uri": "s3://out/x", "shards": {}, "tfrecord": {"compression": "Gzip", "compressionLevel": 6}}, "allowEmpty": False}
    body = jobs.spec_config_map(a_job(raw_spec=spec | {"stores": [{"uriPrefix": "s3://", "anonymous": False, "pathStyle": True}]}), None)

    assert jobs.read_spec(body) == {
        "output": {"uri": "s3://out/x", "tfrecord": {"compression": "Gzip"}},
        "stores": [{"uriPrefix": "s3://", "pathStyle": True}],
    }


def test_every_child_has_our_labels_and_our_owner() -> None:
    seen = a_job()
    bodies = [
        jobs.plan_job(seen, a_spec(), attempt=1, defaults=DEFAULTS),
        a_convert_job(),
        jobs.commit_job(seen, a_spec(), run_id="r", plan_sha256=SHA, attempt=1, defaults=DEFAULTS),
    ]

    for step, body in zip(("plan", "convert", "commit"), bodies, strict=True):
        for labels in (body["metadata"]["labels"], body["spec"]["template"]["metadata"]["labels"]):
            assert labels["app.kubernetes.io/managed-by"] == "dataprep-operator"
            assert (labels["dataprep.io/step"], labels["dataprep.io/job"], labels["dataprep.io/attempt"]) == (step, "mnist", "1")
        assert body["metadata"]["ownerReferences"][0]["uid"] == seen.uid
        assert "ttlSecondsAfterFinished" not in body["spec"]
        assert body["spec"]["podReplacementPolicy"] == "Failed"


def test_a_pod_meets_the_restricted_standard() -> None:
    pod = a_convert_job()["spec"]["template"]["spec"]

    assert pod["automountServiceAccountToken"] is False
    assert pod["enableServiceLinks"] is False
    assert pod["restartPolicy"] == "Never"
    assert pod["securityContext"]["runAsNonRoot"] is True
    assert pod["securityContext"]["seccompProfile"] == {"type": "RuntimeDefault"}
    assert pod["containers"][0]["securityContext"] == {
        "allowPrivilegeEscalation": False,
        "readOnlyRootFilesystem": True,
        "capabilities": {"drop": ["ALL"]},
    }


# The volume types that OpenShift's SCC restricted-v2 allows, according to its documentation.
RESTRICTED_V2_VOLUMES = {"configMap", "csi", "downwardAPI", "emptyDir", "ephemeral", "persistentVolumeClaim", "projected", "secret"}


def faults_by_restricted_v2(pod: Any) -> list[str]:  # Any: JSON
    whole, found = pod.get("securityContext", {}), []
    for container in [*pod.get("initContainers", []), *pod["containers"]]:
        own = container.get("securityContext", {})
        found += [f"{container['name']}: {key}" for key in ("runAsUser", "privileged") if key in own]
        if own.get("allowPrivilegeEscalation") is not False or own.get("capabilities") != {"drop": ["ALL"]}:
            found.append(f"{container['name']}: privileges")
        found += [f"{container['name']}: hostPort" for port in container.get("ports", []) if "hostPort" in port]
    found += [f"pod: {key}" for key in ("runAsUser", "fsGroup", "seLinuxOptions", "sysctls") if key in whole]
    if whole.get("seccompProfile") != {"type": "RuntimeDefault"}:
        found.append("pod: seccompProfile")
    found += [f"pod: {key}" for key in ("hostNetwork", "hostPID", "hostIPC") if pod.get(key)]
    return found + [f"volume {each['name']}" for each in pod.get("volumes", []) if not (set(each) - {"name"}) <= RESTRICTED_V2_VOLUMES]


CODE = {"git": {"url": "https://git.example/code.git", "ref": "main"}}


def every_job(spec: DataPrepJobSpec, defaults: PodDefaults) -> list[Any]:  # Any: JSON
    """Return one Job for each step."""
    seen = a_job()
    return [
        jobs.plan_job(seen, spec, attempt=1, defaults=defaults),
        a_convert_job(spec, defaults=defaults),
        jobs.commit_job(seen, spec, run_id="r", plan_sha256=SHA, attempt=1, defaults=defaults),
        jobs.cleanup_job(seen, spec, runs=["r"], defaults=defaults),
    ]


def pods_of(jobs: list[Any]) -> list[Any]:  # Any: JSON
    return [job["spec"]["template"]["spec"] for job in jobs]


def test_without_a_fixed_user_openshift_s_restricted_v2_takes_every_pod() -> None:
    spec = a_spec(code=CODE, stores=[{"uriPrefix": "s3://in/", "secretRef": {"name": "keys"}, "configMapRef": {"name": "conf"}}])

    for pod in pods_of(every_job(spec, replace(DEFAULTS, run_as_user=None))):
        assert faults_by_restricted_v2(pod) == []
        assert pod["securityContext"]["runAsNonRoot"] is True
        assert "runAsGroup" not in pod["securityContext"]


def test_a_fixed_user_is_outside_restricted_v2_s_range() -> None:
    for pod in pods_of(every_job(a_spec(), DEFAULTS)):
        assert faults_by_restricted_v2(pod) == ["pod: runAsUser", "pod: fsGroup"]
        assert (pod["securityContext"]["runAsUser"], pod["securityContext"]["fsGroup"]) == (65532, 65532)


def test_the_installation_adds_to_the_security_context_of_pods() -> None:
    defaults = replace(DEFAULTS, pod_security_context={"supplementalGroups": [2000], "fsGroup": 3000})

    for pod in pods_of(every_job(a_spec(), defaults)):
        assert pod["securityContext"]["supplementalGroups"] == [2000]
        assert pod["securityContext"]["fsGroup"] == 3000
        assert pod["securityContext"]["runAsUser"] == 65532


def test_pull_secrets_are_the_installation_s_unless_the_job_names_some() -> None:
    defaults = replace(DEFAULTS, image_pull_secrets=({"name": "mirror"},))

    for pod in pods_of(every_job(a_spec(), defaults)):
        assert pod["imagePullSecrets"] == [{"name": "mirror"}]
    for pod in pods_of(every_job(a_spec(workers={"imagePullSecrets": [{"name": "own"}]}), defaults)):
        assert pod["imagePullSecrets"] == [{"name": "own"}]


def required(pod: Any) -> Any:  # Any: JSON
    return pod["affinity"]["nodeAffinity"]["requiredDuringSchedulingIgnoredDuringExecution"]["nodeSelectorTerms"]


OFF_GPUS = {"key": "nvidia.com/gpu.present", "operator": "NotIn", "values": ["true"]}


def test_pods_without_gpus_keep_off_the_nodes_that_the_installation_names() -> None:
    defaults = replace(DEFAULTS, cpu_avoid_nodes={"nvidia.com/gpu.present": "true", "amd.com/gpu.present": "true"})
    own = a_spec(workers={"nodeSelector": {"zone": "a"}})

    for pod in pods_of(every_job(own, defaults)):
        assert pod["nodeSelector"] == {"zone": "a"}
        assert required(pod) == [{"matchExpressions": [OFF_GPUS | {"key": "amd.com/gpu.present"}, OFF_GPUS]}]


def test_pods_with_gpus_keep_off_no_node() -> None:
    spec = a_spec(workers={"accelerator": {"policy": "Required"}})
    defaults = replace(DEFAULTS, cpu_avoid_nodes={"nvidia.com/gpu.present": "true"})

    assert "affinity" not in a_convert_job(spec, gpu=True, defaults=defaults)["spec"]["template"]["spec"]


def test_nodes_to_avoid_are_added_to_each_term_of_a_job_s_affinity() -> None:
    zone = {"key": "zone", "operator": "In", "values": ["a"]}
    preferred = [{"weight": 1, "preference": {"matchExpressions": [zone]}}]
    # An empty term matches no node. With labels, the term would match some nodes, so the operator must not add labels to it.
    terms = [{"matchExpressions": [zone]}, {"matchFields": [zone | {"key": "metadata.name"}]}, {}]
    nodes = {
        "preferredDuringSchedulingIgnoredDuringExecution": preferred,
        "requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": terms},
    }
    spec = a_spec(workers={"affinity": {"nodeAffinity": nodes, "podAntiAffinity": {}}})

    pod = a_convert_job(spec, defaults=replace(DEFAULTS, cpu_avoid_nodes={"nvidia.com/gpu.present": "true"}))["spec"]["template"]["spec"]

    assert required(pod) == [
        {"matchExpressions": [zone, OFF_GPUS]},
        {"matchFields": [zone | {"key": "metadata.name"}], "matchExpressions": [OFF_GPUS]},
        {},
    ]
    assert pod["affinity"]["nodeAffinity"]["preferredDuringSchedulingIgnoredDuringExecution"] == preferred
    assert pod["affinity"]["podAntiAffinity"] == {}


EXITS = {
    "one bad record fails the job": ("Fail", {"Ignore": [143], "FailJob": [2, 3, 5]}),
    "bad records fail their task": ("Skip", {"Ignore": [143], "FailJob": [2, 5], "FailIndex": [3]}),
}


@pytest.mark.parametrize(("policy", "rules"), EXITS.values(), ids=EXITS.keys())
def test_exit_codes_of_the_conversion(policy: str, rules: dict[str, list[int]]) -> None:
    assert exit_rules(a_convert_job(a_spec(onBadRecord={"policy": policy}))) == rules


def test_exit_codes_of_the_single_steps() -> None:
    plan = jobs.plan_job(a_job(), a_spec(), attempt=1, defaults=DEFAULTS)
    commit = jobs.commit_job(a_job(), a_spec(), run_id="r", plan_sha256=SHA, attempt=1, defaults=DEFAULTS)

    assert exit_rules(plan)["FailJob"] == [2, 3, 4, 5]
    assert exit_rules(commit)["FailJob"] == [2, 3, 5]
    assert plan["spec"]["podFailurePolicy"]["rules"][0]["onPodConditions"][0]["type"] == "DisruptionTarget"


def test_a_conversion_has_one_index_for_each_task() -> None:
    job = a_convert_job(a_spec(workers={"parallelism": 4}, backoffLimitPerIndex=2, maxFailedIndexes=50))

    spec = job["spec"]
    assert (spec["completionMode"], spec["completions"], spec["parallelism"]) == ("Indexed", 10, 4)
    assert (spec["backoffLimitPerIndex"], spec["maxFailedIndexes"]) == (2, 10)
    assert "--tasks" not in container_of(job)["args"]


def test_a_retry_has_one_index_for_each_missing_task() -> None:
    job = a_convert_job(a_spec(workers={"parallelism": 4}), only=[7, 1, 2], attempt=2)

    assert (job["spec"]["completions"], job["spec"]["parallelism"]) == (3, 3)
    assert container_of(job)["args"][-2:] == ["--tasks", "1-2,7"]
    assert job["metadata"]["annotations"][ANNOTATION_TASKS] == "1-2,7"


def test_a_list_of_tasks_too_long_for_an_argument_becomes_all_tasks() -> None:
    job = a_convert_job(tasks=90_000, only=list(range(0, 90_000, 2)))

    assert "--tasks" not in container_of(job)["args"]
    assert job["spec"]["completions"] == 90_000


def test_a_queue_takes_over_the_conversion() -> None:
    job = a_convert_job(seen=a_job(queue="q", queue_labels={QUEUE_LABEL: "q", "kueue.x-k8s.io/priority-class": "low"}))

    assert job["spec"]["suspend"] is True
    assert job["metadata"]["labels"]["kueue.x-k8s.io/priority-class"] == "low"


def test_cpu_pods_use_cpu_nodes_and_ask_for_no_gpu() -> None:
    pod = a_convert_job(a_spec(workers={"accelerator": {"policy": "Preferred"}}))["spec"]["template"]["spec"]

    assert pod["nodeSelector"] == {"pool": "cpu"}
    assert pod["containers"][0]["resources"] == {"requests": {"cpu": "250m"}}
    assert [each["key"] for each in pod["tolerations"]] == ["cpu-only", "node.kubernetes.io/not-ready", "node.kubernetes.io/unreachable"]


def test_gpu_pods_use_gpu_nodes_and_ask_for_their_gpus() -> None:
    spec = a_spec(
        workers={"accelerator": {"policy": "Required", "count": 2}, "resources": {"limits": {"memory": "4Gi"}}, "tolerations": []}
    )
    pod = a_convert_job(spec, gpu=True)["spec"]["template"]["spec"]

    assert pod["nodeSelector"] == {"pool": "gpu"}
    assert pod["containers"][0]["resources"] == {"limits": {"memory": "4Gi", "nvidia.com/gpu": "2"}}
    assert pod["tolerations"][0]["key"] == "nvidia.com/gpu"


def test_devices_are_the_conversions_alone() -> None:
    """A plan pod that requested a GPU would wait for the GPU and then not use it."""
    resources = {
        "requests": {"cpu": "2", "nvidia.com/gpu": "1"},
        "limits": {"memory": "4Gi", "ephemeral-storage": "9Gi", "nvidia.com/gpu": "1", "rdma/hca": "1"},
    }
    spec = a_spec(workers={"resources": resources}, code=CODE)
    plan, convert, commit, cleanup = pods_of(every_job(spec, DEFAULTS))

    assert convert["containers"][0]["resources"] == resources
    bare = {"requests": {"cpu": "2"}, "limits": {"memory": "4Gi", "ephemeral-storage": "9Gi"}}
    others = [*(pod["containers"][0] for pod in (plan, commit, cleanup)), *(pod["initContainers"][0] for pod in (plan, convert, commit))]
    assert [each["resources"] for each in others] == [bare] * 6
    assert [pod["nodeSelector"] for pod in (plan, commit, cleanup)] == [{"pool": "cpu"}] * 3


def test_only_devices_leaves_a_plan_without_resources() -> None:
    plan = pods_of(every_job(a_spec(workers={"resources": {"limits": {"nvidia.com/gpu": "1"}}}), DEFAULTS))[0]

    assert plan["containers"][0]["resources"] == {}


def test_a_conversion_that_fell_back_to_cpus_asks_for_no_gpu() -> None:
    workers = {"accelerator": {"policy": "Preferred"}, "resources": {"limits": {"memory": "4Gi", "nvidia.com/gpu": "1"}}}

    assert container_of(a_convert_job(a_spec(workers=workers), gpu=False))["resources"] == {"limits": {"memory": "4Gi"}}


def test_the_jobs_own_choices_win_over_the_charts() -> None:
    accelerator = {"policy": "Required", "nodeSelector": {"a": "b"}, "tolerations": [{"key": "t", "operator": "Exists"}]}
    spec = a_spec(workers={"image": "mine:2", "imagePullPolicy": "Always", "accelerator": accelerator, "priorityClassName": "low"})
    pod = a_convert_job(spec, gpu=True)["spec"]["template"]["spec"]

    assert pod["nodeSelector"] == {"a": "b"}
    assert "t" in {each["key"] for each in pod["tolerations"]}
    assert (pod["containers"][0]["image"], pod["containers"][0]["imagePullPolicy"]) == ("mine:2", "Always")
    assert pod["priorityClassName"] == "low"


def test_secrets_and_hadoop_configuration_are_mounted_where_the_converter_looks() -> None:
    stores = [
        {"uriPrefix": "s3://", "secretRef": {"name": "keys"}},
        {"uriPrefix": "hdfs://", "configMapRef": {"name": "hadoop"}, "secretRef": {"name": "keytab-of-etl"}},
    ]
    pod = a_convert_job(a_spec(stores=stores))["spec"]["template"]["spec"]
    mounts = {each["mountPath"]: each["name"] for each in pod["containers"][0]["volumeMounts"]}
    volumes = {each["name"]: each for each in pod["volumes"]}

    assert volumes[mounts["/etc/dataprep/secrets/0"]]["secret"] == {"secretName": "keys", "optional": False}
    assert volumes[mounts["/etc/dataprep/secrets/1"]]["secret"] == {"secretName": "keytab-of-etl", "optional": False}
    assert volumes[mounts["/etc/dataprep/hadoop/1"]]["configMap"]["name"] == "hadoop"
    assert volumes[mounts["/etc/dataprep/job.yaml"]]["configMap"]["name"] == "mnist-0f1e2d3c00-spec"
    assert volumes[mounts["/var/run/secrets/dataprep"]]["projected"]["sources"][0]["serviceAccountToken"]["audience"] == "dataprep-operator"


def test_our_environment_comes_after_the_users() -> None:
    job = a_convert_job(a_spec(workers={"env": [{"name": "DATAPREP_MOUNTS", "value": "/evil"}, {"name": "MINE", "value": "1"}]}))
    last = {each["name"]: each.get("value") for each in container_of(job)["env"]}

    assert last["DATAPREP_MOUNTS"] == "/etc/dataprep"
    assert (last["MINE"], last["DATAPREP_JOB_NAME"], last["DATAPREP_ATTEMPT"]) == ("1", "mnist", "1")
    assert last["DATAPREP_STATUS_TOKEN_FILE"] == "/var/run/secrets/dataprep/token"
    assert "POD_NAME" in last


def test_without_a_status_url_workers_are_told_none() -> None:
    job = a_convert_job(defaults=PodDefaults())

    assert not {each["name"] for each in container_of(job)["env"]} & {"DATAPREP_STATUS_URL", "DATAPREP_STATUS_TOKEN_FILE"}


def test_an_init_container_has_no_more_rights_than_the_converter() -> None:
    given = [{"name": "a", "image": "i"}, {"name": "b", "image": "i", "securityContext": {"readOnlyRootFilesystem": True}}]
    pod = a_convert_job(a_spec(workers={"podTemplate": {"initContainers": given}}))["spec"]["template"]["spec"]
    ours = {"allowPrivilegeEscalation": False, "capabilities": {"drop": ["ALL"]}}

    assert [each["securityContext"] for each in pod["initContainers"]] == [ours, ours | {"readOnlyRootFilesystem": True}]


def test_every_pod_has_the_service_account_and_room_for_what_a_webhook_injects() -> None:
    """The token's volume looks like the one that the webhooks of RRSA and IRSA add."""
    token = {"serviceAccountToken": {"path": "token", "audience": "sts.aliyuncs.com", "expirationSeconds": 3600}}
    mount = {"name": "rrsa", "mountPath": "/var/run/secrets/rrsa", "readOnly": True}
    role = {"name": "ALIBABA_CLOUD_ROLE_ARN", "value": "acs:ram::1:role/training"}
    volume = {"name": "rrsa", "projected": {"sources": [token]}}
    workers = {"serviceAccountName": "training", "env": [role], "volumes": [volume], "volumeMounts": [mount]}
    pod = a_convert_job(a_spec(workers=workers))["spec"]["template"]["spec"]

    assert pod["serviceAccountName"] == "training"
    assert volume in pod["volumes"]
    assert mount in pod["containers"][0]["volumeMounts"]
    assert role in pod["containers"][0]["env"]
    assert not any(
        each["mountPath"].startswith(("/var/run/secrets/ack", "/var/run/secrets/eks")) for each in pod["containers"][0]["volumeMounts"]
    )


def test_a_job_can_be_made_for_100_000_tasks_and_more() -> None:
    assert a_convert_job(tasks=150_000)["spec"]["maxFailedIndexes"] == 10_000


# --- the user's additions to the pods -------------------------------------------------------------------------------------


def test_pods_take_what_the_template_adds_and_keep_what_the_operator_needs() -> None:
    added = {
        "labels": {"team": "vision", names.LABEL_STEP: "forged"},
        "annotations": {"sidecar.istio.io/inject": "false"},
        "initContainers": [{"name": "proxy", "image": "proxy:1", "restartPolicy": "Always"}],
        "topologySpreadConstraints": [{"maxSkew": 1, "topologyKey": "zone", "whenUnsatisfiable": "ScheduleAnyway"}],
        "hostAliases": [{"ip": "10.0.0.7", "hostnames": ["nn1"]}],
        "runtimeClassName": "gvisor",
        "terminationGracePeriodSeconds": 0,
    }
    template = a_convert_job(a_spec(workers={"podTemplate": added}))["spec"]["template"]

    assert template["metadata"]["labels"]["team"] == "vision"
    assert template["metadata"]["labels"][names.LABEL_STEP] == "convert"
    assert template["metadata"]["annotations"]["sidecar.istio.io/inject"] == "false"
    assert [each["name"] for each in template["spec"]["initContainers"]] == ["proxy"]
    assert template["spec"]["topologySpreadConstraints"] == added["topologySpreadConstraints"]
    assert template["spec"]["hostAliases"] == added["hostAliases"]
    assert template["spec"]["runtimeClassName"] == "gvisor"
    assert template["spec"]["terminationGracePeriodSeconds"] == 0
    assert "schedulerName" not in template["spec"]


def test_only_the_plan_and_commit_pods_have_the_resources_for_planning() -> None:
    workers, planning = {"limits": {"memory": "1Gi"}}, {"limits": {"memory": "9Gi"}}
    spec = a_spec(code=CODE, workers={"resources": workers}, planning={"resources": planning})
    found = [[each["resources"] for each in (*pod["containers"], *pod["initContainers"])] for pod in pods_of(every_job(spec, DEFAULTS)[:3])]
    assert found == [[planning, planning], [workers, workers], [planning, planning]]
    [cleanup] = pods_of(every_job(spec, DEFAULTS)[3:])
    assert cleanup["containers"][0]["resources"] == workers
