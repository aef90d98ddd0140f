"""Tests invalid image annotations: boxes outside the image, and invalid files.

test_reader_annotated_images.py tests valid annotations.
"""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tests.builders.files import put
from tests.builders.images import an_image
from tests.converter.readers.annotated import a_source, coco, voc, write
from tests.converter.readers.reader_contract import batches, faults, plan, rows

from dataprep_converter.core.errors import BadData, BadSpec
from dataprep_converter.readers.images.annotated_images import AnnotatedImagesReader

# --- boxes --------------------------------------------------------------------------------------------------------


def one(folder: Path, annotation: bytes, kind: str = "Voc", **options: Any) -> tuple[list[dict[str, Any]], dict[int, str]]:
    """The rows and faults read from an image of 20 x 10 pixels."""
    put(folder, {"i/1.jpg": an_image(), {"Voc": "a/1.xml", "Yolo": "a/1.txt", "Coco": "a.json"}[kind]: annotation})
    if kind == "Yolo":
        options.setdefault("classes", ["cat", "dog"])
    found = batches(AnnotatedImagesReader, a_source(folder / "i", folder / ("a.json" if kind == "Coco" else "a"), kind, **options))
    return rows(found), faults(found)


BOXES: dict[str, tuple[tuple[float, float, float, float], str]] = {
    "inverted": (
        (10, 0, 5, 5),
        "object 1 (cat): its box 10, 0, 5, 5 (xmin, ymin, xmax, ymax) is inverted or empty; the image has 20 x 10 pixels",
    ),
    "empty": ((5, 1, 5, 5), "its box 5, 1, 5, 5 (xmin, ymin, xmax, ymax) is inverted or empty"),
    "right of it": ((30, 0, 40, 5), "its box 30, 0, 40, 5 (xmin, ymin, xmax, ymax) extends beyond the image; the image has 20 x 10 pixels"),
    "below": ((0, 0, 20, 10.6), "its box 0, 0, 20, 10.6 (xmin, ymin, xmax, ymax) extends beyond the image"),
    "left": ((-1, 0, 20, 10), "its box -1, 0, 20, 10 (xmin, ymin, xmax, ymax) extends beyond the image"),
}


@pytest.mark.parametrize(("box", "reason"), BOXES.values(), ids=BOXES.keys())
@pytest.mark.parametrize("kind", ["Voc", "Coco"])
def test_a_box_that_does_not_fit_is_bad_with_its_numbers(
    tmp_path: Path, kind: str, box: tuple[float, float, float, float], reason: str
) -> None:
    annotation = voc([("cat", *box)]) if kind == "Voc" else coco({"1.jpg": [("cat", *box)]}, ["cat"])
    found, bad = one(tmp_path, annotation, kind)
    assert found == []
    assert reason in bad[0]


def test_a_yolo_box_that_does_not_fit_is_bad_with_its_numbers(tmp_path: Path) -> None:
    _, bad = one(tmp_path, b"0 0.5 0.5 0.2 0.2\n1 0.9 0.5 0.5 0.2\n", "Yolo")
    assert bad[0] == (
        "object 2 (dog): its box 0.65, 0.4, 1.15, 0.6 (xmin, ymin, xmax, ymax) extends beyond the image; the image has 20 x 10 pixels"
    )


def test_half_a_pixel_beyond_is_rounding(tmp_path: Path) -> None:
    (row,), _ = one(tmp_path, voc([("cat", -0.5, 0, 20.5, 10.25)]))
    assert [row[f"image/object/bbox/{edge}"] for edge in ("xmin", "xmax", "ymax")] == [[0.0], [1.0], [1.0]]


def test_boxes_may_be_cut_at_the_border(tmp_path: Path) -> None:
    (row,), _ = one(tmp_path, voc([("cat", -5, 5, 10, 30)]), outsideBoxes="Clip")
    assert [row[f"image/object/bbox/{edge}"] for edge in ("xmin", "ymin", "xmax", "ymax")] == [[0.0], [0.5], [0.5], [1.0]]
    _, bad = one(tmp_path, voc([("cat", 30, 5, 40, 10)]), outsideBoxes="Clip")
    assert "is outside the image" in bad[0]


