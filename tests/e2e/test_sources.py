"""Runs one example from each family of sources on the cluster, all at the same time. The test checks that the bytes equal those of a local
run.

Most of these jobs are a single pod, as they are for users.
"""

import hashlib
import shutil
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
import yaml
from tests.converter.cli.commandline import code_of, settings

from workbench.example_inputs import INPUTS
from workbench.jobs import Document, Namespace, example
from workbench.stores import EXAMPLES, Stores, mount

FAMILIES = ("annotated-images", "archive", "csv-sequences", "images-decoded", "join", "parquet", "plugin", "sql", "tfrecord")
IN_STEPS = ("join", "tfrecord")
"""Jobs in which each step has its own pods. In some of these jobs, a worker reads the records that another pod has joined. In the
others, two workers share the shards."""


def sha256_of(folder: Path) -> dict[str, str]:
    """SHA-256 of each visible file, by name."""
    return {file.name: hashlib.sha256(file.read_bytes()).hexdigest() for file in folder.iterdir() if file.name[0] not in "_."}


def config_maps(file: Path) -> list[Document]:
    with file.open(encoding="utf-8") as text:
        return [document for document in yaml.safe_load_all(text) if document["kind"] == "ConfigMap"]


@pytest.mark.long
@pytest.mark.parametrize(
    "in_steps", [pytest.param(IN_STEPS, id="most in one pod"), pytest.param(FAMILIES, id="in three steps", marks=pytest.mark.nightly)]
)
def test_a_cluster_writes_the_same_bytes_as_a_laptop(namespace: Namespace, stores: Stores, tmp_path: Path, in_steps: Sequence[str]) -> None:
    inputs = stores.volume / f"{namespace.name}-in"
    volume: dict[str, Any] = mount(namespace, stores)
    for family in FAMILIES:
        file = EXAMPLES / f"{family}-local.yaml"
        make, _ = INPUTS[file.name]
        (inputs / family).mkdir(parents=True)
        source = make(inputs / family)
        for made in (inputs, *inputs.rglob("*")):
            made.chmod(0o755 if made.is_dir() else 0o644)
        in_pods = f"/data/{source.relative_to(stores.volume)}"
        job = example(
            str(file),
            name=family,
            one_pod=family not in in_steps,
            params={"input": in_pods},
            output__uri=f"/data/{namespace.name}-out/{family}",
            workers__parallelism=2,
            **volume,
        )
        namespace.apply(*config_maps(file), job)
        changes = settings({"params.input": source, "output.uri": tmp_path / family})
        assert code_of("run", file, "--workers", "1", *changes) == 0
    for family in FAMILIES:
        status = namespace.wait_phase(family, "Succeeded", seconds=600)
        assert status["output"]["records"] == INPUTS[f"{family}-local.yaml"][1]
        assert sha256_of(stores.volume / f"{namespace.name}-out" / family) == sha256_of(tmp_path / family), family
    shutil.rmtree(inputs)
