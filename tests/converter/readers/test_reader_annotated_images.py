"""Tests images with boxes: labels, classes, missing partners, and equal results for all three formats.

test_reader_annotations.py tests invalid boxes.
"""

import json
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import pytest
from tests.builders.files import put
from tests.builders.images import an_image
from tests.converter.readers.annotated import Objects, a_source, coco, voc, write, yolo
from tests.converter.readers.reader_contract import ReaderContract, batches, faults, opened, plan, rows

from dataprep_api.spec import DataPrepJobSpec, Source
from dataprep_converter.core.errors import BadSpec, NotFound
from dataprep_converter.formats.tfrecord import records
from dataprep_converter.inputs.access import Access
from dataprep_converter.pipeline.pipeline import Pipeline
from dataprep_converter.readers import Reader
from dataprep_converter.readers.images.annotated_images import AnnotatedImagesReader
from dataprep_converter.sampling.units import UnitTable

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

    def a_source(self, folder: Path) -> Source:
        images = {f"{('x', 'y')[n % 2]}/{n:04}.jpg": [("dog", 0, 0, n % 20 + 1, 5)] * (n % 4) for n in range(24)}
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
    with opened(AnnotatedImagesReader, source, state) as reader:
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
    with opened(AnnotatedImagesReader, source, state) as reader:
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


def test_the_classes_and_the_number_of_background_may_be_those_of_one_subset(tmp_path: Path) -> None:
    images: dict[str, Objects] = {
        "train/1.jpg": [("cat", 0, 0, 1, 1), ("dog", 0, 0, 2, 2)],
        "train/2.jpg": [],
        "val/3.jpg": [("ape", 0, 0, 1, 1)],
        "val/4.jpg": [("dog", 0, 0, 1, 1)],
    }
    source = write(tmp_path, "Voc", images, label="LargestBox", subsetFrom="FirstFolder", classesFrom="train")
    units, state = plan(AnnotatedImagesReader, source)
    with opened(AnnotatedImagesReader, source, state) as reader:
        found = list(reader.read(units, iter([np.arange(4)])))
        assert reader.classes() == {"image/class/label": ["cat", "dog", "background"]}
        assert [(row["image/class/text"], row["image/class/label"]) for row in rows(found)] == [("dog", 1), ("background", 2), ("dog", 1)]
        assert faults(found) == {
            2: "object 1 of its annotation is of the class 'ape', which the subset 'train' (source.annotatedImages.classesFrom) doesn't have: cat, dog"
        }
        assert state["warnings"] == ["the class 'ape' is only in the subset val, not in train"]


def test_a_class_that_only_other_subsets_have_may_be_left_out(tmp_path: Path) -> None:
    images: dict[str, Objects] = {"train/1.jpg": [("cat", 0, 0, 1, 1)], "val/2.jpg": [("ape", 0, 0, 9, 9), ("cat", 0, 0, 1, 1)]}
    options = {"label": "LargestBox", "subsetFrom": "FirstFolder", "classesFrom": "train", "unknownClasses": "Ignore"}
    assert labels(write(tmp_path, "Voc", images, **options)) == [0, 0]


def test_a_subset_without_classes_is_named(tmp_path: Path) -> None:
    images: dict[str, Objects] = {"train/1.jpg": [("cat", 0, 0, 1, 1)], "val/2.jpg": []}
    with pytest.raises(BadSpec) as caught:
        plan(AnnotatedImagesReader, write(tmp_path, "Voc", images, subsetFrom="FirstFolder", classesFrom="val"))
    assert str(caught.value) == "source.annotatedImages.classesFrom: the subset 'val' has no objects; subsets with objects: train."


@pytest.mark.parametrize(
    "options",
    [{}, {"subsetFrom": "Root", "classes": ["a"]}, {"subsetFrom": "Root", "format": "Coco"}],
    ids=["no subsets", "classes given", "no class is searched for"],
)
def test_the_subset_of_the_classes_needs_subsets_and_classes_that_are_found(options: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match="classesFrom needs format: Voc and subsetFrom, and can't be combined with classes"):
        Source.model_validate(
            {"annotatedImages": {"images": ["a"], "annotations": ["b"], "format": "Voc", "classesFrom": "train", **options}}
        )


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
    with pytest.raises(BadSpec, match=r"a\.jpg and .*a\.png would both get the same annotation or mask"):
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


# --- options -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"annotations": ["a", "b"]}, "images and annotations must have the same number of entries, got 1 and 2"),
        ({"format": "Yolo"}, "Yolo files contain only class numbers: set classNames or classes"),
        ({"classNames": "names.txt"}, "classNames needs format: Yolo"),
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
    with opened(AnnotatedImagesReader, source, json.loads(json.dumps(state))) as reader:
        assert len(rows(list(reader.read(UnitTable(units.table), iter([np.arange(3)]))))) == 3