def test_boxes_that_count_from_1_include_their_last_pixel(tmp_path: Path) -> None:
    (row,), _ = one(tmp_path, voc([("cat", 1, 1, 20, 10), ("cat", 11, 6, 11, 6)]), firstPixel=1)
    edges = np.array([row[f"image/object/bbox/{edge}"] for edge in ("xmin", "ymin", "xmax", "ymax")])
    np.testing.assert_array_equal(edges.T, np.array([[0, 0, 1, 1], [0.5, 0.5, 0.55, 0.6]], np.float32))
    _, bad = one(tmp_path, voc([("cat", 0, 1, 20, 10)]), firstPixel=1)
    assert "its box -1, 0, 20, 10" in bad[0]


def test_an_annotation_of_another_size_is_bad(tmp_path: Path) -> None:
    _, bad = one(tmp_path, voc([], size=(10, 20)))
    assert bad == {0: "the annotation is for 10 x 20 pixels, the image has 20 x 10"}
    assert one(tmp_path, voc([], size=(0, 0)))[1] == one(tmp_path, voc([], size=None))[1] == {}


# --- files that are wrong -----------------------------------------------------------------------------------------

LAUGHS = (
    b'<?xml version="1.0"?><!DOCTYPE a [<!ENTITY a "ha"><!ENTITY b "&a;&a;&a;">]><annotation><object><name>&b;</name></object></annotation>'
)
EXTERNAL = b'<!DOCTYPE a [<!ENTITY a SYSTEM "file:///etc/passwd">]><annotation><object><name>&a;</name></object></annotation>'
PARAMETER = b'<!DOCTYPE a SYSTEM "http://127.0.0.1:1/x.dtd"><annotation></annotation>'
BAD_XML: dict[str, tuple[bytes, str]] = {
    "entities that grow": (LAUGHS, "its annotation declares a document type (DOCTYPE), which is refused: it could hold entities"),
    "an entity that is a file": (EXTERNAL, "its annotation declares a document type (DOCTYPE)"),
    "a document type elsewhere": (PARAMETER, "its annotation declares a document type (DOCTYPE)"),
    "an unknown entity": (b"<annotation>&a;</annotation>", "its annotation is not valid XML: undefined entity: line 1, column 12"),
    "empty": (b"", "its annotation is not valid XML: no element found: line 1, column 0"),
    "cut": (voc([("cat", 0, 0, 5, 5)])[:-20], "its annotation is not valid XML: "),
    "another document": (b"<html></html>", "its annotation is not a Pascal VOC file: it begins with <html>, expected <annotation>"),
    "deep": (b"<annotation>" + b"<a>" * 100_000, "its annotation has elements more than 32 levels deep"),
    "an odd encoding": (b'<?xml version="1.0" encoding="utf-7"?><annotation/>', "its annotation has an encoding that can't be read: "),
    "an unknown encoding": (b'<?xml version="1.0" encoding="klingon"?><annotation/>', "its annotation has an encoding that can't be read: "),
    "far too many objects": (b"<annotation>" + b"<object/>" * 100_001, "its annotation has more than 100,000 objects"),
    "no name": (b"<annotation><object/></annotation>", "object 1 of its annotation has no name"),
    "no edges": (
        b"<annotation><object><name>cat</name><bndbox><xmin>1</xmin><ymax>1</ymax></bndbox></object></annotation>",
        "object 1 (cat) of its annotation has no ymin, xmax",
    ),
    "no number": (voc([("cat", "x", 0, 5, 5)]), "xmin of object 1 (cat) is not a number: 'x'"),  # type: ignore[list-item] # on purpose
    "not a number": (voc([("cat", float("nan"), 0, 5, 5)]), "xmin of object 1 (cat) is not a number: 'nan'"),
    "a flag": (voc([("cat", 0, 0, 5, 5)], difficult="very"), "difficult of object 1 of its annotation is 'very', expected 0 or 1"),
}  # fmt: skip


@pytest.mark.parametrize("classes", [["cat"], None], ids=["given", "found"])
@pytest.mark.parametrize(("annotation", "reason"), BAD_XML.values(), ids=BAD_XML.keys())
def test_a_bad_voc_file_is_a_bad_record(tmp_path: Path, annotation: bytes, reason: str, classes: list[str] | None) -> None:
    found, bad = one(tmp_path, annotation, classes=classes)
    assert found == []
    assert reason in bad[0]


def test_the_parts_of_an_object_are_not_the_object(tmp_path: Path) -> None:
    annotation = (
        b"<annotation><object><part><name>head</name><bndbox><xmin>1</xmin><ymin>1</ymin><xmax>2</xmax><ymax>2</ymax></bndbox></part>"
        b"<name>a &amp; b</name><bndbox><xmin>0</xmin><ymin>0</ymin><xmax>10.0</xmax><ymax>5</ymax></bndbox></object></annotation>"
    )
    (row,), _ = one(tmp_path, annotation)
    assert row["image/object/class/text"] == ["a & b"]
    assert row["image/object/bbox/xmax"] == [0.5]


