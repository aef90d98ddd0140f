"""Stored objects whose meaning has changed (CONTRIBUTING.md lists them), and objects of other kinds."""

import asyncio
from datetime import timedelta
from pathlib import Path

import pytest
from tests.builders.jobs import verified_run
from tests.builders.watched import disrupted, running_message
from tests.compat.stored_data_sets import Unpack, job_of, visible
from tests.compat.stored_objects import at, children, without_summary
from tests.operator.world import NAMESPACE, World

from dataprep_api import CRON_KIND
from dataprep_converter.core.errors import BadSpec
from dataprep_converter.formats.recordio.recordio_decoder import parse_record
from dataprep_converter.inputs.access import Access
from dataprep_converter.tools import repair
from dataprep_operator.objects.observed import Key

JOBS = "dataprepjobs"


def come_to_its_end(world: World) -> None:
    """Finish the conversion and the commit of `mnist`."""
    world.converted()
    world.settle()
    world.committed()
    assert world.settle() == "Succeeded"


# --- objects with a different meaning -----------------------------------------------------------------------------------------------


def test_a_job_that_failed_because_its_output_was_in_use_stays_failed_and_its_retry_waits() -> None:
    world = at("output-in-use")
    before = world.status("second")
    assert world.settle("second") == "Failed"
    assert without_summary(world.status("second")) == before

    world.cluster.change(JOBS, "second", {"metadata": {"annotations": {"dataprep.io/retry": "1"}}})
    assert world.settle("second") == "Pending"
    assert world.condition("Running", "second") == ("False", "OutputInUse")
    come_to_its_end(world)
    assert world.settle("second") == "Planning"


def test_a_job_with_a_root_sidecar_is_invalid_unless_the_installation_allows_it() -> None:
    world = at("privileged")
    assert world.settle() == "Failed"
    assert world.condition("Failed") == ("True", "InvalidSpec")
    assert "runAsUser: root is not allowed by this installation" in world.message()

    world = at("privileged", pods={"allow_privileges": True})
    assert world.settle() == "Running"
    come_to_its_end(world)
    assert world.created() == 1


def test_earlier_evictions_are_counted_and_a_new_one_is_added() -> None:
    world = at("evicted")
    assert world.settle() == "Running"
    assert world.status()["evictions"]["count"] == 2

    world.cluster.now += timedelta(seconds=5)
    world.pod("convert-1", disrupted(world), name="evicted-2", index=1)
    world.settle()
    assert world.status()["evictions"]["count"] == 3
    come_to_its_end(world)


def test_an_unrequested_exit_with_143_is_a_failure() -> None:
    world = at("ended-by-itself")
    assert world.status().get("failures") is None
    world.settle()
    [failure] = world.status()["failures"]
    assert failure["exitCode"] == 143
    assert failure["message"].startswith("The container ended with exit code 143, as if it had been told to stop")

    # The earlier release's Job doesn't count any of these exits as a failure.
    for number in range(3):
        world.pod("convert-1", world.ended(143, "bye"), name=f"again-{number}", index=0)
    assert world.settle() == "Failed"


def test_a_commit_waits_for_its_secret_as_long_as_the_job_has_worked() -> None:
    world = at("without-secret")
    world.cluster.now += timedelta(hours=2)
    assert world.settle() == "Pending"

    assert world.later(7000) == "Pending"
    assert world.condition("Running") == ("False", "ConfigMissing")
    assert world.later(250) == "Failed"


# --- jobs that depend on others, and other kinds --------------------------------------------------------------------------


def test_a_job_that_waits_for_another_one_starts_after_it() -> None:
    world = at("pending")
    assert world.settle("second") == "Pending"
    assert running_message(world, "second") == "Waiting for mnist, which is Running."
    come_to_its_end(world)
    assert world.settle("second") == "Planning"
    assert world.status("second")["fromJob"] == {"uri": "s3://out/mnist"}


