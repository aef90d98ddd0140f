"""Tests folders of images: classes, subsets, headers of real files made by Pillow, and the errors for damaged images."""

import struct
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import pytest
from tests.builders.files import put
from tests.builders.images import IMAGE_FILES, an_image, images_source
from tests.converter.readers.reader_contract import ReaderContract, batches, faults, opened, plan, read_all, rows

from dataprep_api.spec import Output, Source
from dataprep_converter.core import native
from dataprep_converter.core.errors import BadSample, BadSpec, InputChanged, NotFound
from dataprep_converter.formats.tfrecord.tfrecord_encoder import TfrecordEncoder
from dataprep_converter.images import image_headers
from dataprep_converter.images.image_headers import ImageHeader
from dataprep_converter.inputs.access import Access
from dataprep_converter.pipeline.features import resolve
from dataprep_converter.readers import Reader
from dataprep_converter.readers.images.images import ImagesReader
from dataprep_converter.records.batch import RejectedSample


class TestImages(ReaderContract):
    reader: ClassVar[type[Reader]] = ImagesReader

    def a_source(self, folder: Path) -> Source:
        image = an_image(width=20, height=20)
        put(folder, {f"{('cat', 'dog', 'ox')[n % 3]}/{n:04}.jpg": image + bytes([n % 251]) for n in range(24)})
        return images_source(folder)

    def an_empty_source(self, folder: Path) -> Source:
        put(folder, {"README": b"no image"})
        return images_source(folder)

    def a_missing_source(self, folder: Path) -> tuple[Source, str]:
        return images_source(folder / "absent"), str(folder / "absent")

    def change(self, folder: Path) -> Path:
        put(folder, {"cat/0006.jpg": b"another image"})
        return folder / "cat/0006.jpg"


CATS_AND_DOGS = {"dog/b.jpg": an_image(seed=1), "cat/img1.jpg": an_image(seed=2), "cat/img0.jpg": an_image(seed=3)}


def test_the_class_is_the_parent_folder_numbered_in_byte_order(tmp_path: Path) -> None:
    put(tmp_path, CATS_AND_DOGS)
    source = images_source(tmp_path)
    units, state = plan(ImagesReader, source)
    found = rows(read_all(opened(ImagesReader, source, state), units, iter([np.arange(3)])))
    assert [(row["image/filename"], row["image/class/label"], row["image/class/text"]) for row in found] == [
        ("cat/img0.jpg", 0, "cat"),
        ("cat/img1.jpg", 0, "cat"),
        ("dog/b.jpg", 1, "dog"),
    ]
    assert opened(ImagesReader, source, state).classes() == {"image/class/label": ["cat", "dog"]}


def test_the_bytes_of_the_file_are_kept(tmp_path: Path) -> None:
    put(tmp_path, CATS_AND_DOGS)
    (row, *_) = rows(batches(ImagesReader, images_source(tmp_path)))
    assert row["image/encoded"] == CATS_AND_DOGS["cat/img0.jpg"]
    assert (row["image/format"], row["image/height"], row["image/width"]) == ("jpeg", 10, 20)


def test_a_record_is_at_most_200_bytes_larger_than_its_file(tmp_path: Path) -> None:
    put(tmp_path, CATS_AND_DOGS)
    source = images_source(tmp_path)
    units, state = plan(ImagesReader, source)
    with opened(ImagesReader, source, state) as reader:
        projector = resolve(None, None, schema=reader.schema(), default_label=ImagesReader.default_label)
        assert "image/filename" not in [feature.name for feature in projector.features]
        assert [feature.name for feature in projector.features if feature.label] == ["image/class/label"]
        (batch,) = reader.read(units, iter([np.arange(3)]))
        written = len(TfrecordEncoder(Output(uri="x"), projector.features).encode(projector.project(batch).records))
        assert written - sum(map(len, CATS_AND_DOGS.values())) <= 3 * 200


