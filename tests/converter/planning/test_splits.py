"""Splitting: the splits and shards of units are computed by arithmetic only."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dataprep_api import names
from dataprep_api.dataset.plan import SplitPlan
from dataprep_api.spec import DataPrepJobSpec, Split
from dataprep_converter.core.errors import BadSpec
from dataprep_converter.planning.splits import divide
from dataprep_converter.sampling.selection import Selection
from dataprep_converter.sampling.units import Unit, UnitTable


def units(**subsets: int) -> UnitTable:
    return UnitTable.of(
        Unit(root=0, path=name, uri=f"/x/{name}", records=n, size=n * 100, pin="p", subset=name if name != "all" else "")
        for name, n in subsets.items()
    )


def a_spec(**fields: Any) -> DataPrepJobSpec:
    source = {"idx": {"subsets": [{"name": "train", "images": "/x"}]}}
    return DataPrepJobSpec.model_validate({"source": source, "output": {"uri": "/out"}} | fields)


def members(plan: SplitPlan, source: UnitTable) -> list[int]:
    return [int(s) for chunk in Selection(plan, source, shuffle_seed=None).chunks(0, plan.records, size=1000) for s in chunk]


MNIST = {
    "into": [
        {"name": "train", "subset": "train"},
        {"name": "validation", "subset": "train", "first": 5000},
        {"name": "test", "subset": "test"},
    ]
}


def test_the_first_records_are_taken_before_the_rest_whatever_the_order_of_the_splits() -> None:
    plans = divide(a_spec(splits=MNIST), units(train=60_000, test=10_000), bytes_per_record=891, extension="tfrecords")
    assert [(plan.name, plan.ranges, plan.records) for plan in plans] == [
        ("train", [(5000, 60_000)], 55_000),
        ("validation", [(0, 5000)], 5000),
        ("test", [(60_000, 70_000)], 10_000),
    ]


def test_without_splits_each_subset_is_one() -> None:
    assert [(p.name, p.records) for p in divide(a_spec(), units(train=3, test=2), bytes_per_record=1, extension="tfrecords")] == [
        ("train", 3),
        ("test", 2),
    ]


@pytest.mark.parametrize(
    ("subset", "split"),
    [
        ("train set", "train-set"),
        ("tr\u00e4ning", "traning"),
        ("tra\u0308ning", "traning"),
        ("Fold (1)", "Fold-1"),
        ("_a..b_", "a..b"),
        ("Stra\u00dfe", "Stra-e"),
        ("x" * 62 + ".y" + "z" * 200, "x" * 62),
        ("a.b_c-9", "a.b_c-9"),
    ],
)
def test_a_subset_with_any_name_is_a_split(subset: str, split: str) -> None:
    plans = divide(a_spec(), units(**{subset: 3, "test": 2}), bytes_per_record=1, extension="tfrecords")
    assert [(plan.name, plan.records) for plan in plans] == [(split, 3), ("test", 2)]


@given(st.text())
def test_every_name_that_is_made_is_one_that_may_be_given(subset: str) -> None:
    name = names.split_name(subset)
    assert not name or Split(name=name).name == names.split_name(name) == name


@given(st.from_regex(r"[A-Za-z0-9]([-_.A-Za-z0-9]{0,61}[A-Za-z0-9])?", fullmatch=True))
def test_a_name_that_a_split_may_have_stays(subset: str) -> None:
    assert names.split_name(subset) == subset


@pytest.mark.parametrize(
    ("subsets", "said"),
    [
        pytest.param(
            {"\u8bad\u7ec3": 1, "test": 1}, "The name of the subset '\u8bad\u7ec3' can't become the name of a split", id="no letters"
        ),
        pytest.param({"\u8bad\u7ec3": 1}, '{into: [{name: …, subset: "\u8bad\u7ec3"}, …]}', id="advice"),
        pytest.param({"train set": 1, "train-set": 1}, "'train set' and 'train-set' would both be the split train-set", id="one name"),
        pytest.param({f"class{n}": 1 for n in range(17)}, "has 17 subsets (class0, class1, ", id="too many"),
        pytest.param({"x" * 1025: 1}, "has a name of 1,025 characters; expected at most 1,024", id="too long"),
        pytest.param({"train": 1, "all": 1}, "Some records are in a subset (train), but others are in none", id="some without"),
    ],
)
def test_subsets_that_cannot_each_be_a_split_are_refused_with_advice(subsets: dict[str, int], said: str) -> None:
    with pytest.raises(BadSpec) as refused:
        divide(a_spec(), units(**subsets), bytes_per_record=1, extension="tfrecords")
    assert said in str(refused.value)


def test_any_subset_may_be_named() -> None:
    splits = {"into": [{"name": "train", "subset": "\u8bad\u7ec3"}, {"name": "test", "subset": "test set"}]}
    plans = divide(a_spec(splits=splits), units(**{"\u8bad\u7ec3": 3, "test set": 2}), bytes_per_record=1, extension="tfrecords")
    assert [(plan.name, plan.records) for plan in plans] == [("train", 3), ("test", 2)]


def test_without_splits_and_subsets_all_is_train() -> None:
    assert [(p.name, p.records) for p in divide(a_spec(), units(all=7), bytes_per_record=1, extension="tfrecords")] == [("train", 7)]


@given(a=st.floats(0, 1), first=st.integers(0, 50), seed=st.integers(0, 9))
def test_every_sample_is_in_one_split(a: float, first: int, seed: int) -> None:
    source = units(all=500)
    splits = {"seed": seed, "into": [{"name": "x", "fraction": a}, {"name": "y", "fraction": 1 - a}, {"name": "z", "first": first}]}
    plans = divide(a_spec(splits=splits), source, bytes_per_record=1, extension="tfrecords")
    assert sorted(sample for plan in plans for sample in members(plan, source)) == list(range(500))
    assert members(plans[2], source) == list(range(first))


def test_fractions_of_one_subset_leave_the_other_alone() -> None:
    source = units(train=1000, test=100)
    splits = {"into": [{"name": "a", "subset": "train", "fraction": 0.5}, {"name": "b", "subset": "train", "fraction": 0.5}, {"name": "c"}]}
    plans = divide(a_spec(splits=splits), source, bytes_per_record=1, extension="tfrecords")
    assert plans[0].records + plans[1].records == 1000
    assert plans[2].ranges == [(1000, 1100)]


def test_an_unknown_subset_is_named_with_the_known_ones() -> None:
    with pytest.raises(BadSpec, match="takes subset 'tset', which the source does not have \\(it has: train, test\\)"):
        divide(
            a_spec(splits={"into": [{"name": "x", "subset": "tset"}]}), units(train=1, test=1), bytes_per_record=1, extension="tfrecords"
        )


@pytest.mark.parametrize(
    ("shards", "records", "expected"),
    [
        pytest.param({"count": 8}, 55_000, 8, id="count"),
        pytest.param({"count": 8}, 3, 3, id="never an empty shard"),
        pytest.param({"records": 10_000}, 55_000, 6, id="records"),
        pytest.param({"targetSize": "10Mi"}, 55_000, 5, id="target size: 49,005,000 bytes"),
        pytest.param({"targetSize": "1Gi"}, 55_000, 1, id="at least one"),
        pytest.param({}, 0, 0, id="an empty split has no file"),
    ],
)
def test_the_number_of_shards(shards: dict[str, Any], records: int, expected: int) -> None:
    spec = a_spec(output={"uri": "/o", "shards": shards})
    assert divide(spec, units(all=records), bytes_per_record=891, extension="tfrecords")[0].shards == expected


@pytest.mark.parametrize(
    ("template", "message"),
    [
        pytest.param("data.{ext}", "must contain {split}", id="no split"),
        pytest.param("{split}.{ext}", "must contain {shard}", id="no shard"),
        pytest.param("_{split}-{shard}", "may begin with _ or", id="hidden"),
        pytest.param("../{split}-{shard}", "relative path", id="outside"),
        pytest.param("{split}-{part}", r"unknown field {part}", id="unknown"),
    ],
)
def test_a_file_name_that_can_not_work_is_refused(template: str, message: str) -> None:
    spec = a_spec(output={"uri": "/o", "shards": {"count": 2}, "fileName": template}, splits=MNIST)
    with pytest.raises(BadSpec) as refused:
        divide(spec, units(train=60_000, test=10_000), bytes_per_record=1, extension="tfrecords")
    assert message in str(refused.value)