@pytest.mark.parametrize(("moment", "name"), [("follows", "second"), ("profiled", "mnist"), ("queued", "mnist"), ("invalid", "mnist")])
def test_a_job_is_unchanged_and_nothing_else_is_created(moment: str, name: str) -> None:
    world = at(moment, kueue=moment == "queued")
    jobs, phase = children(world), world.status(name)["phase"]
    assert world.settle(name) == phase
    assert (children(world), world.created(), world.created("configmaps")) == (jobs, 0, 0)


def test_a_job_keeps_the_profile_that_it_began_with() -> None:
    world = at("profiled")
    world.cluster.change("dataprepprofiles", "team", {"spec": {"workers": {"image": "team:2"}}})
    world.converted()
    assert world.settle() == "Committing"
    pod = world.job("commit-1")["spec"]["template"]["spec"]
    assert (pod["containers"][0]["image"], pod["nodeSelector"]) == ("team:1", {"pool": "data"})


def test_a_schedule_continues_its_job_and_creates_the_next_one() -> None:
    world = at("scheduled")
    world.cluster.now += timedelta(minutes=12)
    (first,) = [name for plural, _, name in world.cluster.objects if plural == JOBS]

    def look() -> list[str]:
        for _ in range(4):
            asyncio.run(world.crons.reconcile(Key(NAMESPACE, "nightly", CRON_KIND)))
        return sorted(name for plural, _, name in world.cluster.objects if plural == JOBS)

    assert look() == [first]
    world.cluster.now += timedelta(minutes=10)
    second = look()
    assert (len(second), second[0]) == (2, first)
    assert world.settle(first) == "Planning"
    assert children(world) == [f"{first}-datapr-plan"]


# --- data sets that their jobs would now make differently ---------------------------------------------------------------------


def made_anew(folder: Path) -> dict[str, bytes]:
    job = job_of(folder)
    output = job.spec.output.model_copy(update={"overwrite": "Always"})
    verified_run(job.model_copy(update={"spec": job.spec.model_copy(update={"output": output})}))
    return visible(folder / "out")


def test_a_single_split_of_dl4j_keeps_its_names_until_it_is_made_again(stored: Unpack) -> None:
    folder = stored("file-batch")
    before = visible(folder / "out")
    assert not any("/" in name for name in before)
    (folder / "out" / next(iter(before))).unlink()
    repair.repair("out", Access())
    assert visible(folder / "out") == before
    after = made_anew(folder)
    assert [*after] == [f"train/batch_{number:05}.zip" for number in range(len(before))]
    assert [*after.values()] == [*before.values()]


@pytest.mark.parametrize(
    ("name", "then", "now"),
    [
        ("recordio-libsvm", {"keys": [], "shape": [], "values": []}, {"values": [4]}),
        ("recordio-idx", {"depth": [], "height": [], "image": [4, 4], "width": []}, {"values": []}),
    ],
)
def test_records_of_sagemaker_have_their_tensors_until_they_are_made_again(
    stored: Unpack, name: str, then: dict[str, list[int]], now: dict[str, list[int]]
) -> None:
    folder = stored(name)
    assert shapes(visible(folder / "out")) == then
    with pytest.raises(BadSpec, match="was made by version 1 of recordio"):
        lose_one_and_repair(folder)
    assert shapes(made_anew(folder)) == now


def lose_one_and_repair(folder: Path) -> None:
    (folder / "out" / next(iter(visible(folder / "out")))).unlink()
    repair.repair("out", Access())


def shapes(files: dict[str, bytes]) -> dict[str, list[int]]:
    """Shapes of the tensors in the first record, by feature."""
    data = next(iter(files.values()))
    features = parse_record(data[8 : 8 + int.from_bytes(data[4:8], "little")]).features
    return {key: list(getattr(features[key], features[key].WhichOneof("value")).shape) for key in sorted(features)}