def test_classes_are_sorted_by_their_utf8_bytes_and_only_folders_with_an_image_count(tmp_path: Path) -> None:
    put(tmp_path, {f"{name}/1.png": an_image("PNG") for name in ("é", "z", "a b", "Z", "\U0001d4b3", "\uffee")} | {"notes/a.txt": b"x"})
    _, state = plan(ImagesReader, images_source(tmp_path))
    assert state["classes"] == ["Z", "a b", "z", "é", "\uffee", "\U0001d4b3"]
    assert state["ignored"] == 1


def test_given_classes_keep_their_order(tmp_path: Path) -> None:
    put(tmp_path, CATS_AND_DOGS)
    found = rows(batches(ImagesReader, images_source(tmp_path, classes=["dog", "bird", "cat"])))
    assert [row["image/class/label"] for row in found] == [2, 2, 0]


def test_an_image_of_a_class_that_is_not_given_is_named(tmp_path: Path) -> None:
    put(tmp_path, CATS_AND_DOGS)
    with pytest.raises(BadSpec, match=r"dog/b\.jpg is of the class 'dog', which source\.images\.classes doesn't have: cat, bird"):
        plan(ImagesReader, images_source(tmp_path, classes=["cat", "bird"]))


def test_an_image_in_no_folder_has_no_class(tmp_path: Path) -> None:
    put(tmp_path, {"a.jpg": an_image()})
    with pytest.raises(BadSpec, match=r"a\.jpg isn't in a folder whose name could be its class"):
        plan(ImagesReader, images_source(tmp_path))
    assert "image/class/label" not in rows(batches(ImagesReader, images_source(tmp_path, labelFrom="None")))[0]


def test_the_first_folder_names_the_subset(tmp_path: Path) -> None:
    put(tmp_path, {"train/cat/1.jpg": an_image(), "val/dog/deep/ox/1.jpg": an_image()})
    units, state = plan(ImagesReader, images_source(tmp_path, subsetFrom="FirstFolder"))
    assert units.table["subset"].to_pylist() == ["train", "val"]
    assert state["classes"] == ["cat", "ox"]
    put(tmp_path, {"train/1.jpg": an_image()})
    with pytest.raises(BadSpec, match="whose name could be its class"):
        plan(ImagesReader, images_source(tmp_path, subsetFrom="FirstFolder"))


def test_other_files_are_counted_and_hidden_ones_are_not(tmp_path: Path) -> None:
    files = ["cat/a.JPG", "cat/a.txt", "cat/noextension", "cat/.b.jpg", "_tmp/c.jpg", ".git/cat/d.jpg", "cat/_e.png"]
    put(tmp_path, dict.fromkeys(files, an_image()))
    units, state = plan(ImagesReader, images_source(tmp_path))
    assert units.table["path"].to_pylist() == ["cat/a.JPG"]
    assert state["ignored"] == 2


def test_sub_folders_may_be_left_alone(tmp_path: Path) -> None:
    put(tmp_path, {"a.jpg": an_image(), "deep/b.jpg": an_image()})
    units, _ = plan(ImagesReader, images_source(tmp_path, recursive=False, labelFrom="None"))
    assert units.table["path"].to_pylist() == ["a.jpg"]


def test_the_order_is_that_of_the_folders_given_and_then_of_the_paths(tmp_path: Path) -> None:
    put(tmp_path, {"two/x/a.jpg": an_image(), "one/x/b.jpg": an_image(), "one/x-1/a.jpg": an_image(), "one/x.y/a.jpg": an_image()})
    units, _ = plan(ImagesReader, images_source(tmp_path / "two", tmp_path / "one"))
    assert list(zip(units.table["root"].to_pylist(), units.table["path"].to_pylist(), strict=True)) == [
        (0, "x/a.jpg"),
        (1, "x-1/a.jpg"),
        (1, "x.y/a.jpg"),
        (1, "x/b.jpg"),
    ]


def test_the_keys_do_not_depend_on_where_the_folder_lies(tmp_path: Path) -> None:
    put(tmp_path / "a", CATS_AND_DOGS)
    put(tmp_path / "b", CATS_AND_DOGS)
    keys = [plan(ImagesReader, images_source(tmp_path / name))[0].keys().tolist() for name in "ab"]
    assert keys[0] == keys[1]


