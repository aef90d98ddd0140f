"""examples/train-on-mnist.yaml: its script checks the counts in the ConfigMap of a finished job.

tests/e2e/test_training.py does the same on a cluster.
"""

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import yaml
from tests.converter.cli.commandline import EXAMPLES, code_of, environment, mnist_run

from dataprep_operator.decisions.handover import FILE
from workbench import mnist

TRAIN, VALIDATION, TEST = 1_000, 5_000, 100


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    made = tmp_path_factory.mktemp("training")
    digits = mnist.write(made / "digits", train=TRAIN + VALIDATION, test=TEST)
    assert code_of("run", *mnist_run(digits, made / "out")) == 0
    return made


def container() -> dict[str, Any]:
    document = yaml.safe_load((EXAMPLES / "train-on-mnist.yaml").read_text(encoding="utf-8"))
    (found,) = document["spec"]["template"]["spec"]["containers"]
    described: dict[str, Any] = found
    return described


def trained(folder: Path, *, promised: int) -> subprocess.CompletedProcess[str]:
    """Runs the script, with the files and variables that the ConfigMap would provide."""
    described = container()
    (script,) = described["args"]
    mounted = f"{described['volumeMounts'][0]['mountPath']}/{FILE}"
    assert script.count(mounted) == 1
    (folder / FILE).write_text(json.dumps({"splits": [{"name": "train", "records": promised}]}))
    variables = {"DATAPREP_OUTPUT_URI": str(folder / "out"), "DATAPREP_RECORDS_TRAIN": str(promised)}
    return subprocess.run(
        [sys.executable, "-c", script.replace(mounted, str(folder / FILE))],
        env=environment() | variables,
        capture_output=True,
        text=True,
        check=False,
    )


@pytest.mark.slow
def test_the_script_counts_the_records_of_the_train_split(folder: Path) -> None:
    done = trained(folder, promised=TRAIN)
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout == f"1000 records in 10 batches, 1000 promised; by class: {[100] * 10}\n"


@pytest.mark.slow
def test_the_script_fails_when_the_records_are_not_as_promised(folder: Path) -> None:
    done = trained(folder, promised=TRAIN + 1)
    assert (done.returncode, done.stderr) == (1, "")


def test_the_job_names_the_config_map_of_the_example_that_makes_the_data() -> None:
    made = yaml.safe_load((EXAMPLES / "mnist-hdfs.yaml").read_text(encoding="utf-8"))["metadata"]["name"]
    trains = yaml.safe_load((EXAMPLES / "train-on-mnist.yaml").read_text(encoding="utf-8"))["spec"]["template"]["spec"]
    assert container()["envFrom"] == [{"configMapRef": {"name": made}}]
    assert [volume["configMap"]["name"] for volume in trains["volumes"]] == [made]
