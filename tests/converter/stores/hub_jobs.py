"""Jobs whose output is on the Hub. The library itself sends requests to a fake of the Hub, whose fixture is `hub`."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx2
import huggingface_hub.constants
import pytest
from huggingface_hub.utils._http import default_client_factory
from tests.builders.specs import parse_job
from tests.converter.stores.crashing import Killed
from tests.converter.stores.hub_fake import FakeHub, fake_hub

from dataprep_api.dataset.plan import shards
from dataprep_api.resources.job import DataPrepJob
from dataprep_converter.cli.display import Display
from dataprep_converter.dataset.output_folder import OutputFolder
from dataprep_converter.dataset.stored_plan import load_plan
from dataprep_converter.inputs.access import Access
from dataprep_converter.inputs.store_settings import settings_for
from dataprep_converter.steps.conversion import convert_commit, convert_work
from dataprep_converter.steps.plan_step import PlannedRun
from dataprep_converter.steps.run import run

OUTPUT = "hf://datasets/org/set/data"
CARD = {"README.md": b"# set", ".gitattributes": b"*.parquet filter=lfs"}


@pytest.fixture
def hub(monkeypatch: pytest.MonkeyPatch) -> Iterator[FakeHub]:
    monkeypatch.delenv("HF_TOKEN", raising=False)
    # The fake has no Xet storage, so its use is switched off. The processes of a pool need the environment variable.
    monkeypatch.setenv("HF_HUB_DISABLE_XET", "1")
    monkeypatch.setattr(huggingface_hub.constants, "HF_HUB_DISABLE_XET", True)
    with fake_hub() as running:
        running.commit(CARD)
        yield running


def a_job(hub: FakeHub, folder: Path, *, rows: int = 6, days: int = 1, uri: str = OUTPUT, **output: Any) -> DataPrepJob:
    """Makes two shards from the CSV files in a folder."""
    (folder / "in").mkdir(exist_ok=True)
    for day in range(days):
        path, text = folder / f"in/{day}.csv", "x,label\n" + "".join(f"{day * 100 + row},{row % 2}\n" for row in range(rows))
        if not path.exists() or path.read_text() != text:
            path.write_text(text)
    return parse_job(
        {
            "source": {"csv": {"uris": [str(folder / "in")], "header": True}},
            "output": {"uri": uri, "format": "jsonl", "shards": {"count": 2}, "overwrite": "IfChanged"} | output,
            "stores": [{"uriPrefix": "hf://", "endpoint": hub.endpoint}],
        },
        name="hub",
    )


def access_of(job: DataPrepJob) -> Access:
    return Access(settings_for(job.spec.stores, None))


def make(job: DataPrepJob, *, workers: int = 1) -> None:
    run(job, access=access_of(job), workers=workers, display=Display(quiet=True))


def access_of_a_pod(job: DataPrepJob) -> Access:
    access = access_of(job)
    access.write_to(job.spec.output.uri)
    return access


def work(job: DataPrepJob, planned: PlannedRun) -> None:
    """Does the work of the workers' pods, each of which has its own clients."""
    for shard in shards(planned.plan.head):
        access = access_of_a_pod(job)
        plan = load_plan(OutputFolder(job.spec.output.uri, access).of_run(planned.result.run_id), planned.result.plan_sha256)
        convert_work.work(job.spec, plan=plan, shards=[shard], access=access, attempt="1", watch=lambda _: None)


def commit(job: DataPrepJob, planned: PlannedRun) -> None:
    access = access_of_a_pod(job)
    plan = load_plan(OutputFolder(job.spec.output.uri, access).of_run(planned.result.run_id), planned.result.plan_sha256)
    convert_commit.commit(job.spec, plan=plan, access=access)


def published(hub: FakeHub, folder: str = "data/", branch: str = "main") -> dict[str, bytes]:
    """The data set's files as readers of a branch see them."""
    files = hub.at(branch)[1]
    return {path.removeprefix(folder): content for path, content in files.items() if path.startswith(folder)}


def on_disk(folder: Path) -> dict[str, bytes]:
    return {str(path.relative_to(folder)): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


def check_same_data(hub: FakeHub, folder: Path, *, but: str = "/reports/") -> None:
    """Checks that readers see the same files as in a folder.

    Only the pins (versions of inputs) in the reports, the lists of file addresses, and the file `but` are allowed to differ.
    """
    ours, expected = published(hub), on_disk(folder)
    assert ours.keys() == expected.keys()
    placed = ("/reports/", "/paths/", "/input_data_config.json", but)
    assert [path for path in ours if ours[path] != expected[path] and not any(part in path for part in placed)] == []


@dataclass
class Life:
    """Counts the requests of a process, and simulates the process's death."""

    requests: int = 0
    dead: bool = False

    def die(self) -> None:
        """Refuses all requests from now on."""
        self.dead = True
        raise Killed


@contextmanager
def killed_at(number: int, moment: str, *, when: Callable[[httpx2.Request], bool] = lambda _: True) -> Iterator[Life]:
    """Within the block, this process appears to die just before or just after its request with this number.

    After this moment, all of its requests are refused.
    """
    life = Life()

    def before(request: httpx2.Request) -> None:
        if life.dead:
            raise Killed
        life.requests += when(request)
        if life.requests == number and when(request) and moment == "before":
            life.die()

    def after(response: httpx2.Response) -> None:
        if life.requests == number and when(response.request) and moment == "after":
            life.die()

    huggingface_hub.set_client_factory(
        lambda: httpx2.Client(event_hooks={"request": [before], "response": [after]}, follow_redirects=True, timeout=None)
    )
    try:
        yield life
    finally:
        huggingface_hub.set_client_factory(default_client_factory)


def titles(hub: FakeHub, branch: str = "main") -> list[str]:
    return [title for name, title in hub.log if name == branch]
