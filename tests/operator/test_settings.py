"""Tests of settings from environment variables."""

import pytest

from dataprep_operator import settings


def test_settings_come_from_the_environment() -> None:
    given = {
        "DATAPREP_NAMESPACES": "a, b",
        "DATAPREP_IMAGE": "dataprep:2",
        "DATAPREP_GPU_NODE_SELECTOR": '{"gpu": "true"}',
        "DATAPREP_GPU_TOLERATIONS": '[{"key": "gpu", "operator": "Exists"}]',
        "DATAPREP_ALLOW_HOST_PATH": "true",
        "DATAPREP_ALLOWED_IMAGES": '["registry.example/team/"]',
        "DATAPREP_ALLOWED_SERVICE_ACCOUNTS": '["reader", "writer"]',
        "DATAPREP_ALLOWED_PRIORITY_CLASSES": '["batch"]',
        "DATAPREP_ALLOWED_RUNTIME_CLASSES": '["gvisor"]',
        "DATAPREP_ALLOWED_SCHEDULERS": '["volcano"]',
        "DATAPREP_ALLOWED_INIT_CONTAINERS": "false",
        "DATAPREP_QPS": "20",
        "DATAPREP_TOKEN_ISSUER": "",
        "POD_NAME": "operator-1",
    }
    found = settings.from_environment(given)

    assert found.namespaces == ("a", "b")
    assert (found.pods.image, found.pods.gpu_node_selector, found.pods.allow_host_path) == ("dataprep:2", {"gpu": "true"}, True)
    assert found.pods.allowed == settings.Allowed(
        images=("registry.example/team/",),
        service_accounts=("reader", "writer"),
        priority_classes=("batch",),
        runtime_classes=("gvisor",),
        schedulers=("volcano",),
        init_containers=False,
    )
    assert (found.qps, found.identity, found.token_issuer) == (20.0, "operator-1", None)


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("QPS", "many"),
        ("GPU_NODE_SELECTOR", "{"),
        ("GPU_TOLERATIONS", "{}"),
        ("ALLOW_HOST_PATH", "yes"),
        ("ALLOWED_INIT_CONTAINERS", "no"),
        ("ALLOWED_IMAGES", "registry.example/team/"),
        ("ALLOWED_SERVICE_ACCOUNTS", "null"),
        ("ALLOWED_PRIORITY_CLASSES", '{"batch": true}'),
        ("ALLOWED_RUNTIME_CLASSES", "[1]"),
        ("ALLOWED_SCHEDULERS", '[""]'),
    ],
)
def test_a_setting_that_can_not_be_read_is_named(name: str, value: str) -> None:
    with pytest.raises(ValueError, match=f"DATAPREP_{name}"):
        settings.from_environment({f"DATAPREP_{name}": value})


def test_without_lists_a_job_may_choose_any_value() -> None:
    assert (
        settings.from_environment({"DATAPREP_ALLOWED_IMAGES": "", "DATAPREP_ALLOWED_SCHEDULERS": "[]"}).pods.allowed == settings.Allowed()
    )
