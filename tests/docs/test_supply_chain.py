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


def part_of_a_lock() -> list[str]:
    """Return the first lines of a lock file. The complete file would take seconds without testing more."""
    return re.split(r"(?m)^(?=\S)", (ROOT / "requirements" / "operator.txt").read_text())[:12]


def bill_of_materials(folder: Path) -> bytes:
    """Make the bill of materials of `lock.txt`."""
    if importlib.util.find_spec("cyclonedx_py") is None:
        unavailable("cyclonedx-bom")
    command = [sys.executable, "-m", "cyclonedx_py", "requirements", "lock.txt", "--output-reproducible", "--of", "JSON", "-o", "made.json"]
    subprocess.run(command, cwd=folder, check=True, capture_output=True, timeout=120)
    return (folder / "made.json").read_bytes()


@pytest.mark.slow
def test_the_bill_of_materials_has_every_locked_package_with_its_hashes(tmp_path: Path) -> None:
    lock = part_of_a_lock()
    (tmp_path / "lock.txt").write_text("".join(lock))

    document = json.loads(bill_of_materials(tmp_path))
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


@pytest.mark.nightly
def test_the_bill_of_materials_is_the_same_each_time(tmp_path: Path) -> None:
    (tmp_path / "lock.txt").write_text("".join(part_of_a_lock()))
    assert bill_of_materials(tmp_path) == bill_of_materials(tmp_path)


def test_an_audit_that_can_not_look_a_package_up_fails() -> None:
    makefile = (ROOT / "Makefile").read_text()
    recipe = makefile.split("\naudit:")[1].split("\n.PHONY")[0]
    assert "pip-audit --strict" in recipe
    for image in ("operator", "converter", "spark"):
        assert f"-r requirements/{image}.txt" in recipe
        assert f"COPY requirements/{image}.txt" in (ROOT / "Dockerfile").read_text()


def test_every_push_makes_the_bill_of_materials_and_the_audit() -> None:
    workflow = yaml.safe_load((ROOT / ".github" / "workflows" / "ci.yml").read_text())
    steps = [step.get("run") for step in workflow["jobs"]["audit"]["steps"]]
    assert {"make sbom", "make audit"} <= set(steps)
    # YAML reads the key `on` as true.
    assert {"push", "pull_request"} <= set(workflow[True])
