"""Names have valid lengths and characters, and every URI has one canonical form."""

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dataprep_api import names

UID = "0d1c9a5e-52d1-4a3c-9c62-6d5b3a2f7f10"
OBJECT_NAMES = st.from_regex(r"[a-z0-9]([-a-z0-9]{0,60}[a-z0-9])?(\.[a-z0-9]([-a-z0-9]{0,60}[a-z0-9])?){0,3}", fullmatch=True).filter(
    lambda name: len(name) <= 253
)


@given(OBJECT_NAMES, st.sampled_from(["convert-9-99999", "convert-99-9999", "convert-999-999", "plan", "commit"]))
def test_a_pod_s_host_name_fits_however_long_the_job_s_name(name: str, rest: str) -> None:
    pod = f"{names.child_base(name, UID)}-{rest}"

    assert len(pod) <= 63
    assert re.fullmatch(r"[a-z0-9]([-a-z0-9]*[a-z0-9])?", pod)


def test_jobs_of_equal_beginnings_have_children_of_different_names() -> None:
    long = "a" * 60

    assert names.child_base(f"{long}-1", UID) != names.child_base(f"{long}-2", UID.replace("0d1c", "ffff"))


def test_six_equal_digits_of_the_uid_are_not_enough_for_equal_names() -> None:
    """With only six digits, the probability that two of a schedule's 6,000 jobs have the same digits would be one half."""
    assert names.child_base("photos", UID) != names.child_base("photos", UID.replace("5e", "5f"))
    assert names.first_child_base("photos", UID) == names.first_child_base("photos", UID.replace("5e", "5f")) == "photos-0d1c9a"


@given(OBJECT_NAMES)
def test_a_job_s_name_as_a_label_is_a_label_value(name: str) -> None:
    value = names.label_value(name)

    assert re.fullmatch(r"[A-Za-z0-9]([-_.A-Za-z0-9]{0,61}[A-Za-z0-9])?", value)


@pytest.mark.parametrize(
    ("uri", "normalised"),
    [
        ("hdfs://NN:9000//a/b/", "hdfs://nn:9000/a/b"),
        ("HDFS://nn:9000/a/./b/../c", "hdfs://nn:9000/a/c"),
        ("oss://bucket", "oss://bucket"),
        ("oss://bucket/", "oss://bucket"),
        ("file:///mnt/nas/", "/mnt/nas"),
        ("/mnt//nas/", "/mnt/nas"),
        ("/../a", "/a"),
        ("out/set/", "out/set"),
        ("./out", "out"),
    ],
)
def test_one_place_has_one_spelling(uri: str, normalised: str) -> None:
    assert names.normalised(uri) == normalised
    assert names.normalised(normalised) == normalised


def test_all_but_data_files_are_hidden_from_spark() -> None:
    files = [names.OWNER, names.SUCCESS, names.plan_file("r"), names.units_file("r"), names.report_file("r", 3), names.manifest_file("r")]

    assert [file for file in files if not file.startswith("_")] == []


def test_reports_sort_as_their_shards() -> None:
    assert sorted(names.report_file("r", number) for number in (10, 9, 100_000)) == [
        names.report_file("r", number) for number in (9, 10, 100_000)
    ]


@pytest.mark.parametrize(
    ("template", "shards", "expected"),
    [(None, 1, "{split}.{ext}"), (None, 2, "{split}-{shard}-of-{shards}.{ext}"), ("{split}.tfrecords", 1, "{split}.tfrecords")],
)
def test_without_a_template_shards_are_numbered_when_there_are_several(template: str | None, shards: int, expected: str) -> None:
    assert names.file_name_template(template, shards=shards) == expected


@pytest.mark.parametrize(
    ("format_", "template", "several", "expected"),
    [
        ("sequenceFile", None, False, "part-r-{shard}"),
        ("sequenceFile", None, True, "{split}/part-r-{shard}"),
        ("sequenceFile", "{split}.{ext}", True, "{split}.{ext}"),
        ("mapFile", None, False, "part-r-{shard}/data"),
        ("mapFile", None, True, "{split}/part-r-{shard}/data"),
        ("mapFile", "{split}.{ext}", True, "{split}.{ext}/data"),
        ("tfrecord", None, True, "{split}.{ext}"),
    ],
)
def test_formats_have_the_names_that_their_users_expect(format_: str, template: str | None, several: bool, expected: str) -> None:
    assert names.file_name_template(template, shards=1, format_=format_, several_splits=several) == expected


def test_numbers_have_five_digits_or_as_many_as_are_needed() -> None:
    def name(shard: int, shards: int) -> str:
        return names.file_name("{split}-{shard}-of-{shards}.{ext}", split="train", shard=shard, shards=shards, ext="tfrecord")

    assert name(3, 8) == "train-00003-of-00008.tfrecord"
    assert name(3, 100_000) == "train-000003-of-100000.tfrecord"


