"""Two NameNodes with one name.

Jobs continue if the active NameNode dies or becomes the standby, and a dead NameNode delays them only by seconds.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import hdfs_native
import pytest
from tests.availability import unavailable
from tests.converter.stores import pages, small_jobs
from tests.converter.stores.crashing import CrashingAccess, Operations, Point
from tests.converter.stores.places import Place, hidden_ones
from tests.converter.stores.small_jobs import SmallJob, Whole, assert_whole

from dataprep_converter.core.errors import Unreachable
from dataprep_converter.inputs.access import Access
from dataprep_converter.steps import preflight
from dataprep_converter.stores import StoreSettings
from dataprep_converter.stores.hdfs.hdfs import HdfsStore
from storeservers import ServerFailed
from storeservers.cache import BuildFailed
from storeservers.hdfs_pair import NAME_SERVICE, HdfsPair

pytestmark = pytest.mark.store


@pytest.fixture(scope="module")
def pair(servers_folder: Path) -> Iterator[HdfsPair]:
    pair = HdfsPair(servers_folder / "pair")
    try:
        pair.start()
    except (ServerFailed, BuildFailed, OSError) as exc:
        unavailable(f"HDFS (needs java, mvn) is missing: {exc}")
    yield pair
    pair.stop()


@pytest.fixture(scope="module")
def place(pair: HdfsPair, servers_folder: Path) -> Place:
    pair.write_client_configuration(servers_folder / "pair-client")

    def keys(below: str = "") -> list[str]:
        top = f"/jobs/{below}".rstrip("/")
        found = pair.files(top) if pair.exists(top) else []
        return sorted(each.path.removeprefix("/jobs/") for each in found)

    settings = StoreSettings(uri_prefix="hdfs://", hadoop_conf=str(servers_folder / "pair-client"))
    return Place(f"hdfs://{NAME_SERVICE}/jobs", settings, keys, hidden_ones(keys))


@dataclass(frozen=True)
class Done:
    """A job that ran undisturbed, and all operations that it did on the store."""

    job: SmallJob
    operations: list[str]
    output: Whole


@pytest.fixture(scope="module")
def done(place: Place) -> Done:
    job, operations = small_jobs.of_rows(place), Operations()
    small_jobs.live(job.to("whole"), CrashingAccess((place.settings,), operations))
    return Done(job, operations.names, small_jobs.whole(place, "whole"))


def live_with(done: Done, place: Place, output: str, *, before: str, event: Callable[[], object]) -> None:
    """Run all steps of the job, and call `event` before the first operation whose name begins with `before`."""
    number = 1 + next(index for index, name in enumerate(done.operations) if name.startswith(before))
    operations = Operations(Point(number, "before"), lambda _: event())
    small_jobs.live(done.job.to(output), CrashingAccess((place.settings,), operations))
    assert operations.reached
    assert_whole(place, output, done.output)


def test_a_job_goes_on_when_the_active_name_node_is_killed(pair: HdfsPair, place: Place, done: Done) -> None:
    active = pair.active
    live_with(done, place, "killed", before="write ", event=lambda: pair.kill(active))

    assert pair.active != active


def test_a_dead_name_node_costs_no_minutes(pair: HdfsPair, place: Place, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pair.kill(0)
    store = HdfsStore(place.settings)
    assert next(iter(store.addresses(NAME_SERVICE))) == f"{pair.host}:{pair.ports[0]}", "the dead one is the first that is asked"
    told: list[dict[str, str]] = []
    real = hdfs_native.Client

    def client(url: str, configuration: dict[str, str], *more: Any, **named: Any) -> hdfs_native.Client:  # Any: passed on unchanged
        told.append(configuration)
        return real(url, configuration, *more, **named)

    monkeypatch.setattr(hdfs_native, "Client", client)
    store.put(place.at("file"), b"content")
    assert store.get(place.at("file")) == b"content"
    pair.write_client_configuration(tmp_path, {"dfs.client.failover.max.attempts": "9"})
    HdfsStore(StoreSettings(uri_prefix="hdfs://", hadoop_conf=str(tmp_path))).new_client(NAME_SERVICE)

    # With hdfs-native's default values, one call to a dead NameNode takes three minutes.
    keys = [f"dfs.client.failover.{key}" for key in ("max.attempts", "sleep.base.millis", "sleep.max.millis")]
    assert {tuple(each[key] for key in keys) for each in told[:-1]} == {("2", "200", "1000")}
    assert [told[-1][key] for key in keys] == ["9", "200", "1000"]


def test_a_job_goes_on_when_the_name_nodes_change_their_roles(pair: HdfsPair, place: Place, done: Done) -> None:
    pair.start_missing()
    active = pair.active
    live_with(done, place, "changed", before="commit ", event=pair.fail_over)

    assert pair.active != active


def test_a_standby_over_http_is_told_in_the_words_of_the_page(pair: HdfsPair, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(preflight, "_RETRY_SECONDS", 0.3)
    pair.start_missing()
    address = pair.standby_http_address
    with pytest.raises(Unreachable) as found:
        preflight.preflight(
            Access([StoreSettings("webhdfs://", user="etl")]), f"webhdfs://{address}/training/rows", [f"webhdfs://{address}/raw/rows"]
        )

    quoted = dict(pages.rows("webhdfs.md", "When a step is missing"))["the active NameNode"]
    assert pages.says(quoted, str(found.value), {"nn1.example:9870": address}), str(found.value)
