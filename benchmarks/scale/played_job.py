"""Code that the measurements share: jobs that read simulated files, and figures."""

import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final

from benchmarks.scale.played_files import INPUT, KINDS
from benchmarks.scale.played_store import OUTPUT, ComputedFiles, PlayedAccess, PlayedStore

from dataprep_api.resources.job import DataPrepJob
from dataprep_api.spec import DataPrepJobSpec
from dataprep_converter.dataset.output_folder import OutputFolder
from dataprep_converter.sampling.plan import Plan
from dataprep_converter.stores import StoreSettings

Figures = dict[str, float]
Fields = Mapping[str, Any]
"""Fields of a job's spec, in the form of YAML."""

WORKERS: Final = 1000
IMAGES_OF_A_SHARD: Final = 10
MIB: Final = 1 << 20


def job_of(kind: str, output: str, fields: Fields) -> DataPrepJob:
    """Returns a job that reads simulated files of this kind."""
    _, source = KINDS[kind]
    spec = {"source": source, "output": {"uri": output, **fields.get("output", {})}, "workers": {"parallelism": WORKERS}}
    spec |= {name: value for name, value in fields.items() if name != "output"}
    return DataPrepJob.parse({"apiVersion": "dataprep.io/v1alpha1", "kind": "DataPrepJob", "metadata": {"name": "scale"}, "spec": spec})


def spec_of(kind: str, output: str, fields: Fields) -> DataPrepJobSpec:
    """Returns the spec of the job that `job_of` returns."""
    return job_of(kind, output, fields).spec


def access_to(disk: Path, kind: str, count: int, *, server: Mapping[str, str] | None = None) -> PlayedAccess:
    """Returns a `PlayedAccess` to `count` simulated files. Objects are written below the folder `disk`, or to an S3 server."""
    files, _ = KINDS[kind]
    computed: dict[str, ComputedFiles] = {f"{INPUT}/": files(count)}
    settings = (
        [
            StoreSettings(
                uri_prefix="s3://",
                endpoint=server["endpoint"],
                region=server["region"],
                path_style=True,
                credentials={name: server[name] for name in ("accessKeyId", "accessKeySecret")},
                entry="0",
            )
        ]
        if server
        else []
    )
    return PlayedAccess(PlayedStore(disk / "objects", computed), settings)


def stored_plan(access: PlayedAccess, uri: str = OUTPUT) -> Plan:
    """Returns the stored plan of the run that owns the output folder, as workers read it."""
    folder = OutputFolder(uri, access)
    owner = folder.owner()
    found = folder.of_run(owner.run_id).plan_for_work() if owner is not None else None
    if found is None:
        raise RuntimeError(f"{uri} has no plan.")
    return found


@contextmanager
def timed(figures: Figures, name: str) -> Iterator[None]:
    """Adds the seconds and the CPU seconds of the block to the figures."""
    began, cpu = time.perf_counter(), time.process_time()
    yield
    figures |= {f"{name}_seconds": time.perf_counter() - began, f"{name}_cpu_seconds": time.process_time() - cpu}


def requests(name: str, played: PlayedStore) -> Figures:
    """Returns the numbers of requests since the last call, by kind."""
    counts = {f"{name}_{kind}_requests": count for kind, count in played.requests.counts().items()}
    played.requests.clear()
    return counts