def test_annotations_of_more_than_16_mib_are_bad_and_never_read(tmp_path: Path) -> None:
    found, bad = one(tmp_path, b"<annotation>" + b" " * (16 << 20))
    assert (found, bad) == ([], {0: "its annotation has more than 16 MiB"})


BAD_YOLO: dict[str, tuple[bytes, str]] = {
    "a polygon": (b"\n0 0.1 0.1 0.2 0.2 0.3 0.3\n", "line 2 of its annotation has 7 values, expected 5: class, cx, cy, w, h"),
    "no number": (b"0 a 0.1 0.1 0.1", "line 1 of its annotation: a value is not a number: 'a'"),
    "infinite": (b"0 inf 0.1 0.1 0.1", "line 1 of its annotation: a value is not a number: 'inf'"),
    "an underscore": (b"0 0.5 0.5 0_1 0.1", "line 1 of its annotation: a value is not a number: '0_1'"),
    "a class too many": (b"2 0.5 0.5 0.1 0.1", "line 1 of its annotation: the class 2 is outside 0..1"),
    "half a class": (b"0.5 0.5 0.5 0.1 0.1", "line 1 of its annotation: the class 0.5 is outside 0..1"),
    "no utf-8": (b"\xff", "its annotation is not UTF-8"),
    "far too many objects": (b"0 0.5 0.5 0.1 0.1\n" * 100_001, "its annotation has more than 100,000 objects"),
}


@pytest.mark.parametrize(("annotation", "reason"), BAD_YOLO.values(), ids=BAD_YOLO.keys())
def test_a_bad_yolo_file_is_a_bad_record(tmp_path: Path, annotation: bytes, reason: str) -> None:
    assert one(tmp_path, annotation, "Yolo") == ([], {0: reason})


NAMES: dict[str, tuple[str, bytes, list[str] | str]] = {
    "lines": ("n.txt", b"\xef\xbb\xbfcat \r\ntraffic light\n\n", ["cat", "traffic light"]),
    "a list": ("n.yaml", b"nc: 2\nnames: [cat, 7]\n", ["cat", "7"]),
    "a map": ("n.yml", b"names:\n  1: dog\n  0: cat\n", ["cat", "dog"]),
    "a gap": ("n.yml", b"names:\n  2: dog\n  0: cat\n", "expected names: a list, or a map from 0, 1, … to names."),
    "no names": ("n.yml", b"[1]", "expected names: a list, or a map from 0, 1, … to names."),
    "no yaml": ("n.yml", b"a: b: c", "not valid YAML: "),
    "an object": ("n.yml", b"names: !!python/object/apply:os.system [ls]", "not valid YAML: "),
    "twice": ("n.txt", b"a\nb\na\n", "the class 'a' occurs twice."),
    "an empty one": ("n.txt", b"a\n\nb\n", "a class name is empty (number 1)."),
    "none": ("n.txt", b"\n", "a class name is empty (number 0)."),
    "no utf-8": ("n.txt", b"\xff", "not UTF-8: invalid start byte at byte 0."),
}


@pytest.mark.parametrize(("name", "content", "expected"), NAMES.values(), ids=NAMES.keys())
def test_the_names_of_yolo_classes(tmp_path: Path, name: str, content: bytes, expected: list[str] | str) -> None:
    source = write(tmp_path, "Yolo", {"1.jpg": []}, classNames=str(tmp_path / name))
    (tmp_path / name).write_bytes(content)
    if isinstance(expected, list):
        assert plan(AnnotatedImagesReader, source)[1]["classes"] == expected
    else:
        with pytest.raises(BadSpec) as caught:
            plan(AnnotatedImagesReader, source)
        assert str(caught.value).startswith(f"{tmp_path / name}: {expected}")


