"""AVIF and HEIC files were bad records in earlier releases.

So jobs that leave out bad records get a different run id, and old data sets remain unchanged.
"""

from pathlib import Path
from typing import Any

import pytest
from tests.builders.files import put
from tests.builders.images import an_image
from tests.builders.jobs import run_job, verified_run
from tests.builders.specs import parse_job

from dataprep_api.dataset import run_id
from dataprep_api.dataset.report import Manifest
from dataprep_api.resources.job import DataPrepJob
from dataprep_converter.inputs.access import Access
from dataprep_converter.tools import repair
from dataprep_converter.tools.verification import verify

SKIP: dict[str, Any] = {"onBadRecord": {"policy": "Skip"}}
DECODE: dict[str, Any] = {"transforms": [{"decode": {}}, {"encode": {"format": "Png"}}]}
SOURCES: dict[str, tuple[dict[str, Any], dict[str, Any]]] = {
    "images": ({"images": {"uris": ["in/i"], "labelFrom": "None"}}, {}),
    "masks": ({"masks": {"images": ["in/i"], "masks": ["in/m"]}}, {}),
    "annotatedImages": ({"annotatedImages": {"images": ["in/i"], "annotations": ["in/t"], "format": "Yolo", "classes": ["cat"]}}, {}),
    "decode": ({"images": {"uris": ["in/i"], "labelFrom": "None", "check": "None"}}, DECODE),
}


@pytest.fixture(autouse=True)
def _inputs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Two images. The second image is an AVIF file with the name of a JPEG file."""
    monkeypatch.chdir(tmp_path)
    images = {"1": an_image("JPEG"), "2": an_image("AVIF")}
    for name, image in images.items():
        put(tmp_path / "in", {f"i/{name}.jpg": image, f"m/{name}.png": an_image("PNG", mode="L"), f"t/{name}.txt": b"0 0.5 0.5 0.2 0.2\n"})


def a_job(kind: str, **output: Any) -> DataPrepJob:
    source, spec = SOURCES[kind]
    return parse_job({"source": source, "output": {"uri": "out", "overwrite": "IfChanged", "shards": {"count": 1}} | output} | SKIP | spec)


def made_before(job: DataPrepJob, monkeypatch: pytest.MonkeyPatch) -> Manifest:
    """Makes the data set as releases did before `heif` was added to `run_id.PARTS`."""
    with monkeypatch.context() as then:
        then.setattr(run_id, "versions", lambda _spec: {})
        return verified_run(job)


@pytest.mark.parametrize("kind", SOURCES)
def test_a_job_that_left_an_avif_out_makes_its_data_set_again(kind: str, monkeypatch: pytest.MonkeyPatch) -> None:
    before = made_before(a_job(kind), monkeypatch)
    assert (before.records_out, before.bad, before.parts) == (1, 1, {})
    planned, _ = run_job(a_job(kind))
    now = verify("out", Access())
    assert (planned.reused, now.records_out, now.bad, now.parts) == (False, 2, 0, {"heif": 2})


@pytest.mark.parametrize("kind", SOURCES)
def test_a_job_whose_bad_records_fail_it_reads_an_avif(kind: str) -> None:
    source, spec = SOURCES[kind]
    manifest = verified_run(parse_job({"source": source, "output": {"uri": "out"}} | spec))
    assert (manifest.records_out, manifest.bad, manifest.parts) == (2, 0, {})


@pytest.mark.parametrize("kind", SOURCES)
def test_a_data_set_without_its_avif_is_repaired_as_it_is(kind: str, monkeypatch: pytest.MonkeyPatch) -> None:
    before = made_before(a_job(kind), monkeypatch)
    (Path("out") / before.files[0].file).unlink()
    repair.repair("out", Access())
    assert verify("out", Access(), every_record=True) == before


def test_a_lost_plan_without_an_avif_is_made_again(monkeypatch: pytest.MonkeyPatch) -> None:
    before = made_before(a_job("images"), monkeypatch)
    for lost in (Path("out") / before.files[0].file, Path("out/_dataprep") / before.run_id / "plan.json"):
        lost.unlink()
    repair.repair("out", Access())
    assert verify("out", Access(), every_record=True) == before


def test_an_extension_leaves_an_avif_out_as_its_data_set_did(monkeypatch: pytest.MonkeyPatch) -> None:
    made_before(a_job("images", overwrite="Extend"), monkeypatch)
    put(Path("in"), {"i/3.jpg": an_image("AVIF"), "i/4.jpg": an_image("JPEG")})
    assert verified_run(a_job("images", overwrite="Extend")).records_out == 2


@pytest.mark.parametrize(
    ("source", "spec", "expected"),
    [
        pytest.param(SOURCES["images"][0], {}, {}, id="bad records fail the job"),
        pytest.param(SOURCES["images"][0], {"onBadRecord": {"policy": "Quarantine"}}, {"heif": 2}, id="quarantine"),
        pytest.param(SOURCES["decode"][0], SKIP, {}, id="unchecked images"),
        pytest.param({"wholeFile": {"uris": ["in"]}}, SKIP, {}, id="no images"),
        pytest.param({"tfrecord": {"uris": ["in"]}}, SKIP | DECODE, {"heif": 2}, id="images in records"),
    ],
)
def test_only_jobs_that_may_have_left_out_images_have_the_part(
    source: dict[str, Any], spec: dict[str, Any], expected: dict[str, int]
) -> None:
    assert run_id.versions(parse_job({"source": source, "output": {"uri": "out"}} | spec).spec) == expected
