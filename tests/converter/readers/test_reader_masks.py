"""Tests images and masks: pairing by path or by suffix, the check that both have the same size, and the bytes of both."""

from pathlib import Path
from typing import Any, ClassVar

import pytest
from tests.builders.files import put
from tests.builders.images import an_image
from tests.converter.readers.reader_contract import ReaderContract, batches, faults, plan, rows

from dataprep_api.spec import DataPrepJobSpec, Source
from dataprep_converter.core.errors import BadSpec, NotFound
from dataprep_converter.inputs.access import Access
from dataprep_converter.pipeline.pipeline import Pipeline
from dataprep_converter.readers import Reader
from dataprep_converter.readers.images.masks import MasksReader


def a_mask(**options: Any) -> bytes:
    """A mask, written by Pillow, with one value per pixel."""
    return an_image("PNG", mode="L", **options)


def a_source(images: Path, masks: Path, **options: Any) -> Source:
    return Source.model_validate({"masks": {"images": [str(images)], "masks": [str(masks)], **options}})


class TestMasks(ReaderContract):
    reader: ClassVar[type[Reader]] = MasksReader

    def a_source(self, folder: Path) -> Source:
        image, mask = an_image(width=20), a_mask(width=20)
        for n in range(24):
            put(folder, {f"i/{n % 2}/{n:04}.jpg": image + bytes([n % 251]), f"m/{n % 2}/{n:04}.png": mask})
        return a_source(folder / "i", folder / "m")

    def an_empty_source(self, folder: Path) -> Source:
        put(folder, {"i/README": b"", "m/README": b""})
        return a_source(folder / "i", folder / "m")

    def a_missing_source(self, folder: Path) -> tuple[Source, str]:
        put(folder, {"i/1.jpg": an_image()})
        return a_source(folder / "i", folder / "m"), str(folder / "m")

    def change(self, folder: Path) -> Path:
        put(folder, {"m/0/0006.png": b"another mask"})
        return folder / "m/0/0006.png"


def test_the_bytes_of_both_are_kept(tmp_path: Path) -> None:
    put(tmp_path, {"i/a/1.jpg": an_image(), "m/a/1.png": a_mask()})
    (row,) = rows(batches(MasksReader, a_source(tmp_path / "i", tmp_path / "m")))
    assert row["image/encoded"] == an_image()
    assert row["image/segmentation/class/encoded"] == a_mask()
    assert (row["image/format"], row["image/segmentation/class/format"]) == ("jpeg", "png")
    assert (row["image/height"], row["image/width"], row["image/filename"]) == (10, 20, "a/1.jpg")
    assert MasksReader.default_label == "image/segmentation/class/encoded"


LAYOUTS: dict[str, tuple[str, str, dict[str, Any]]] = {
    "one tree with a suffix": ("a/1.png", "a/1_mask.png", {"maskSuffix": "_mask"}),
    "cityscapes": (
        "left/aachen/1_leftImg8bit.png",
        "gt/aachen/1_gtFine_labelIds.png",
        {"imageSuffix": "_leftImg8bit", "maskSuffix": "_gtFine_labelIds"},
    ),
    "an extension of its own": ("i/1.JPG", "m/1.GIF", {"maskExtensions": ["gif"]}),
}


@pytest.mark.parametrize(("image", "mask", "options"), LAYOUTS.values(), ids=LAYOUTS.keys())
def test_a_mask_is_found_by_its_suffix(tmp_path: Path, image: str, mask: str, options: dict[str, Any]) -> None:
    put(tmp_path, {image: an_image(), mask: a_mask()})
    if image.split("/")[0] != mask.split("/")[0]:
        put(tmp_path, {f"{mask.rpartition('/')[0]}/1_more.txt": b"no mask"})
    source = a_source(tmp_path / image.split("/")[0], tmp_path / mask.split("/")[0], **options)
    (row,) = rows(batches(MasksReader, source))
    assert row["image/encoded"] == an_image()
    assert row["image/segmentation/class/encoded"] == a_mask()


def test_a_mask_of_another_size_is_bad_with_both_sizes(tmp_path: Path) -> None:
    put(
        tmp_path, {"i/1.jpg": an_image(), "m/1.png": a_mask(width=10, height=20), "i/2.jpg": an_image(), "m/2.png": b"none", "i/3.jpg": b""}
    )
    put(tmp_path, {"m/3.png": a_mask()})
    assert faults(batches(MasksReader, a_source(tmp_path / "i", tmp_path / "m"))) == {
        0: "the image has 20 x 10 pixels, its mask 10 x 20",
        1: "its mask: not an image: it begins with 6e 6f 6e 65",
        2: "the file is empty",
    }


def test_missing_masks_fail_or_are_counted(tmp_path: Path) -> None:
    put(tmp_path, {"i/1.jpg": an_image(), "i/2.jpg": an_image(), "m/2.png": a_mask(), "m/3.png": a_mask()})
    both = (tmp_path / "i", tmp_path / "m")
    with pytest.raises(NotFound) as caught:
        plan(MasksReader, a_source(*both))
    assert str(caught.value) == (
        f"source.masks.missing: Fail (images without a mask: 1, masks without an image: 1): {tmp_path}/i/1.jpg, {tmp_path}/m/3.png"
    )
    units, state = plan(MasksReader, a_source(*both, missing="Skip"))
    assert units.table["path"].to_pylist() == ["2.jpg"]
    assert len(state["warnings"]) == 1
    assert faults(batches(MasksReader, a_source(*both, missing="BadRecord"))) == {0: "the image has no mask", 2: "the mask has no image"}


def test_two_masks_for_one_image_are_refused(tmp_path: Path) -> None:
    put(tmp_path, {"i/1.jpg": an_image(), "m/1.png": a_mask(), "m/1.bmp": an_image("BMP")})
    with pytest.raises(BadSpec, match=r"1\.bmp and .*1\.png would belong to the same image"):
        plan(MasksReader, a_source(tmp_path / "i", tmp_path / "m", maskExtensions=["png", "bmp"]))


def test_the_run_does_not_depend_on_where_the_trees_lie(tmp_path: Path) -> None:
    tables = []
    for name in "ab":
        put(tmp_path / name, {"i/x/1.jpg": an_image(), "m/x/1.png": a_mask()})
        units, _ = plan(MasksReader, a_source(tmp_path / name / "i", tmp_path / name / "m"))
        tables.append(units.table.drop_columns(["uri", "pin", "extra"]))
        assert str(tmp_path) not in units.table["extra"][0].as_py()
    assert tables[0].equals(tables[1])


def test_trees_must_come_in_pairs() -> None:
    with pytest.raises(ValueError, match="images and masks must have the same number of entries, got 1 and 2"):
        Source.model_validate({"masks": {"images": ["a"], "masks": ["b", "c"]}})


def test_the_mask_is_the_label_and_its_bytes_are_in_the_record(tmp_path: Path) -> None:
    put(tmp_path, {"i/1.jpg": an_image(), "m/1.png": a_mask()})
    source = a_source(tmp_path / "i", tmp_path / "m")
    units, state = plan(MasksReader, source)
    spec = DataPrepJobSpec.model_validate({"source": source.model_dump(by_alias=True, exclude_none=True), "output": {"uri": "x"}})
    pipeline = Pipeline(spec, state, Access())
    assert [feature.name for feature in pipeline.features if feature.label] == ["image/segmentation/class/encoded"]
    (batch,) = pipeline.batches(units, iter([units.table["first"].to_numpy()]))
    assert batch.records.column("image/segmentation/class/encoded")[0].as_py() == a_mask()
