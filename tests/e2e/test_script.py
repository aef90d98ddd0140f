"""A user's own program on the cluster: its output is checked, and its code can come from Git."""

import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from wsgiref.simple_server import make_server

import pytest
import yaml
from dulwich import porcelain
from dulwich.repo import Repo
from dulwich.server import BackendRepo, DictBackend
from dulwich.web import HTTPGitApplication

from workbench.example_inputs import numbers
from workbench.jobs import Document, Namespace, condition, example
from workbench.stores import EXAMPLES, Stores, mount

FILE = EXAMPLES / "script-local.yaml"


@pytest.fixture
def source(namespace: Namespace, stores: Stores) -> str:
    """The example's input, at its path in the pods."""
    folder = stores.volume / f"{namespace.name}-in"
    folder.mkdir()
    folder.chmod(0o755)
    made = numbers(folder)
    made.chmod(0o644)
    return f"/data/{made.relative_to(stores.volume)}"


def config_map() -> Document:
    with FILE.open(encoding="utf-8") as text:
        found: Document = next(document for document in yaml.safe_load_all(text) if document["kind"] == "ConfigMap")
    return found


def a_job(namespace: Namespace, source: str, volume: dict[str, Any], **changes: Any) -> Document:  # Any: fields of the spec
    output = f"/data/{namespace.name}-out"
    return example(str(FILE), params={"input": source}, output__uri=output, script__framework=None, **volume, **changes)


def test_a_script_makes_a_data_set_and_true_makes_none(namespace: Namespace, stores: Stores, source: str) -> None:
    volume = mount(namespace, stores)
    namespace.apply(config_map(), a_job(namespace, source, volume, name="made"))
    status = namespace.wait_phase("made", "Succeeded")
    assert (status["output"]["files"], status["output"]["records"]) == (1, 12)

    job = a_job(namespace, source, volume, name="empty")
    job["spec"]["script"] = {"command": ["true"], "outputs": ["train-*.tfrecords", "test.tfrecords"]}
    job["spec"]["output"]["uri"] += "/empty"
    namespace.apply(job)
    failed = condition(namespace.wait_phase("empty", "Failed"), "Failed")
    assert failed["reason"] == "OutputMissing"
    assert "train-*.tfrecords is missing, test.tfrecords is missing" in failed["message"]

    job = a_job(namespace, source, volume, name="broken", backoffLimitPerIndex=0)
    job["spec"]["script"]["command"] = ["python3", "-c", "raise SystemExit('no such neural style')"]
    job["spec"]["output"]["uri"] += "/broken"
    namespace.apply(job)
    failed = condition(namespace.wait_phase("broken", "Failed"), "Failed")
    assert failed["reason"] == "ScriptFailed"
    assert "The script ended with exit code 1: no such neural style" in failed["message"]


@pytest.fixture
def repository(stores: Stores, tmp_path: Path) -> Iterator[tuple[str, str]]:
    """A Git repository with the example's program: its URL for pods, and the commit of its only branch."""
    work = tmp_path / "code"
    porcelain.init(str(work)).close()
    (work / "convert_to_records.py").write_text(config_map()["data"]["convert_to_records.py"])
    porcelain.add(str(work), [str(work / "convert_to_records.py")])
    author = b"A <a@example.com>"
    commit = porcelain.commit(str(work), message=b"m", author=author, committer=author).decode()
    with Repo(str(work)) as served:
        backends: dict[bytes, BackendRepo] = {b"/code.git": served}
        server = make_server(stores.s3.host, 0, HTTPGitApplication(DictBackend(backends)))
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        yield f"http://{stores.s3.host}:{server.server_port}/code.git", commit
        server.shutdown()
        thread.join()
        server.server_close()


def test_its_code_comes_from_git_and_the_commit_is_reported(
    namespace: Namespace, stores: Stores, source: str, repository: tuple[str, str]
) -> None:
    url, commit = repository
    namespace.apply(a_job(namespace, source, mount(namespace, stores), name="git", code={"git": {"url": url}}))

    status = namespace.wait_phase("git", "Succeeded")
    assert status["code"]["commit"] == commit
    assert status["output"]["records"] == 12