IMAGE = {"id": 1, "file_name": "1.jpg"}
CATEGORY = {"id": 7, "name": "cat"}
BAD_COCO: dict[str, tuple[bytes, str]] = {
    "no json": (b"{", "a.json: invalid JSON at character 1: "),
    "empty": (b"", "a.json: invalid JSON at character 0: expected a JSON object, but the text ends."),
    "a list": (b"[]", "at character 0: expected a JSON object, got '['."),
    "cut": (json.dumps({"images": [IMAGE], "categories": []}).encode()[:-4], "a.json: invalid JSON at character "),
    "something behind": (b'{"images": []} x', "there is something after the object."),
    "no utf-8": (b'{"images": ["\xff"]}', "not UTF-8: invalid start byte."),
    "deep": (b'{"images": [' + b"[" * 200_000, "nested too deeply."),
    "no images": (b"{}", "no images; a COCO file is an object with images, annotations and categories."),
    "no file name": (b'{"images": [{"id": 1}]}', "images[0] is invalid: it has no 'file_name'."),
    "an image twice": (json.dumps({"images": [IMAGE, IMAGE]}).encode(), "images[1] is invalid: file_name '1.jpg' occurs twice"),
    "an id twice": (json.dumps({"images": [IMAGE, IMAGE | {"file_name": "2.jpg"}]}).encode(), "two images have the same id."),
    "a category twice": (json.dumps({"images": [], "categories": [CATEGORY, CATEGORY]}).encode(), "categories[1] is invalid: category 7 occurs twice"),
    "an id of text": (b'{"images": [{"id": "1", "file_name": "1.jpg"}]}', "images[0] is invalid: id '1' is not a whole number."),
    "an id too large": (b'{"images": [{"id": 99999999999999999999, "file_name": "1.jpg"}]}', "images[0] is invalid: "),
    "half a character": (b'{"images": [{"id": 1, "file_name": "\\ud800.jpg"}]}', "images[0] is invalid: "),
    "a number": (b'{"images": [1]}', "images[0] is invalid: "),
    "an unknown image": (
        json.dumps({"images": [IMAGE], "categories": [CATEGORY], "annotations": [{"image_id": 5, "category_id": 7}]}).encode(),
        "a.json: 1 of the annotations has an unknown image_id, not in images: 5.",
    ),
    "an unknown category": (
        json.dumps({"images": [IMAGE], "categories": [CATEGORY], "annotations": [{"image_id": 1, "category_id": 8}]}).encode(),
        "a.json: 1 of the annotations has an unknown category_id, not in categories: 8.",
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", ["../secret.jpg", "/etc/secret.jpg", "a/../../secret.jpg"])
def test_a_coco_file_name_reads_nothing_outside_its_tree(tmp_path: Path, name: str) -> None:
    images = {"1.jpg": an_image(), "a/2.jpg": an_image()}
    put(tmp_path, {f"i/{path}": data for path, data in images.items()} | {"secret.jpg": an_image(seed=1)})
    entries = [{"id": number, "file_name": path} for number, path in enumerate([*images, name])]
    put(tmp_path, {"a.json": json.dumps({"images": entries, "categories": [CATEGORY], "annotations": []}).encode()})

    source = a_source(tmp_path / "i", tmp_path / "a.json", "Coco", missing="BadRecord")
    found = batches(AnnotatedImagesReader, source)
    assert [row["image/filename"] for row in rows(found)] == list(images)
    assert len(faults(found)) == 1


@pytest.mark.parametrize(("content", "message"), BAD_COCO.values(), ids=BAD_COCO.keys())
def test_a_bad_coco_file_fails_with_the_place(tmp_path: Path, content: bytes, message: str) -> None:
    with pytest.raises(BadData) as caught:
        one(tmp_path, content, "Coco")
    assert message in str(caught.value)
    assert caught.value.uri == str(tmp_path / "a.json")


@pytest.mark.parametrize("box", [None, [1, 2, 3], ["a", 1, 1, 1], [float("nan"), 0, 1, 1]], ids=["none", "short", "text", "nan"])
def test_an_object_without_a_box_makes_its_image_bad(tmp_path: Path, box: object) -> None:
    whole = {"images": [IMAGE], "categories": [CATEGORY], "annotations": [{"image_id": 1, "category_id": 7, "bbox": box}]}
    assert one(tmp_path, json.dumps(whole).encode(), "Coco") == ([], {0: "object 1 (cat) has no bbox of four numbers"})


def test_a_crowd_is_told_and_the_members_may_stand_in_any_order(tmp_path: Path) -> None:
    thing = {"image_id": 1, "category_id": 7, "bbox": [0, 0, 10, 5], "segmentation": {"counts": "x" * 10_000}}
    whole = {"annotations": [thing, thing | {"iscrowd": 1}], "more": 12, "categories": [CATEGORY], "images": [IMAGE], "end": [[], {}]}
    (row,), _ = one(tmp_path, json.dumps(whole, indent=1).encode("utf-8-sig"), "Coco")
    assert row["image/object/is_crowd"] == [0, 1]
    assert row["image/object/bbox/ymax"] == [0.5, 0.5]
