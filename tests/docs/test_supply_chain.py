"""`make sbom` lists the packages of the images, taken from their lock files."""

import importlib.util
import json
import re
import subprocess
import sys
from pathlib import Path

import pytest
import yaml
from tests.availability import unavailable

ROOT = Path(__file__).parents[2]


@pytest.mark.slow
def test_the_bill_of_materials_has_every_locked_package_with_its_hashes(tmp_path: Path) -> None:
    if importlib.util.find_spec("cyclonedx_py") is None:
        unavailable("cyclonedx-bom")
    # Use only a part of the lock file, because the complete file takes seconds and would test no more.
    lock = re.split(r"(?m)^(?=\S)", (ROOT / "requirements" / "operator.txt").read_text())[:12]
    (tmp_path / "lock.txt").write_text("".join(lock))
    made = []
    for name in ("a", "b"):
        command = [sys.executable, "-m", "cyclonedx_py", "requirements", "lock.txt", "--output-reproducible", "--of", "JSON", "-o", name]
        subprocess.run(command, cwd=tmp_path, check=True, capture_output=True, timeout=120)
        made.append((tmp_path / name).read_bytes())

    document = json.loads(made[0])
    assert document["bomFormat"] == "CycloneDX"
    found = {
        each["purl"]: {digest["content"] for reference in each["externalReferences"] for digest in reference.get("hashes", [])}
        for each in document["components"]
    }
    locked = {entry.split("==")[0]: entry for entry in lock if re.match(r"[a-z0-9]", entry)}
    assert len(found) == len(locked) > 5
    for name, entry in locked.items():
        version = re.search(r"==([^ ;\\]+)", entry)
        assert version is not None
        assert found[f"pkg:pypi/{name}@{version[1]}"] == set(re.findall(r"sha256:([0-9a-f]{64})", entry))
    assert made[0] == made[1]


def test_an_audit_that_can_not_look_a_package_up_fails() -> None:
    makefile = (ROOT / "Makefile").read_text()
    recipe = makefile.split("\naudit:")[1].split("\n.PHONY")[0]
    assert "pip-audit --strict" in recipe
    for image in ("operator", "converter"):
        assert f"-r requirements/{image}.txt" in recipe
        assert f"COPY requirements/{image}.txt" in (ROOT / "Dockerfile").read_text()


def test_every_push_makes_the_bill_of_materials_and_the_audit() -> None:
    workflow = yaml.safe_load((ROOT / ".github" / "workflows" / "ci.yml").read_text())
    steps = [step.get("run") for step in workflow["jobs"]["audit"]["steps"]]
    assert {"make sbom", "make audit"} <= set(steps)
    # YAML reads the key `on` as true.
    assert {"push", "pull_request"} <= set(workflow[True])
