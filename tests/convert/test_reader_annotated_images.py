"""Images with boxes: the three formats agree, labels, classes, partners that are missing, and what is bad about boxes."""

import json
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import pytest
from tests.convert.annotated import Objects, a_source, coco, voc, write, yolo
from tests.convert.reader_contract import ReaderContract, batches, faults, opened, plan, rows
from tests.convert.test_reader_images import an_image, put

from dataprep_api.spec import DataPrepJobSpec, Source
from dataprep_converter import records
from dataprep_converter.access import Access
from dataprep_converter.errors import BadData, BadSpec, NotFound
from dataprep_converter.pipeline import Pipeline
from dataprep_converter.readers import Reader
from dataprep_converter.readers.annotated_images import AnnotatedImagesReader
from dataprep_converter.units import Units

FORMATS = ["Voc", "Coco", "Yolo"]
TWO: dict[str, Objects] = {
    "train/a/1.jpg": [("dog", 0, 0, 10, 5), ("cat", 5, 5, 20, 10)],
    "train/b/2.jpg": [],
    "val/3.jpg": [("cat", 2.5, 1.25, 7.5, 10), ("cat", 0, 0, 1, 1)],
}


def read(source: Source) -> list[dict[str, Any]]:
    return rows(batches(AnnotatedImagesReader, source))


def labels(source: Source) -> list[Any]:
    return [row["image/class/label"] for row in read(source)]