def test_a_file_and_a_glob_have_the_class_of_the_folder_they_lie_in(tmp_path: Path) -> None:
    put(tmp_path, CATS_AND_DOGS)
    found = rows(batches(ImagesReader, images_source(tmp_path / "dog/b.jpg", tmp_path / "cat" / "*.jpg", tmp_path / "c?t/*")))
    assert [(row["image/filename"], row["image/class/text"]) for row in found] == [
        ("b.jpg", "dog"),
        ("img0.jpg", "cat"),
        ("img1.jpg", "cat"),
        ("cat/img0.jpg", "cat"),
        ("cat/img1.jpg", "cat"),
    ]
    with pytest.raises(NotFound, match="bird names no file"):
        plan(ImagesReader, images_source(tmp_path / "bird"))


def test_a_glob_names_the_class_by_the_folders_it_matches(tmp_path: Path) -> None:
    put(tmp_path, CATS_AND_DOGS)
    found = rows(batches(ImagesReader, images_source(tmp_path / "*" / "*.jpg")))
    assert [row["image/class/text"] for row in found] == ["cat", "cat", "dog"]


def test_the_last_part_of_the_uri_names_the_subset(tmp_path: Path) -> None:
    put(tmp_path, {"train2017/cat/1.jpg": an_image(), "val2017/cat/1.jpg": an_image()})
    units, _ = plan(ImagesReader, images_source(tmp_path / "train2017", tmp_path / "val2017", subsetFrom="Root"))
    assert units.table["subset"].to_pylist() == ["train2017", "val2017"]


# --- labels -------------------------------------------------------------------------------------------------------


NAMED = {"a/cat_img1234.jpg": an_image(), "b/dog_2309.png": an_image("PNG")}


@pytest.mark.parametrize(
    "rule",
    [
        {"split": "_", "index": 0},
        {"split": "_", "index": -2},
        {"pattern": "^(?P<label>[a-z]+)_"},
        {"pattern": r"^(?P<label>(?:cat|dog))_(?:img)?\d+\.(?:jpg|png)$"},
    ],
    ids=["part", "part from the end", "pattern", "pattern with the extension"],
)
def test_the_class_is_a_part_of_the_file_name(tmp_path: Path, rule: dict[str, Any]) -> None:
    put(tmp_path, NAMED)
    found = rows(batches(ImagesReader, images_source(tmp_path, labelFrom="FileName", fileName=rule)))
    assert [(row["image/class/text"], row["image/class/label"]) for row in found] == [("cat", 0), ("dog", 1)]


NO_CLASS: dict[str, tuple[dict[str, Any], str]] = {
    "no such part": (
        {"split": "_", "index": 2},
        "cat_img1234.jpg: 'cat_img1234' split by '_' has no part 2 that could be its class (it has 2; source.images.fileName).",
    ),
    "an empty part": ({"split": "cat", "index": 0}, "cat_img1234.jpg: the part of its name that gives the class is empty"),
    "no match": (
        {"pattern": "^(?P<label>dog)"},
        "cat_img1234.jpg: its name doesn't match source.images.fileName.pattern '^(?P<label>dog)'.",
    ),
    "an empty match": ({"pattern": "(?P<label>x*)"}, "cat_img1234.jpg: the part of its name that gives the class is empty"),
    "a broken pattern": ({"pattern": "(?P<label>a"}, "'(?P<label>a' is not a valid RE2 regular expression with only named groups: "),
    "a group without a name": ({"pattern": "(?P<label>a)(b)"}, "is not a valid RE2 regular expression with only named groups: "),
    "two groups": ({"pattern": "(?P<label>a)(?P<label>b)"}, "must have one group named label, (?P<label>…)."),
}


@pytest.mark.parametrize(("rule", "message"), NO_CLASS.values(), ids=NO_CLASS.keys())
def test_a_name_without_a_class_is_named_with_the_rule(tmp_path: Path, rule: dict[str, Any], message: str) -> None:
    put(tmp_path, NAMED)
    with pytest.raises(BadSpec) as caught:
        plan(ImagesReader, images_source(tmp_path, labelFrom="FileName", fileName=rule))
    assert message in str(caught.value)


