"""Texts from users stay texts: they never change pod specs, command lines, log lines or metric labels."""

import json
import logging
from collections.abc import Callable
from typing import Any

import pytest
from tests.builders.children import DEFAULTS, SHA, a_convert_job, a_job, a_spec
from tests.operator.world import NAMESPACE, World, a_failure

from dataprep_api.errors import SpecError
from dataprep_api.log_lines import JsonLines
from dataprep_api.reasons import Reason
from dataprep_api.redaction import printable
from dataprep_api.spec import DataPrepJobSpec
from dataprep_api.stages import REFUSALS
from dataprep_operator import metrics
from dataprep_operator.children import jobs
from dataprep_operator.children.pod_template import JOB_FILE
from dataprep_operator.cluster.cluster import Body

HOSTILE = [
    "x; rm -rf / #",
    "$(touch pwned)",
    "`touch pwned`",
    "$(HOME)",
    "--job=elsewhere",
    "a\nhostNetwork: true",
    '"}], "hostPID": true, "x": [{"y": "',
    "{{ .Values.secret }}",
    "../../../etc/passwd",
    "\x1b[2J\r\x00",
]
PLACES: dict[str, Callable[[str], dict[str, Any]]] = {  # Any: fields of the spec
    "output": lambda text: {"output": {"uri": f"s3://out/{text}"}},
    "file names": lambda text: {"output": {"uri": "s3://out/x", "fileName": f"{text}{{shard}}"}},
    "inputs": lambda text: {"source": {"csv": {"uris": [f"s3://in/{text}"]}}},
    "columns": lambda text: {"features": [{"name": text, "columns": [text], "dtype": "float32"}]},
    "plug-in": lambda text: {"source": {"plugin": {"uris": ["s3://in/x"], "callable": f"mine:{text}"}}},
    "its options": lambda text: {"source": {"plugin": {"uris": ["s3://in/x"], "callable": "mine:read", "options": {"a": text}}}},
    "stores": lambda text: {"stores": [{"uriPrefix": "hdfs://", "user": text}, {"uriPrefix": "s3://", "endpoint": f"http://{text}"}]},
}


def pods(spec: DataPrepJobSpec) -> list[Any]:  # Any: JSON
    """Return the pod specs of all three steps."""
    seen = a_job()
    made = [
        jobs.plan_job(seen, spec, attempt=1, defaults=DEFAULTS),
        a_convert_job(spec, seen=seen),
        jobs.commit_job(seen, spec, run_id="run1", plan_sha256=SHA, attempt=1, code_commit=None, defaults=DEFAULTS),
    ]
    return [job["spec"]["template"] for job in made]


@pytest.mark.parametrize("place", PLACES)
@pytest.mark.parametrize("text", HOSTILE)
def test_no_text_of_a_spec_reaches_a_pod(place: str, text: str) -> None:
    """The text is either refused or passed as JSON in the ConfigMap. If it is passed, the pods are the same as with a harmless text."""
    try:
        spec = a_spec(**PLACES[place](text))
    except SpecError:
        return
    assert pods(spec) == pods(a_spec(**PLACES[place]("harmless")))


@pytest.mark.parametrize("place", PLACES)
def test_a_harmless_text_is_accepted_everywhere(place: str) -> None:
    """This test shows that harmless texts aren't refused. Otherwise, the previous test would prove nothing."""
    assert pods(a_spec(**PLACES[place]("harmless")))


@pytest.mark.parametrize("text", HOSTILE)
def test_a_script_s_words_stay_one_word_each_and_no_shell_is_asked(text: str) -> None:
    spec = a_spec(source=None, script={"image": "mine:1", "command": ["python3", text], "outputs": ["*.tfrecords"]})
    [container] = a_convert_job(spec)["spec"]["template"]["spec"]["containers"]
    # The kubelet would expand `$(NAME)`. It replaces `$$(NAME)` with the text `$(NAME)`.
    assert [word.replace("$$(", "$(") for word in [*container["command"], *container.get("args", [])]] == ["python3", text]
    assert "$(" not in str(container["command"]).replace("$$(", "")


def test_the_text_in_the_config_map_is_json(world: World) -> None:
    uri = 's3://out/a"b, "suspend": true'
    world.apply(output={"uri": uri})
    world.settle()
    [made] = [body for (plural, _, _), body in world.cluster.objects.items() if plural == "configmaps"]
    assert json.loads(made["data"][JOB_FILE])["spec"]["output"] == {"uri": uri}


@pytest.mark.parametrize("text", HOSTILE)
def test_a_text_in_a_log_is_one_line(text: str) -> None:
    message = f'{text}\n{{"level": "ERROR", "message": "forged"}}\u2028'
    line = JsonLines(dict).format(logging.LogRecord("dataprep_operator", logging.INFO, __file__, 1, "%s", (message,), None))
    assert len(line.splitlines()) == 1
    assert line.isprintable()
    assert json.loads(line)["message"] == printable(message)


def test_labels_of_metrics_hold_no_text_of_users(world: World) -> None:
    """The values of metric labels are only phases, reasons, codes and methods."""
    world.apply("hostile-name", output={"uri": "s3://out/<script>"})
    world.settle("hostile-name")
    world.cluster.end("dataprepjobs", NAMESPACE, "hostile-name")
    world.apply()
    world.settle()
    world.plan_fails(a_failure(Reason.INPUT_NOT_FOUND, "<script>alert(1)</script>"))
    world.settle()
    labels: Body = {}
    for family in metrics.REGISTRY.collect():
        for sample in family.samples:
            for name, value in sample.labels.items():
                labels.setdefault(name, set()).add(value)
    assert set(labels) <= {
        "phase",
        "reason",
        "stage",
        "fate",
        "method",
        "code",
        "le",
        "version",
        "implementation",
        "major",
        "minor",
        "patchlevel",
    }
    assert labels["reason"] <= set(Reason) | set(REFUSALS)
    assert not any("<" in value or "hostile" in value for values in labels.values() for value in values)