@pytest.mark.parametrize(
    ("template", "fault"),
    [
        ("{split}-{shard}.{ext}", None),
        ("{split}/{shard}.tfrecord", None),
        ("{split}-{shrad}", "unknown field {shrad} in the file name; known: {split}, {shard}, {shards}, {ext}"),
        ("{split}-{shard}-{}", "unknown field {} in the file name"),
        ("{split}-{shard", "unbalanced brace"),
        ("{split}-{shard}}", "unbalanced brace"),
        ("/{split}-{shard}", "must be a relative path"),
        ("{split}/../{shard}", "must be a relative path"),
        ("{split}//{shard}", "must be a relative path"),
        ("_{split}-{shard}", "may begin with _ or ."),
        ("{split}/.{shard}", "may begin with _ or ."),
        ("{shard}.{ext}", "must contain {split}"),
        ("{split}.{ext}", "must contain {shard}"),
    ],
)
def test_a_template_s_fault_is_named(template: str, fault: str | None) -> None:
    found = names.template_fault(template, several_splits=True, several_shards=True)

    assert found == fault if fault is None else fault in (found or "")


def test_one_split_of_one_shard_needs_no_fields() -> None:
    assert names.template_fault("all.tfrecords", several_splits=False, several_shards=False) is None


@pytest.mark.parametrize(
    ("template", "shard", "shards", "expected"),
    [
        ("{split}-{shard:06}.{ext}", 3, 8, "train-000003.tar"),
        ("{split}-{shard:02}-of-{shards:03}.{ext}", 3, 8, "train-03-of-008.tar"),
        ("{split}-{shard:02}.{ext}", 3, 1000, "train-0003.tar"),
    ],
)
def test_a_template_may_say_how_many_digits_numbers_have(template: str, shard: int, shards: int, expected: str) -> None:
    assert names.template_fault(template, several_splits=True, several_shards=True) is None
    assert names.file_name(template, split="train", shard=shard, shards=shards, ext="tar") == expected


@pytest.mark.parametrize("template", ["{split:06}", "{shard:6}", "{shard:0}", "{shard:06d}", "{ext:02}"])
def test_only_numbers_have_digits(template: str) -> None:
    assert names.template_fault(template, several_splits=False, several_shards=False) is not None


def test_webdataset_and_mds_have_the_names_that_their_users_expect() -> None:
    assert names.file_name_template(None, shards=1, format_="webdataset") == "{split}-{shard:06}.{ext}"
    assert names.file_name_template(None, shards=1, format_="mds") == "{split}/shard.{shard}.{ext}"


def test_only_mds_has_visible_files_of_a_split() -> None:
    assert names.split_files("mds", ["train/shard.00000.mds", "train/shard.00001.mds", "b.mds"]) == {"train/index.json", "index.json"}
    assert names.split_files("tar", ["train/a.tar"]) == set()


@pytest.mark.parametrize(
    ("path", "hidden"), [("a/b", False), ("_SUCCESS", True), ("a/.b", True), ("_dataprep/x", True), ("a_b/c.d", False)]
)
def test_a_file_is_hidden_by_any_part_of_its_path(path: str, hidden: bool) -> None:
    assert names.is_hidden(path) == hidden


@pytest.mark.parametrize("path", ["", "/a", "a/", "a//b", ".", "../a", "a/../b", "a/./b", "_a", "a/_b", "a/.b"])
def test_other_paths_are_not_those_of_visible_files(path: str) -> None:
    assert not names.is_visible(path)
    assert names.is_visible("a/b.c")


@pytest.mark.parametrize(
    ("path", "inside"),
    [("f/a", True), ("f/_a/.b", True), ("f/", False), ("f", False), ("fa", False), ("f/../a", False), ("f/a/../b", False), ("f//a", False)],
)
def test_a_path_is_inside_a_folder_only_without_dot_segments(path: str, inside: bool) -> None:
    assert names.is_inside(path, "f/") == inside


@pytest.mark.parametrize(
    ("path", "expected"),
    [
        ("_dataprep/croissant.json", True),
        ("_dataprep/index/train-00000-of-00001.tfrecords.idx", True),
        ("_tfds/dataset/1.0.0/features.json", True),
        ("train/index.json", True),
        ("train/other.json", False),
        ("_other/index.json", False),
        ("_SUCCESS", False),
        ("_dataprep/OWNER", False),
        ("_dataprep/removed/0123456789abcdef/x", False),
        ("_dataprep/0123456789abcdef/plan.json", False),
        ("_dataprep/../x", False),
    ],
)
def test_only_files_for_readers_are_metadata(path: str, expected: bool) -> None:
    assert names.is_metadata(path) == expected