def test_a_pattern_that_would_hang_a_backtracking_engine_is_quick(tmp_path: Path) -> None:
    put(tmp_path, {"a" * 200 + "!.jpg": an_image()})
    with pytest.raises(BadSpec, match="its name doesn't match"):
        plan(ImagesReader, images_source(tmp_path, labelFrom="FileName", fileName={"pattern": "^(?P<label>(?:a+)+)$"}))


def test_labels_that_are_numbers_are_taken_as_they_are(tmp_path: Path) -> None:
    put(tmp_path, {f"{name}/1.jpg": an_image() for name in ("10", "9", "007", "-1")})
    source = images_source(tmp_path, labelType="Number")
    units, state = plan(ImagesReader, source)
    with opened(ImagesReader, source, state) as reader:
        assert [row["image/class/label"] for row in rows(list(reader.read(units, iter([np.arange(4)]))))] == [-1, 7, 10, 9]
        assert reader.classes() == {}
        assert "image/class/text" not in reader.schema().names
        put(tmp_path, {"ten/1.jpg": an_image()})
        with pytest.raises(BadSpec, match=r"ten/1\.jpg has the label 'ten', which is not a whole number \(labelType: Number\)"):
            plan(ImagesReader, source)


def test_the_classes_may_be_those_of_one_subset(tmp_path: Path) -> None:
    put(tmp_path, {f"{path}/1.jpg": an_image() for path in ("test/dog", "train/cat", "train/dog")})
    source = images_source(tmp_path, subsetFrom="FirstFolder", classesFrom="train")
    assert plan(ImagesReader, source)[1]["classes"] == ["cat", "dog"]
    put(tmp_path, {"test/ape/2.jpg": an_image(), "test/ape/1.jpg": an_image()})
    with pytest.raises(BadSpec) as caught:
        plan(ImagesReader, source)
    assert str(caught.value) == (
        f"{tmp_path}/test/ape/1.jpg is of the class 'ape', which the subset 'train' doesn't have (source.images.classesFrom): cat, dog."
    )
    with pytest.raises(BadSpec, match=r"^source\.images\.classesFrom: the subset 'tain' has no images\.$"):
        plan(ImagesReader, images_source(tmp_path, subsetFrom="FirstFolder", classesFrom="tain"))


def test_what_the_plan_knows_of_a_sample_is_read_without_its_file(tmp_path: Path) -> None:
    put(tmp_path, CATS_AND_DOGS)
    source = images_source(tmp_path)
    units, state = plan(ImagesReader, source)
    for file in tmp_path.glob("*/*.jpg"):
        file.unlink()
    with ImagesReader(source.member, state, Access()) as reader:
        (batch,) = reader.read_columns(units, iter([np.array([2, 0])]), ["image/class/label", "image/filename"])
        assert rows([batch]) == [
            {"image/class/label": 1, "image/filename": "dog/b.jpg", "_sample": 2},
            {"image/class/label": 0, "image/filename": "cat/img0.jpg", "_sample": 0},
        ]
        with pytest.raises(InputChanged):
            list(reader.read_columns(units, iter([np.array([2, 0])]), ["image/class/label", "image/width"]))


def test_without_a_check_any_bytes_are_an_image(tmp_path: Path) -> None:
    put(tmp_path, {"cat/1.heic": b"what no header tells", "cat/2.heic": b""})
    source = images_source(tmp_path, extensions=["heic"], check="None")
    found = batches(ImagesReader, source)
    assert [row["image/encoded"] for row in rows(found)] == [b"what no header tells", b""]
    assert list(rows(found)[0]) == ["image/encoded", "image/class/label", "image/class/text", "image/filename", "_sample"]


def test_a_bad_image_is_kept_for_the_quarantine(tmp_path: Path) -> None:
    put(tmp_path, {"x/1.jpg": b"no image"})
    ((bad,),) = (batch.bad for batch in batches(ImagesReader, images_source(tmp_path)))
    assert bad.raw is not None
    assert (bad.raw.content, bad.raw.size) == (b"no image", 8)