class AnnotatedContract(ReaderContract):
    reader: ClassVar[type[Reader]] = AnnotatedImagesReader
    kind: ClassVar[str]

    def a_source(self, folder: Path, *, size: int = 1) -> Source:
        images = {f"{('x', 'y')[n % 2]}/{n:04}.jpg": [("dog", 0, 0, n % 20 + 1, 5)] * (n % 4) for n in range(24 * (size + 9) // 10)}
        source = write(folder, self.kind, images)
        content = an_image(width=20, height=10) + bytes(1000)
        put(folder / "images", dict.fromkeys(images, content))
        return source

    def an_empty_source(self, folder: Path) -> Source:
        source = write(folder, self.kind, {})
        put(folder, {"images/README": b"", "annotations/README": b""})
        return source

    def a_missing_source(self, folder: Path) -> tuple[Source, str]:
        source = write(folder, self.kind, {"a.jpg": []})
        (folder / "images/a.jpg").unlink()
        return source, str(folder / "images")


class TestVoc(AnnotatedContract):
    kind = "Voc"

    def change(self, folder: Path) -> Path:
        put(folder, {"annotations/x/0006.xml": b"<annotation></annotation>"})
        return folder / "annotations/x/0006.xml"


class TestYolo(AnnotatedContract):
    kind = "Yolo"

    def change(self, folder: Path) -> Path:
        put(folder, {"annotations/x/0006.txt": b"another"})
        return folder / "annotations/x/0006.txt"


class TestCoco(AnnotatedContract):
    kind = "Coco"

    def change(self, folder: Path) -> Path:
        put(folder, {"images/x/0006.jpg": b"another image"})
        return folder / "images/x/0006.jpg"


# --- labels -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", FORMATS)
def test_the_formats_give_the_same_boxes(tmp_path: Path, kind: str) -> None:
    found = read(write(tmp_path, kind, TWO, classes=["cat", "dog"]))
    assert [row["image/filename"] for row in found] == ["train/a/1.jpg", "train/b/2.jpg", "val/3.jpg"]
    boxes = [[row[f"image/object/bbox/{edge}"] for edge in ("xmin", "ymin", "xmax", "ymax")] for row in found]
    assert boxes == [
        [[0.0, 0.25], [0.0, 0.5], [0.5, 1.0], [0.5, 1.0]],
        [[], [], [], []],
        [[0.125, 0.0], [0.125, 0.0], [0.375, np.float32(0.05)], [1.0, np.float32(0.1)]],
    ]
    assert [row["image/object/class/text"] for row in found] == [["dog", "cat"], [], ["cat", "cat"]]
    assert [row["image/object/class/label"] for row in found] == [[1, 0], [], [0, 0]]


def test_the_columns_are_those_of_the_object_detection_api(tmp_path: Path) -> None:
    source = write(tmp_path, "Voc", TWO)
    (tmp_path / "annotations/train/a/1.xml").write_bytes(voc([("dog", 0, 0, 10, 5)], pose="Left", truncated="1", difficult="true"))
    found = read(source)[0]
    assert sorted(set(found) - {"_sample", "image/filename"}) == [
        "image/encoded",
        "image/format",
        "image/height",
        "image/object/bbox/xmax",
        "image/object/bbox/xmin",
        "image/object/bbox/ymax",
        "image/object/bbox/ymin",
        "image/object/class/label",
        "image/object/class/text",
        "image/object/difficult",
        "image/object/truncated",
        "image/object/view",
        "image/width",
    ]
    assert (found["image/object/view"], found["image/object/truncated"], found["image/object/difficult"]) == (["Left"], [1], [1])


def test_tags_that_are_missing_have_their_usual_values(tmp_path: Path) -> None:
    found = read(write(tmp_path, "Voc", TWO))[0]
    assert found["image/object/view"] == ["Unspecified", "Unspecified"]
    assert found["image/object/truncated"] == found["image/object/difficult"] == [0, 0]


def test_the_largest_box_is_the_label_and_the_first_of_equal_ones(tmp_path: Path) -> None:
    images: dict[str, Objects] = {
        "1.jpg": [("small", 0, 0, 10, 4), ("large", 0, 0, 20, 10)],
        "2.jpg": [("second", 0, 0, 1, 1), ("large", 0, 0, 8, 5), ("small", 10, 5, 20, 9)],
        "3.jpg": [],
    }
    source = write(tmp_path, "Voc", images, label="LargestBox")
    units, state = plan(AnnotatedImagesReader, source)
    reader = opened(AnnotatedImagesReader, source, state)
    found = rows(list(reader.read(units, iter([np.arange(3)]))))
    assert [(row["image/class/text"], row["image/class/label"]) for row in found] == [("large", 0), ("large", 0), ("background", 3)]
    assert reader.classes() == {"image/class/label": ["large", "second", "small", "background"]}


def test_the_areas_of_the_how_to_100_and_400_give_the_second(tmp_path: Path) -> None:
    put(tmp_path, {"i/1.jpg": an_image(width=40, height=40)})
    put(tmp_path, {"a/1.xml": voc([("first", 0, 0, 10, 10), ("second", 0, 0, 20, 20)], size=(40, 40))})
    (row,) = read(a_source(tmp_path / "i", tmp_path / "a", "Voc", label="LargestBox"))
    assert row["image/class/text"] == "second"


@pytest.mark.parametrize("first", [(3, 4), (2, 6)], ids=str)
def test_equal_areas_are_a_tie_whatever_the_size_of_the_image(tmp_path: Path, first: tuple[int, int]) -> None:
    boxes = [("x", 0, 0, *first), ("y", 0, 0, 6, 2), ("z", 0, 0, 4, 3)]
    assert len({width / 7 * (height / 11) for _, _, _, width, height in boxes}) > 1
    put(tmp_path, {"i/1.png": an_image("PNG", width=7, height=11), "a/1.xml": voc(boxes, size=(7, 11))})
    (row,) = read(a_source(tmp_path / "i", tmp_path / "a", "Voc", label="LargestBox"))
    assert row["image/class/text"] == "x"


def test_an_image_without_objects_may_be_bad(tmp_path: Path) -> None:
    source = write(tmp_path, "Voc", TWO, label="LargestBox", withoutObjects="Bad")
    units, state = plan(AnnotatedImagesReader, source)
    reader = opened(AnnotatedImagesReader, source, state)
    found = list(reader.read(units, iter([np.arange(3)])))
    assert faults(found) == {1: "the image has no object (source.annotatedImages.withoutObjects: Bad)"}
    assert reader.classes() == {"image/class/label": ["cat", "dog"]}


def test_200_classes_and_background_make_a_vector_of_201(tmp_path: Path) -> None:
    names = [f"n{n:08}" for n in range(200)]
    write(tmp_path, "Yolo", {"1.jpg": [(names[199], 0, 0, 5, 5)], "2.jpg": []}, names=names)
    spec = DataPrepJobSpec.model_validate(
        {
            "source": {
                "annotatedImages": {
                    "images": [str(tmp_path / "images")],
                    "annotations": [str(tmp_path / "annotations")],
                    "format": "Yolo",
                    "classNames": str(tmp_path / "names.txt"),
                    "label": "LargestBox",
                }
            },
            "transforms": [{"oneHot": {"columns": ["image/class/label"], "numClasses": 201}}],
            "output": {"uri": "x"},
        }
    )
    units, state = plan(AnnotatedImagesReader, spec.data)
    pipeline = Pipeline(spec, state, Access())
    (batch,) = pipeline.batches(units, iter([np.arange(2)]))
    vectors = batch.records.column("image/class/label")
    matrix = np.array(vectors.to_pylist())
    assert matrix.shape == (2, 201)
    assert matrix.sum(axis=1).tolist() == [1, 1]
    assert matrix.argmax(axis=1).tolist() == [199, 200]


def test_the_lists_are_in_the_records(tmp_path: Path) -> None:
    source = write(tmp_path, "Voc", TWO)
    spec = DataPrepJobSpec.model_validate({"source": source.model_dump(by_alias=True, exclude_none=True), "output": {"uri": "x"}})
    units, state = plan(AnnotatedImagesReader, source)
    pipeline = Pipeline(spec, state, Access())
    (batch,) = pipeline.batches(units, iter([np.arange(3)]))
    first, second, _ = (records.parse_example(each) for _, each in records.read([bytes(pipeline.encoder().encode(batch.records))]))
    assert first["image/object/class/text"] == [b"dog", b"cat"]
    assert first["image/object/class/label"] == [1, 0]
    assert first["image/object/bbox/ymax"] == [0.5, 1.0]
    assert first["image/object/view"] == [b"Unspecified", b"Unspecified"]
    assert second["image/object/class/text"] == second["image/object/bbox/xmin"] == []


def test_the_set_of_classes_is_sorted_and_each_is_there_once(tmp_path: Path) -> None:
    found = read(write(tmp_path, "Coco", TWO, label="ClassSet", classes=["cat", "dog"]))
    assert [row["image/class/label"] for row in found] == [[0, 1], [], [0]]
    assert [row["image/class/text"] for row in found] == [["cat", "dog"], [], ["cat"]]


@pytest.mark.parametrize(
    ("kind", "options", "names"),
    [
        ("Voc", {}, ["cat", "dog"]),
        ("Coco", {}, ["dog", "cat"]),
        ("Yolo", {}, ["dog", "cat"]),
        ("Voc", {"classes": ["ox", "dog", "cat"]}, ["ox", "dog", "cat"]),
        ("Yolo", {"classes": ["ox", "dog", "cat"]}, ["ox", "dog", "cat"]),
        ("Voc", {"firstLabel": 1}, ["background", "cat", "dog"]),
    ],
    ids=["sorted", "by category id", "by the names file", "given", "given beside the names file", "from 1"],
)
def test_classes_are_numbered(tmp_path: Path, kind: str, options: dict[str, Any], names: list[str]) -> None:
    source = write(tmp_path, kind, TWO, **options)
    _, state = plan(AnnotatedImagesReader, source)
    assert opened(AnnotatedImagesReader, source, state).classes() == {"image/object/class/label": names}
    assert read(source)[0]["image/object/class/label"] == [names.index("dog"), names.index("cat")]


def test_with_labels_from_1_the_background_is_0(tmp_path: Path) -> None:
    assert labels(write(tmp_path, "Voc", TWO, label="LargestBox", firstLabel=1)) == [1, 0, 1]


def test_classes_are_sorted_by_their_utf8_bytes(tmp_path: Path) -> None:
    names = ["\U0001d4b3", "é", "z", "\uffee", "Z"]
    _, state = plan(AnnotatedImagesReader, write(tmp_path, "Voc", {"1.jpg": [(name, 0, 0, 1, 1) for name in names]}))
    assert state["classes"] == ["Z", "z", "é", "\uffee", "\U0001d4b3"]


@pytest.mark.parametrize("kind", FORMATS)
def test_an_unknown_class_is_no_background_but_bad_with_its_name(tmp_path: Path, kind: str) -> None:
    found = batches(AnnotatedImagesReader, write(tmp_path, kind, TWO, classes=["cat"], label="LargestBox"))
    assert [row["image/class/text"] for row in rows(found)] == ["background", "cat"]
    assert faults(found) == {0: "object 1 of its annotation is of the class 'dog', which source.annotatedImages.classes doesn't have: cat"}


@pytest.mark.parametrize("kind", FORMATS)
def test_unknown_classes_may_be_left_out(tmp_path: Path, kind: str) -> None:
    source = write(tmp_path, kind, TWO, classes=["cat"], unknownClasses="Ignore")
    assert [row["image/object/class/text"] for row in read(source)] == [["cat"], [], ["cat", "cat"]]


def test_a_class_that_only_the_validation_subset_has_is_a_warning(tmp_path: Path) -> None:
    images: dict[str, Objects] = {"train/1.jpg": [("cat", 0, 0, 1, 1)], "val/2.jpg": [("cat", 0, 0, 1, 1), ("zebra", 0, 0, 1, 1)]}
    units, state = plan(AnnotatedImagesReader, write(tmp_path, "Voc", images, subsetFrom="FirstFolder"))
    assert units.table["subset"].to_pylist() == ["train", "val"]
    assert state["warnings"] == ["the class 'zebra' is only in the subset val, not in train"]


def test_the_inputs_change_with_the_names_of_the_classes(tmp_path: Path) -> None:
    for kind in ("Yolo", "Coco"):
        before, _ = plan(AnnotatedImagesReader, write(tmp_path / kind, kind, {"1.jpg": []}, names=["a", "b"]))
        after, _ = plan(AnnotatedImagesReader, write(tmp_path / kind, kind, {"1.jpg": []}, names=["b", "a"]))
        assert before.table["extra"].to_pylist() != after.table["extra"].to_pylist()


# --- pairs --------------------------------------------------------------------------------------------------------


def test_two_trees_of_three_levels_are_paired_in_sorted_order(tmp_path: Path) -> None:
    paths = ["train/n01/b.JPEG", "train/n01/a.JPEG", "train/n02/a.JPEG", "val/n01/a.JPEG", "train/n01/a.b.JPEG"]
    put(tmp_path / "ILSVRC/Data/DET", {path: an_image() for path in paths})
    put(tmp_path / "ILSVRC/Annotations/DET", {path.removesuffix(".JPEG") + ".xml": voc([(path, 0, 0, 5, 5)]) for path in paths})
    source = a_source(tmp_path / "ILSVRC/Data/DET", tmp_path / "ILSVRC/Annotations/DET", "Voc", subsetFrom="FirstFolder")
    units, _ = plan(AnnotatedImagesReader, source)
    found = read(source)
    assert [row["image/filename"] for row in found] == sorted(paths)
    assert [row["image/object/class/text"] for row in found] == [[path] for path in sorted(paths)]
    assert units.table["subset"].to_pylist() == ["train"] * 4 + ["val"]


def incomplete(folder: Path, kind: str, **options: Any) -> Source:
    source = write(folder, kind, TWO | {"val/4.jpg": []}, **options)
    if kind == "Coco":
        put(folder, {"annotations/instances.json": coco({path: TWO[path] for path in TWO} | {"val/5.jpg": []}, ["dog", "cat"])})
    else:
        suffix = ".xml" if kind == "Voc" else ".txt"
        (folder / f"annotations/val/4{suffix}").rename(folder / f"annotations/val/5{suffix}")
    return source


@pytest.mark.parametrize("kind", FORMATS)
def test_missing_partners_fail_with_their_paths(tmp_path: Path, kind: str) -> None:
    with pytest.raises(NotFound) as caught:
        plan(AnnotatedImagesReader, incomplete(tmp_path, kind))
    orphan = {"Voc": "annotations/val/5.xml", "Yolo": "annotations/val/5.txt", "Coco": "annotations/instances.json: val/5.jpg"}[kind]
    assert str(caught.value) == (
        "source.annotatedImages.missing: Fail (images without an annotation: 1, annotations without an image: 1): "
        f"{tmp_path}/images/val/4.jpg, {tmp_path}/{orphan}"
    )
    assert caught.value.uri == f"{tmp_path}/images/val/4.jpg"


@pytest.mark.parametrize("kind", FORMATS)
def test_missing_partners_may_be_left_out_with_a_warning(tmp_path: Path, kind: str) -> None:
    units, state = plan(AnnotatedImagesReader, incomplete(tmp_path, kind, missing="Skip"))
    assert units.table["path"].to_pylist() == list(TWO)
    assert state["warnings"][0].startswith("left out (images without an annotation: 1, annotations without an image: 1): ")


@pytest.mark.parametrize("kind", FORMATS)
def test_missing_partners_may_be_bad_records(tmp_path: Path, kind: str) -> None:
    found = batches(AnnotatedImagesReader, incomplete(tmp_path, kind, missing="BadRecord"))
    orphan = "the image val/5.jpg of the annotations is not there" if kind == "Coco" else "the annotation has no image"
    assert faults(found) == {3: "the image has no annotation", 4: orphan}
    assert len(rows(found)) == 3


@pytest.mark.parametrize("kind", FORMATS)
def test_an_image_without_an_annotation_may_have_no_objects(tmp_path: Path, kind: str) -> None:
    source = write(tmp_path, kind, TWO, missing="Empty", label="ClassSet")
    put(tmp_path, {"images/val/4.jpg": an_image()})
    assert [row["image/class/text"] for row in read(source)][-1] == []
    (tmp_path / "images/val/3.jpg").unlink()
    with pytest.raises(NotFound, match=r"missing: Empty \(images without an annotation: 0, annotations without an image: 1\)"):
        plan(AnnotatedImagesReader, source)


def test_at_most_20_paths_are_listed(tmp_path: Path) -> None:
    source = write(tmp_path, "Voc", {f"{n:02}.jpg": [] for n in range(23)})
    for file in (tmp_path / "annotations").iterdir():
        file.unlink()
    put(tmp_path, {"annotations/README": b""})
    with pytest.raises(NotFound) as caught:
        plan(AnnotatedImagesReader, source)
    assert str(caught.value).count(".jpg") == 20
    assert str(caught.value).endswith(" … and 3 more")


def test_two_images_for_one_annotation_are_refused(tmp_path: Path) -> None:
    source = write(tmp_path, "Voc", {"a.jpg": []})
    put(tmp_path, {"images/a.png": an_image("PNG")})
    with pytest.raises(BadSpec, match=r"a\.jpg and .*a\.png would belong to the same file"):
        plan(AnnotatedImagesReader, source)


def test_several_pairs_of_trees_keep_their_order(tmp_path: Path) -> None:
    for name in "ba":
        write(tmp_path / name, "Voc", {f"{name}.jpg": [(name, 0, 0, 1, 1)]})
    both = {"images": [f"{tmp_path}/{name}/images" for name in "ba"], "annotations": [f"{tmp_path}/{name}/annotations" for name in "ba"]}
    found = read(Source.model_validate({"annotatedImages": {**both, "format": "Voc"}}))
    assert [(row["image/filename"], row["image/object/class/text"]) for row in found] == [("b.jpg", ["b"]), ("a.jpg", ["a"])]


def test_yolo_files_may_lie_beside_their_images(tmp_path: Path) -> None:
    put(tmp_path, {"1.jpg": an_image(), "1.txt": yolo([("a", 0, 0, 10, 5)], ["a"])})
    (row,) = read(a_source(tmp_path, tmp_path, "Yolo", classes=["a"]))
    assert row["image/object/bbox/xmax"] == [0.5]


# --- boxes --------------------------------------------------------------------------------------------------------


def one(folder: Path, annotation: bytes, kind: str = "Voc", **options: Any) -> tuple[list[dict[str, Any]], dict[int, str]]:
    """The rows and faults of one image of 20 x 10 pixels."""
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
    "right of it": ((30, 0, 40, 5), "its box 30, 0, 40, 5 (xmin, ymin, xmax, ymax) reaches beyond the image; the image has 20 x 10 pixels"),
    "below": ((0, 0, 20, 10.6), "its box 0, 0, 20, 10.6 (xmin, ymin, xmax, ymax) reaches beyond the image"),
    "left": ((-1, 0, 20, 10), "its box -1, 0, 20, 10 (xmin, ymin, xmax, ymax) reaches beyond the image"),
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
        "object 2 (dog): its box 0.65, 0.4, 1.15, 0.6 (xmin, ymin, xmax, ymax) reaches beyond the image; the image has 20 x 10 pixels"
    )


def test_half_a_pixel_beyond_is_rounding(tmp_path: Path) -> None:
    (row,), _ = one(tmp_path, voc([("cat", -0.5, 0, 20.5, 10.25)]))
    assert [row[f"image/object/bbox/{edge}"] for edge in ("xmin", "xmax", "ymax")] == [[0.0], [1.0], [1.0]]


def test_boxes_may_be_cut_at_the_border(tmp_path: Path) -> None:
    (row,), _ = one(tmp_path, voc([("cat", -5, 5, 10, 30)]), outsideBoxes="Clip")
    assert [row[f"image/object/bbox/{edge}"] for edge in ("xmin", "ymin", "xmax", "ymax")] == [[0.0], [0.5], [0.5], [1.0]]
    _, bad = one(tmp_path, voc([("cat", 30, 5, 40, 10)]), outsideBoxes="Clip")
    assert "lies outside the image" in bad[0]


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
    "an entity of nobody": (b"<annotation>&a;</annotation>", "its annotation is not valid XML: undefined entity: line 1, column 12"),
    "empty": (b"", "its annotation is not valid XML: no element found: line 1, column 0"),
    "cut": (voc([("cat", 0, 0, 5, 5)])[:-20], "its annotation is not valid XML: "),
    "another document": (b"<html></html>", "its annotation is no Pascal VOC file: it begins with <html>, expected <annotation>"),
    "deep": (b"<annotation>" + b"<a>" * 100_000, "its annotation has elements more than 32 deep"),
    "an odd encoding": (b'<?xml version="1.0" encoding="utf-7"?><annotation/>', "its annotation has an encoding that can't be read: "),
    "an unknown encoding": (b'<?xml version="1.0" encoding="klingon"?><annotation/>', "its annotation has an encoding that can't be read: "),
    "far too many objects": (b"<annotation>" + b"<object/>" * 100_001, "its annotation has more than 100,000 objects"),
    "no name": (b"<annotation><object/></annotation>", "object 1 of its annotation has no name"),
    "no edges": (
        b"<annotation><object><name>cat</name><bndbox><xmin>1</xmin><ymax>1</ymax></bndbox></object></annotation>",
        "object 1 (cat) of its annotation has no ymin, xmax",
    ),
    "no number": (voc([("cat", "x", 0, 5, 5)]), "xmin of object 1 (cat) is no number: 'x'"),  # type: ignore[list-item] # on purpose
    "not a number": (voc([("cat", float("nan"), 0, 5, 5)]), "xmin of object 1 (cat) is no number: 'nan'"),
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
    "no number": (b"0 a 0.1 0.1 0.1", "line 1 of its annotation: a value is no number: 'a'"),
    "infinite": (b"0 inf 0.1 0.1 0.1", "line 1 of its annotation: a value is no number: 'inf'"),
    "an underscore": (b"0 0.5 0.5 0_1 0.1", "line 1 of its annotation: a value is no number: '0_1'"),
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
    "twice": ("n.txt", b"a\nb\na\n", "the class 'a' is there twice."),
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
    "no json": (b"{", "a.json: not the JSON that was expected at character 1: "),
    "empty": (b"", "a.json: not the JSON that was expected at character 0: expected a JSON object, and it ends."),
    "a list": (b"[]", "at character 0: expected a JSON object, got '['."),
    "cut": (json.dumps({"images": [IMAGE], "categories": []}).encode()[:-4], "a.json: not the JSON that was expected at character "),
    "something behind": (b'{"images": []} x', "something stands behind the object."),
    "no utf-8": (b'{"images": ["\xff"]}', "not UTF-8: invalid start byte."),
    "deep": (b'{"images": [' + b"[" * 200_000, "nested too deeply."),
    "no images": (b"{}", "no images; a COCO file is an object with images, annotations and categories."),
    "no file name": (b'{"images": [{"id": 1}]}', "images[0] is not as COCO has it: it has no 'file_name'."),
    "an image twice": (json.dumps({"images": [IMAGE, IMAGE]}).encode(), "images[1] is not as COCO has it: file_name '1.jpg' is there twice"),
    "an id twice": (json.dumps({"images": [IMAGE, IMAGE | {"file_name": "2.jpg"}]}).encode(), "two images have the same id."),
    "a category twice": (json.dumps({"images": [], "categories": [CATEGORY, CATEGORY]}).encode(), "categories[1] is not as COCO has it: category 7 is there twice"),
    "an id of text": (b'{"images": [{"id": "1", "file_name": "1.jpg"}]}', "images[0] is not as COCO has it: id '1' is no whole number."),
    "an id too large": (b'{"images": [{"id": 99999999999999999999, "file_name": "1.jpg"}]}', "images[0] is not as COCO has it: "),
    "half a character": (b'{"images": [{"id": 1, "file_name": "\\ud800.jpg"}]}', "images[0] is not as COCO has it: "),
    "a number": (b'{"images": [1]}', "images[0] is not as COCO has it: "),
    "an image of nobody": (
        json.dumps({"images": [IMAGE], "categories": [CATEGORY], "annotations": [{"image_id": 5, "category_id": 7}]}).encode(),
        "a.json: the image_id of 1 of the annotations is not among images: 5.",
    ),
    "a category of nobody": (
        json.dumps({"images": [IMAGE], "categories": [CATEGORY], "annotations": [{"image_id": 1, "category_id": 8}]}).encode(),
        "a.json: the category_id of 1 of the annotations is not among categories: 8.",
    ),
}  # fmt: skip


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


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"annotations": ["a", "b"]}, "images and annotations must have as many entries as each other, got 1 and 2"),
        ({"format": "Yolo"}, "Yolo files hold numbers: give classNames or classes"),
        ({"classNames": "names.txt"}, "classNames is for format: Yolo"),
    ],
    ids=["lengths", "numbers", "names"],
)
def test_options_that_do_not_fit_are_refused(options: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        Source.model_validate({"annotatedImages": {"images": ["i"], "annotations": ["a"], "format": "Voc", **options}})


def test_the_units_of_a_format_are_read_by_a_reader_made_from_their_state(tmp_path: Path) -> None:
    source = write(tmp_path, "Coco", TWO)
    units, state = plan(AnnotatedImagesReader, source)
    (tmp_path / "annotations/instances.json").unlink()
    reader = opened(AnnotatedImagesReader, source, json.loads(json.dumps(state)))
    assert len(rows(list(reader.read(Units(units.table), iter([np.arange(3)]))))) == 3
