"""Changes bytes in real images and annotations.

The result must be a bad record or an error that names the file, never a crash or a hang.
"""

import json
import tracemalloc
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from tests.builders.files import put
from tests.builders.images import IMAGE_FILES, an_image
from tests.converter.readers.annotated import a_source, coco, voc, yolo
from tests.converter.readers.reader_contract import batches, faults, rows

from dataprep_converter.core.errors import BadData, BadSample, NotFound
from dataprep_converter.images import image_headers
from dataprep_converter.inputs.access import Access
from dataprep_converter.readers.images import voc as voc_reader
from dataprep_converter.readers.images import yolo as yolo_reader
from dataprep_converter.readers.images.annotated_images import AnnotatedImagesReader
from dataprep_converter.readers.images.coco import CocoFile

ROUNDS = 300


def changed(data: bytes, rng: np.random.Generator) -> bytes:
    """The data after some bytes were replaced, removed or duplicated, mostly near the beginning, or the end was cut off."""
    out = bytearray(data)
    for _ in range(int(rng.integers(1, 6))):
        at = int(min(rng.exponential(len(out) / 4 + 1), max(0, len(out) - 1)))
        match int(rng.integers(5)):
            case 0:
                out[at : at + 1] = rng.bytes(1)
            case 1:
                out[at : at + 4] = [b"\xff" * 4, b"\0" * 4, b"\x7f\xff\xff\xff"][int(rng.integers(3))]
            case 2:
                del out[at : at + int(rng.integers(1, 40))]
            case 3:
                out[at:at] = out[at : at + int(rng.integers(1, 40))]
            case _:
                del out[max(at, len(out) // 2) :]
    return bytes(out)


@pytest.mark.parametrize("data", [data for _, data in IMAGE_FILES.values()], ids=IMAGE_FILES.keys())
def test_a_changed_image_has_a_header_or_a_reason(data: bytes) -> None:
    rng = np.random.default_rng(len(data))
    bad = 0
    for _ in range(ROUNDS):
        try:
            header = image_headers.parse(changed(data, rng))
        except BadSample:
            bad += 1
        else:
            assert 0 < header.height * header.width <= image_headers.MOST_PIXELS
    assert bad


OBJECTS = [("cat", 0.0, 0.0, 10.0, 5.0), ("traffic light", 5.0, 5.0, 20.0, 10.0)]
PARSERS: dict[str, tuple[bytes, Callable[[bytes], object]]] = {
    "voc": (voc(OBJECTS, pose="Left", difficult="1"), lambda data: voc_reader.parse(data, first_pixel=1)),
    "voc in utf-16": (
        '<?xml version="1.0" encoding="utf-16"?>'.encode("utf-16") + voc(OBJECTS).decode().encode("utf-16-le"),
        lambda data: voc_reader.parse(data, first_pixel=0),
    ),
    "yolo": (yolo(OBJECTS, ["cat", "traffic light"]), lambda data: yolo_reader.parse(data, ["cat", "traffic light"])),
}


@pytest.mark.parametrize(("data", "parse"), PARSERS.values(), ids=PARSERS.keys())
def test_a_changed_annotation_is_read_or_bad(data: bytes, parse: Callable[[bytes], object]) -> None:
    rng = np.random.default_rng(1)
    parse(data)
    bad = 0
    for _ in range(10 * ROUNDS):
        try:
            parse(changed(data, rng))
        except BadSample:
            bad += 1
    assert bad


def test_a_changed_coco_file_is_read_or_an_error_that_names_it(tmp_path: Path) -> None:
    data = coco({"a.jpg": OBJECTS, "b.jpg": []}, ["cat", "traffic light"])
    rng = np.random.default_rng(2)
    bad: list[str] = []
    file = tmp_path / "a.json"
    for _ in range(ROUNDS):
        file.write_bytes(changed(data, rng))
        try:
            found = CocoFile(Access(), str(file))
            json.dumps([found.take(name) for name in list(found.left())]).encode()
        except BadData as exc:
            bad.append(str(exc))
    assert len(bad) > ROUNDS / 2
    assert all(message.startswith(f"{file}: ") for message in bad)


@pytest.mark.slow
def test_changed_pairs_are_rows_within_the_image_or_faults(tmp_path: Path) -> None:
    rng = np.random.default_rng(3)
    image, annotation = an_image(), voc(OBJECTS)
    for n in range(ROUNDS):
        which = n % 2
        put(
            tmp_path,
            {f"i/{n:03}.jpg": image if which else changed(image, rng), f"a/{n:03}.xml": changed(annotation, rng) if which else annotation},
        )
    found = batches(AnnotatedImagesReader, a_source(tmp_path / "i", tmp_path / "a", "Voc"))
    assert len(rows(found)) + len(faults(found)) == ROUNDS
    assert 20 < len(faults(found)) < ROUNDS
    for row in rows(found):
        for low, high in (("xmin", "xmax"), ("ymin", "ymax")):
            assert all(0 <= a < b <= 1 for a, b in zip(row[f"image/object/bbox/{low}"], row[f"image/object/bbox/{high}"], strict=True))


@pytest.mark.slow
def test_a_large_coco_file_is_never_in_memory(tmp_path: Path) -> None:
    outline = {"counts": "x" * 4000}
    file = tmp_path / "large.json"
    with file.open("w") as out:
        out.write('{"annotations": [')
        text = json.dumps({"image_id": 1, "category_id": 1, "bbox": [0, 0, 1, 1], "segmentation": outline})
        out.write(",\n".join([text] * 12_000))
        out.write('], "images": [{"id": 1, "file_name": "1.jpg"}], "categories": [{"id": 1, "name": "cat"}]}')
    assert file.stat().st_size > 46 << 20
    tracemalloc.start()
    try:
        found = CocoFile(Access(), str(file))
        assert tracemalloc.get_traced_memory()[1] < 24 << 20
    finally:
        tracemalloc.stop()
    extra = found.take("1.jpg")
    assert extra is not None
    assert len(extra["objects"]) == 12_000


def test_an_absent_coco_file_is_named(tmp_path: Path) -> None:
    with pytest.raises(NotFound, match=r"absent\.json does not exist"):
        CocoFile(Access(), str(tmp_path / "absent.json"))