INCONSISTENT: dict[str, tuple[dict[str, Any], str]] = {
    "neither": ({}, "set exactly one of uris and list"),
    "both": ({"uris": ["a"], "list": {"uri": "b"}}, "set exactly one of uris and list"),
    "no rule for names": ({"uris": ["a"], "labelFrom": "FileName"}, "labelFrom: FileName and fileName must be set together"),
    "a rule that nobody asks": ({"uris": ["a"], "fileName": {"split": "_"}}, "labelFrom: FileName and fileName must be set together"),
    "two rules": ({"uris": ["a"], "labelFrom": "FileName", "fileName": {}}, "set exactly one of split and pattern"),
    "no column": ({"list": {"uri": "a"}, "labelFrom": "List"}, "labelFrom: List and list.labelColumn must be set together"),
    "a column that nobody asks": ({"list": {"uri": "a", "labelColumn": "b"}}, "labelFrom: List and list.labelColumn must be set together"),
    "a class twice": ({"uris": ["a"], "classes": ["cat", "dog", "cat"]}, "the class 'cat' is listed twice"),
    "FileBatch files of a list": (
        {"list": {"uri": "a"}, "labelFrom": "OriginalUri"},
        "labelFrom: OriginalUri needs uris of FileBatch zips, not a list",
    ),
    "classes of no subset": ({"uris": ["a"], "classesFrom": "train"}, "classesFrom needs subsetFrom and labels that are names, and can't"),
    "classes from two places": (
        {"uris": ["a"], "subsetFrom": "Root", "classesFrom": "train", "classes": ["a"]},
        "classesFrom needs subsetFrom and labels that are names, and can't be combined with classes",
    ),
    "a subset's classes of numbers": (
        {"uris": ["a"], "subsetFrom": "Root", "classesFrom": "train", "labelType": "Number"},
        "classesFrom needs subsetFrom and labels that are names, and can't be combined with classes",
    ),
    "classes of numbers": ({"uris": ["a"], "classes": ["1"], "labelType": "Number"}, "classes need labels that are names"),
}


