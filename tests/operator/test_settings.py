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
        "DATAPREP_QPS": "20",
        "DATAPREP_TOKEN_ISSUER": "",
        "POD_NAME": "operator-1",
    }
    found = settings.from_environment(given)

    assert found.namespaces == ("a", "b")
    assert (found.pods.image, found.pods.gpu_node_selector, found.pods.allow_host_path) == ("dataprep:2", {"gpu": "true"}, True)
    assert (found.qps, found.identity, found.token_issuer) == (20.0, "operator-1", None)


@pytest.mark.parametrize(
    ("name", "value"),
    [("QPS", "many"), ("GPU_NODE_SELECTOR", "{"), ("GPU_TOLERATIONS", "{}"), ("ALLOW_HOST_PATH", "yes")],
)
def test_a_setting_that_can_not_be_read_is_named(name: str, value: str) -> None:
    with pytest.raises(ValueError, match=f"DATAPREP_{name}"):
        settings.from_environment({f"DATAPREP_{name}": value})
