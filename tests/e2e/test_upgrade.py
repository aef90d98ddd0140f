"""While jobs plan, convert and commit, the operator is replaced by another release's operator.

The jobs still produce the same bytes. Pods that are already running keep the image of their own release, so the new operator works
together with converters of the other release.
"""

import re
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from tests.builders.jobs import run_spec

from kubecluster import Cluster
from storeservers.oss import Fault
from storeservers.processes import free_ports, wait_until
from workbench.installation import Installation
from workbench.jobs import Document, Namespace
from workbench.outside import OutsideOperator, credentials, nobody_inside
from workbench.releases import CURRENT, Release, load_earlier
from workbench.smalljobs import STEPS, small_jobs, wait_all, write_input
from workbench.stores import BUCKET, Stores

pytestmark = pytest.mark.exclusive

HELD = {"plan": r"/_dataprep/.*/plan\.json", "convert": r"\.tfrecords$", "commit": r"/_dataprep/.*/manifest\.json"}
"""For each step, the file that the step's pod is writing when the operator is replaced. The jobs are named after the steps."""
HELD_SECONDS = 55
"""Each write is held for this long. The converter's OSS client waits for a minute, and the operator is replaced within seconds."""
SWITCH_SECONDS = 60
REQUESTS = 1000
ACCEPTED = 'dataprep_progress_reports_total{code="200"}'


@dataclass(frozen=True)
class Releases:
    """The releases of the operator before and after it is replaced."""

    before: Release
    after: Release


@pytest.fixture(scope="module")
def earlier(cluster: Cluster, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Release]:
    yield load_earlier(cluster, tmp_path_factory.mktemp("earlier"))
    CURRENT.apply_crds(cluster)


@pytest.fixture(params=["upgrade", pytest.param("downgrade", marks=pytest.mark.nightly)])
def releases(request: pytest.FixtureRequest, earlier: Release) -> Releases:
    return Releases(earlier, CURRENT) if request.param == "upgrade" else Releases(CURRENT, earlier)


@pytest.fixture(scope="module")
def kubeconfig(operator: Installation) -> Iterator[Path]:
    with nobody_inside(operator), credentials(operator) as file:
        yield file


def test_jobs_continue_with_the_operator_of_another_release(
    namespace: Namespace, stores: Stores, cluster: Cluster, operator: Installation, kubeconfig: Path, releases: Releases, tmp_path: Path
) -> None:
    [port] = free_ports(str(cluster.bridge_ip), count=1)
    first, second = (
        OutsideOperator(
            kubeconfig,
            port,
            host=str(cluster.bridge_ip),
            sources=release.folder,
            image=release.image,
            namespaces=[namespace.name],
            lease_namespace=operator.namespace,
            lease_name="dataprep-dataprep-operator",
            identity=release.tag,
            environment={"DATAPREP_STATUS_URL": f"http://{cluster.bridge_ip}:{port}"},
            log=tmp_path / release.tag,
        )
        for release in (releases.before, releases.after)
    )
    releases.before.apply_crds(cluster)
    jobs = jobs_on_oss(namespace, stores)
    with held(stores, namespace):
        with first:
            namespace.apply(*jobs)
            wait_until(
                lambda: all(fault.count < REQUESTS for fault in stores.oss.faults()),
                seconds=SWITCH_SECONDS,
                what="each job writes its file",
            )
            releases.after.apply_crds(cluster)
        with second:
            wait_until(second.leads, seconds=SWITCH_SECONDS, what="the second operator leads")
            wait_until(
                lambda: ACCEPTED in second.metrics(),
                seconds=SWITCH_SECONDS,
                what="a pod of the first release reports to the second operator",
            )
            assert {job: running_step(namespace, job) for job in HELD} == {job: job for job in HELD}
            stores.oss.clear_faults()
            wait_all(namespace, "Succeeded", seconds=120)

    images = [
        (labels["dataprep.io/job"], labels["dataprep.io/step"], image) for labels, image in map(labels_and_image, namespace.all("pods"))
    ]
    assert sorted(images) == sorted(
        (job, step, (releases.before if STEPS.index(step) <= STEPS.index(job) else releases.after).image) for job in HELD for step in STEPS
    )
    assert {job["status"]["attempt"] for job in namespace.all("dataprepjobs")} == {1}
    expected = made_here(jobs[0]["spec"], write_input(stores, namespace), tmp_path / "here")
    for job in HELD:
        prefix = f"{namespace.name}/{job}/"
        names = visible(key.removeprefix(prefix) for key in stores.oss.keys(BUCKET, prefix))
        assert {name: stores.oss.read(BUCKET, prefix + name) for name in names} == expected


def jobs_on_oss(namespace: Namespace, stores: Stores) -> list[Document]:
    jobs = small_jobs(stores, namespace, [*HELD])
    for job in jobs:
        job["spec"]["stores"] = [store for store in stores.settings() if store["uriPrefix"] == "oss://"]
        # The earlier release doesn't have `workers.onePod`. A job with this deadline has separate pods for each step in both releases.
        del job["spec"]["workers"]["onePod"]
        job["spec"]["stepDeadlines"] = {"planSeconds": 3600}
        job["spec"]["output"] |= {"uri": f"oss://{BUCKET}/{namespace.name}/{job['metadata']['name']}"}
    return jobs


@contextmanager
def held(stores: Stores, namespace: Namespace) -> Iterator[None]:
    """Each job's pod waits while it writes its file, until the faults are cleared."""
    for job, file in HELD.items():
        matching = f"/{re.escape(f'{BUCKET}/{namespace.name}/{job}')}.*{file}"
        stores.oss.inject(Fault(kind="stall", method="PUT", matching=matching, seconds=HELD_SECONDS, count=REQUESTS))
    try:
        yield
    finally:
        stores.oss.clear_faults()


def running_step(namespace: Namespace, job: str) -> str:
    [step] = [pod["metadata"]["labels"]["dataprep.io/step"] for pod in namespace.pods(job) if pod["status"]["phase"] == "Running"]
    return str(step)


def labels_and_image(pod: Document) -> tuple[Mapping[str, str], str]:
    [container] = pod["spec"]["containers"]
    return pod["metadata"]["labels"], container["image"]


def made_here(spec: Mapping[str, Any], source: Path, output: Path) -> dict[str, bytes]:
    """The files of the same data set, made by this working copy without a cluster and without an interruption."""
    kept = {name: value for name, value in spec.items() if name not in ("workers", "stores")}
    csv = spec["source"]["csv"] | {"uris": [str(source)]}
    run_spec(kept | {"source": {"csv": csv}, "output": spec["output"] | {"uri": str(output)}})
    return {name: (output / name).read_bytes() for name in visible(str(file.relative_to(output)) for file in output.rglob("*.*"))}


def visible(names: Iterable[str]) -> list[str]:
    """The names of data files. All other names of a data set begin with `_` or `.`."""
    return [name for name in names if not name.startswith(("_", "."))]