@pytest.mark.parametrize(("options", "message"), INCONSISTENT.values(), ids=INCONSISTENT.keys())
def test_options_that_do_not_fit_are_refused(options: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        Source.model_validate({"images": options})


def test_a_damaged_file_is_bad_and_the_others_are_read(tmp_path: Path) -> None:
    put(tmp_path, {"x/1.jpg": an_image(), "x/2.jpg": an_image()[:-10], "x/3.jpg": b"", "x/4.jpg": b"<html>", "x/5.jpg": an_image("PNG")})
    found = batches(ImagesReader, images_source(tmp_path), size=2)
    assert [(row["_sample"], row["image/format"]) for row in rows(found)] == [(0, "jpeg"), (4, "png")]
    assert {sample: reason.split(":")[0] for sample, reason in faults(found).items()} == {
        1: "truncated jpeg",
        2: "the file is empty",
        3: "not an image",
    }


# --- headers ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("kind", "data"), IMAGE_FILES.values(), ids=IMAGE_FILES.keys())
def test_format_and_size_are_read_from_the_header(kind: str, data: bytes) -> None:
    assert image_headers.parse(data) == ImageHeader(kind, height=10, width=20)


def a_png(width: int, height: int) -> bytes:
    return (
        b"\x89PNG\r\n\x1a\n\0\0\0\rIHDR" + struct.pack(">II", width, height) + b"\x08\x02\0\0\0" + bytes(4) + b"\0\0\0\0IEND\xaeB\x60\x82"
    )


THUMBNAIL = an_image("JPEG", exif=b"Exif\0\0" + an_image("JPEG", width=4, height=4))
DAMAGED: dict[str, tuple[bytes, str]] = {
    "empty": (b"", "the file is empty"),
    "text": (b"hello world", "not an image: it begins with 68 65 6c 6c 6f 20 77 6f"),
    "only a magic": (b"\xff\xd8\xff", "truncated image"),
    "jpeg without its end": (an_image()[:-2], "truncated jpeg: no end of image"),
    "jpeg with only its thumbnail complete": (THUMBNAIL[:-30], "truncated jpeg: no end of image"),
    "jpeg cut in its header": (an_image()[:100], "truncated image"),
    "jpeg without pixels": (b"\xff\xd8\xff\xd9", "it ends before its pixels"),
    "jpeg of fill bytes": (b"\xff\xd8" + b"\xff" * 100_000, "more than 65,536 markers before its pixels"),
    "jpeg with garbage": (b"\xff\xd8\xff\xe0\0\x04abc" + bytes(20), "no marker at byte"),
    "png without its end": (an_image("PNG")[:-12], "truncated png: no IEND"),
    "png of no size": (a_png(0, 5), "the png image is 0 x 5 pixels"),
    "png of far too many pixels": (a_png(100_000, 100_000), "the png image claims 100,000 x 100,000 pixels"),
    "webp cut": (an_image("WEBP")[:-5], "truncated webp"),
    "bmp cut": (an_image("BMP")[:54], "truncated bmp"),
    "tiff without sizes": (b"II*\0\x08\0\0\0\0\0", "its directory has no width and height"),
    "big tiff whose directory is outside the file": (b"II+\0\x08\0\0\0" + b"\xff" * 20, "truncated image"),
    "tiff cut": (an_image("TIFF")[:9], "truncated image"),
    "gif cut": (b"GIF89a\x01", "truncated image"),
}  # fmt: skip


@pytest.mark.parametrize(("data", "reason"), DAMAGED.values(), ids=DAMAGED.keys())
def test_a_damaged_image_is_told_by_its_fault(data: bytes, reason: str) -> None:
    with pytest.raises(BadSample) as caught:
        image_headers.parse(data)
    assert reason in str(caught.value)


def test_jpegs_that_are_looked_at_together_are_what_they_are_one_by_one() -> None:
    files = [data for kind, data in IMAGE_FILES.values() if kind == "jpeg"]
    ends = np.cumsum([0, *map(len, files)])
    sizes = native.jpeg_sizes(np.frombuffer(b"".join(files), np.uint8), ends)
    assert sizes is not None
    assert sizes.tolist() == [[10, 20]] * len(files)


@pytest.mark.parametrize(
    "data", [*(data for data, _ in DAMAGED.values()), *(data for kind, data in IMAGE_FILES.values() if kind != "jpeg")]
)
def test_one_file_that_is_no_usual_jpeg_has_all_looked_at_one_by_one(data: bytes) -> None:
    files = [an_image(), data, an_image()]
    assert native.jpeg_sizes(np.frombuffer(b"".join(files), np.uint8), np.cumsum([0, *map(len, files)])) is None


@pytest.mark.parametrize("odd", [b"", an_image()[:-2], an_image("PNG"), an_image("JPEG", width=4, height=4)])
def test_what_is_read_does_not_depend_on_whether_files_are_looked_at_together(
    odd: bytes, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for number in range(20):
        (tmp_path / f"{number:02}.jpg").write_bytes(odd if number == 7 else an_image())
    source = images_source(tmp_path, labelFrom="None")

    def found() -> list[tuple[list[dict[str, Any]], list[RejectedSample]]]:
        return [(batch.records.to_pylist(), batch.bad) for batch in batches(ImagesReader, source, size=10)]

    together = found()
    monkeypatch.setattr(ImagesReader, "uses_room", False)
    assert found() == together


def test_a_bitmap_stored_from_top_to_bottom_has_a_height() -> None:
    data = bytearray(an_image("BMP"))
    data[22:26] = struct.pack("<i", -10)
    assert image_headers.parse(bytes(data)) == ImageHeader("bmp", height=10, width=20)


@pytest.mark.parametrize("cut", range(0, 600, 7))
def test_no_cut_of_a_jpeg_passes_or_breaks_the_reader(cut: int) -> None:
    data = an_image()
    with pytest.raises(BadSample):
        image_headers.parse(data[: min(cut, len(data) - 1)])
