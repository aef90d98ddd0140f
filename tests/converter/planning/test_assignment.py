"""Assignment: each sample within the limit is assigned to a split, by values, exact fractions or counts."""

from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import ValidationError

from dataprep_api.dataset.plan import SplitPlan
from dataprep_api.spec import Splits
from dataprep_converter.core.errors import BadSpec
from dataprep_converter.planning import assignment
from dataprep_converter.planning.assignment import Assignment, ReadColumns, assign
from dataprep_converter.sampling import split_assignments
from dataprep_converter.sampling.selection import Samples, Selection
from dataprep_converter.sampling.split_assignments import SplitAssignments
from dataprep_converter.sampling.units import Unit, UnitTable

_arrow: Any = pa
TENTHS = [{"name": "train", "fraction": 0.8}, {"name": "validation", "fraction": 0.1}, {"name": "test", "fraction": 0.1}]


def units(*sizes: int, subsets: Sequence[str] = ()) -> UnitTable:
    named = subsets or [""] * len(sizes)
    return UnitTable.of(
        Unit(root=0, path=f"f{i}", uri=f"/x/f{i}", records=n, size=n, pin="p", subset=named[i]) for i, n in enumerate(sizes)
    )


def a_table(columns: dict[str, Any], *, unreadable: frozenset[int] = frozenset(), size: int = 7) -> tuple[pa.Schema, ReadColumns]:
    """Returns an in-memory table's schema, and a function that reads the table. The rows in `unreadable` can't be read."""
    table = pa.table({name: _arrow.array(values) for name, values in columns.items()})

    def read(names: Sequence[str]) -> Iterator[tuple[Samples, pa.RecordBatch, Samples]]:
        for start in range(0, table.num_rows, size):
            asked = np.arange(start, min(start + size, table.num_rows))
            good = np.array([sample for sample in asked if sample not in unreadable], np.int64)
            yield (
                asked,
                table.select(list(names)).take(good).combine_chunks().to_batches()[0] if len(good) else empty(names),
                good,
            )

    def empty(names: Sequence[str]) -> pa.RecordBatch:
        return pa.RecordBatch.from_pylist([], schema=pa.schema([table.schema.field(name) for name in names]))

    return table.schema, read


def no_columns(names: Sequence[str]) -> Iterator[tuple[Samples, pa.RecordBatch, Samples]]:
    raise AssertionError(f"nothing needs {names}")


def made(
    rules: dict[str, Any], source: UnitTable, *, limit: int | None = None, columns: dict[str, Any] | None = None, **more: Any
) -> Assignment:
    schema, read = a_table(columns, **more) if columns else (pa.schema([]), no_columns)
    return assign(Splits.model_validate(rules), source, limit=limit, schema=schema, read=read)


def members(assigned: Assignment, source: UnitTable, *, shuffle_seed: int | None = None) -> dict[str, list[int]]:
    found = SplitAssignments(assigned.stored)

    def of(plan: SplitPlan) -> list[int]:
        chunks = Selection(plan, source, shuffle_seed=shuffle_seed, codes=found).chunks(0, plan.records, size=50)
        return [int(sample) for chunk in chunks for sample in chunk]

    return {plan.name: of(plan) for plan in assigned.plans}


def sizes(assigned: Assignment) -> dict[str, int]:
    return {plan.name: plan.records for plan in assigned.plans}


def everything(found: dict[str, list[int]]) -> list[int]:
    return sorted(sample for samples in found.values() for sample in samples)


# --- exactly, by count, limited -----------------------------------------------------------------------------------


@pytest.mark.slow
@given(total=st.integers(0, 400), shares=st.lists(st.integers(1, 9), min_size=1, max_size=5), seed=st.integers(0, 9))
def test_exact_fractions_are_within_one_record(total: int, shares: list[int], seed: int) -> None:
    source = units(total // 3, total - total // 3)
    fractions = [share / sum(shares) for share in shares]
    assigned = made({"seed": seed, "exact": True, "into": [{"name": f"s{i}", "fraction": f} for i, f in enumerate(fractions)]}, source)
    assert sum(sizes(assigned).values()) == total
    for plan, fraction in zip(assigned.plans, fractions, strict=True):
        assert abs(plan.records - fraction * total) <= 1
        assert plan.tolerance is not None
        assert plan.expected is not None
        assert abs(plan.records - plan.expected) <= 1


def test_exact_fractions_take_the_lowest_hashes_as_drawn_ones_do() -> None:
    source = units(10_000)
    halves = [{"name": "a", "fraction": 0.5}, {"name": "b", "fraction": 0.5}]
    exact = members(made({"exact": True, "into": halves}, source), source)
    grouped = {"groupBy": "id", "into": halves}  # every record is a separate group, so only the hash differs
    drawn = members(made(grouped, source, columns={"id": list(range(10_000))}), source)
    assert len(exact["a"]) == 5000
    assert abs(len(drawn["a"]) - 5000) < 4 * 50


@pytest.mark.parametrize("shuffle_seed", [None, 4])
def test_a_count_is_that_many_random_samples(shuffle_seed: int | None) -> None:
    source = units(100, 100)
    rules = {"into": [{"name": "test", "count": 30}, {"name": "validation", "count": 20}, {"name": "train"}]}
    found = members(made(rules, source), source, shuffle_seed=shuffle_seed)
    assert {name: len(samples) for name, samples in found.items()} == {"test": 30, "validation": 20, "train": 150}
    assert everything(found) == list(range(200))
    assert 5 < sum(sample < 100 for sample in found["test"]) < 25
    other = members(made(rules | {"seed": 1}, source), source)
    assert sorted(found["test"]) != other["test"]


def test_a_count_beyond_what_is_there_takes_all() -> None:
    assigned = made({"into": [{"name": "test", "count": 30}, {"name": "train"}]}, units(7))
    assert sizes(assigned) == {"test": 7, "train": 0}
    assert assigned.plans[0].expected == 30


def test_a_limit_takes_so_many_samples_from_the_whole_and_always_the_same() -> None:
    source = units(500, 500)
    rules = {"into": [{"name": "train"}]}
    found = members(made(rules, source, limit=100), source)["train"]
    assert len(found) == 100
    assert 30 < sum(sample < 500 for sample in found) < 70
    fewer = members(made(rules | {"seed": 8}, source, limit=60), source)["train"]
    assert set(fewer) < set(found)


def test_splits_divide_what_the_limit_leaves() -> None:
    source = units(10_000)
    found = members(made({"exact": True, "into": TENTHS}, source, limit=1000), source)
    assert {name: len(samples) for name, samples in found.items()} == {"train": 800, "validation": 100, "test": 100}
    first = members(made({"into": [{"name": "head", "first": 10}, {"name": "rest"}]}, source, limit=100), source)
    assert first["head"] == everything(first)[:10]


def test_subsets_share_out_their_own_samples() -> None:
    source = units(100, 60, subsets=["train", "test"])
    rules = {
        "exact": True,
        "into": [
            {"name": "train", "subset": "train", "fraction": 0.75},
            {"name": "validation", "subset": "train", "fraction": 0.25},
            {"name": "few", "subset": "test", "count": 10},
            {"name": "test", "subset": "test"},
        ],
    }
    found = members(made(rules, source), source)
    assert {name: len(samples) for name, samples in found.items()} == {"train": 75, "validation": 25, "few": 10, "test": 50}
    assert max(found["train"] + found["validation"]) < 100 <= min(found["few"] + found["test"])


# --- by values ----------------------------------------------------------------------------------------------------


@pytest.mark.slow
@given(groups=st.lists(st.integers(0, 30), min_size=1, max_size=200), seed=st.integers(0, 9))
def test_no_group_is_in_two_splits(groups: list[int], seed: int) -> None:
    source = units(len(groups))
    names = [f"user {group}" for group in groups]
    found = members(made({"seed": seed, "groupBy": "user", "into": TENTHS}, source, columns={"user": names}), source)
    assert everything(found) == list(range(len(groups)))
    homes = [{names[sample] for sample in samples} for samples in found.values()]
    assert sum(map(len, homes)) == len(set(names))


def test_a_group_stays_where_it_is_when_others_are_added() -> None:
    users = [f"u{n // 3}" for n in range(300)]
    before = members(made({"groupBy": "u", "into": TENTHS}, units(300), columns={"u": users}), units(300))
    after_users = [f"new {n}" for n in range(200)] + users
    after = members(made({"groupBy": "u", "into": TENTHS}, units(500), columns={"u": after_users}), units(500))
    for name, samples in before.items():
        assert {users[s] for s in samples} <= {after_users[s] for s in after[name]}


def test_the_tolerance_of_groups_comes_from_their_sizes() -> None:
    sizes_of_groups = [50] * 100 + [1] * 5000
    users = [f"u{n}" for n, size in enumerate(sizes_of_groups) for _ in range(size)]
    source = units(len(users))
    plan = made({"groupBy": "u", "into": TENTHS}, source, columns={"u": users}).plans[0]
    right = 4 * (0.8 * 0.2 * sum(size**2 for size in sizes_of_groups)) ** 0.5
    assert plan.expected == 8000
    assert plan.tolerance is not None
    assert 0.6 * right < plan.tolerance < 1.4 * right
    assert abs(plan.records - 8000) <= plan.tolerance


@pytest.mark.slow
@given(kinds=st.lists(st.sampled_from(["a", "b", "c", None]), max_size=200), seed=st.integers(0, 9))
def test_stratified_fractions_hold_within_each_class(kinds: list[str | None], seed: int) -> None:
    source = units(len(kinds))
    assigned = made({"seed": seed, "stratifyBy": "kind", "into": TENTHS}, source, columns={"kind": _arrow.array(kinds, pa.string())})
    found = members(assigned, source)
    assert everything(found) == list(range(len(kinds)))
    for kind, size in Counter(kinds).items():
        for entry in TENTHS:
            here = sum(kinds[sample] == kind for sample in found[str(entry["name"])])
            assert abs(here - float(str(entry["fraction"])) * size) <= 1
    for plan in assigned.plans:
        assert plan.expected is not None
        assert abs(plan.records - plan.expected) <= (plan.tolerance or 0) + 1


def test_too_many_classes_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(assignment, "MOST_CLASSES", 3)
    with pytest.raises(BadSpec, match="the column 'id' has more than 3 values; is it a class\\?"):
        made({"stratifyBy": "id", "into": TENTHS}, units(9), columns={"id": list(range(9))})


BY_VALUE = {
    "column": "part",
    "into": [{"name": "train", "values": ["train", "extra"]}, {"name": "test", "values": ["1"]}, {"name": "rest"}],
}


def test_a_column_names_the_splits() -> None:
    values = ["train", "1", "other", "extra", None, "train"]
    assert members(made(BY_VALUE, units(6), columns={"part": values}), units(6)) == {"train": [0, 3, 5], "test": [1], "rest": [2, 4]}


def test_numbers_are_compared_by_their_text() -> None:
    assert members(made(BY_VALUE, units(3), columns={"part": [1, 2, 1]}), units(3))["test"] == [0, 2]


def test_a_record_that_can_not_be_read_goes_to_what_is_left_or_to_the_first_split() -> None:
    values = ["train", "1", "other", "extra"]
    with_rest = made(BY_VALUE, units(4), columns={"part": values}, unreadable=frozenset({1}))
    assert members(with_rest, units(4)) == {"train": [0, 3], "test": [], "rest": [1, 2]}
    without = {"column": "part", "into": BY_VALUE["into"][:2]}
    assigned = made(without, units(4), columns={"part": values}, unreadable=frozenset({1}))
    assert members(assigned, units(4)) == {"train": [0, 1, 3], "test": []}


DAYS = ["2024-01-01", "2024-06-30T23:59:59Z", "2024-07-01T01:00:00+02:00", "2024-07-01", "2025-01-01", "never"]
BY_TIME = {
    "column": "taken",
    "into": [
        {"name": "train", "before": "2024-07-01"},
        {"name": "validation", "since": "2024-07-01", "before": "2025-01-01"},
        {"name": "test", "since": "2025-01-01"},
    ],
}


def test_a_time_column_divides_by_moments() -> None:
    assert members(made(BY_TIME, units(6), columns={"taken": DAYS}), units(6)) == {"train": [0, 1, 2], "validation": [3], "test": [4]}


def test_values_go_before_fractions_of_what_is_left() -> None:
    rules = {
        "column": "part",
        "exact": True,
        "into": [{"name": "test", "values": ["x"]}, *({**e, "name": f"{e['name']}2"} for e in TENTHS)],
    }
    found = members(made(rules, units(120), columns={"part": ["x"] * 20 + ["y"] * 100}), units(120))
    assert found["test"] == list(range(20))
    assert {name: len(samples) for name, samples in found.items()} == {"test": 20, "train2": 80, "validation2": 10, "test2": 10}


@pytest.mark.parametrize(
    ("rules", "message"),
    [
        pytest.param({"groupBy": "usr", "into": TENTHS}, "splits.groupBy: there is no column 'usr'. Did you mean 'user'", id="unknown"),
        pytest.param({"stratifyBy": "pixels", "into": TENTHS}, "splits.stratifyBy: the column 'pixels' is of the type list", id="a list"),
        pytest.param(
            {"groupBy": "0..1", "into": TENTHS}, "splits.groupBy must be one column, but '0..1' matches 2 columns", id="two columns"
        ),
        pytest.param(
            {"column": "user", "into": [{"name": "a", "since": "soon"}]},
            "the range of a must be a date or time .*, got 'soon'",
            id="no date",
        ),
    ],
)
def test_a_column_that_can_not_divide_is_refused(rules: dict[str, Any], message: str) -> None:
    with pytest.raises(BadSpec, match=message):
        made(rules, units(1), columns={"user": ["a"], "pixels": [[1]]})


@pytest.mark.parametrize(
    ("rules", "message"),
    [
        pytest.param({"into": [{"name": "a", "first": 1, "count": 1}]}, "set only one of first, count, fraction, values", id="two rules"),
        pytest.param({"into": [{"name": "a", "values": ["x"]}]}, "values, since and before need splits.column", id="no column"),
        pytest.param({"column": "c", "into": [{"name": "a"}]}, "column needs an entry with values, since or before", id="no values"),
        pytest.param({"groupBy": "c", "into": [{"name": "a", "count": 3}]}, "need entries with a fraction", id="groups without fractions"),
        pytest.param({"exact": True, "into": [{"name": "a"}]}, "need entries with a fraction", id="exact without fractions"),
        pytest.param({"groupBy": "c", "exact": True, "into": TENTHS}, "groups can't be divided", id="exact groups"),
        pytest.param({"groupBy": "c", "stratifyBy": "d", "into": TENTHS}, "set only one of groupBy, stratifyBy", id="groups in strata"),
    ],
)
def test_rules_that_contradict_are_refused(rules: dict[str, Any], message: str) -> None:
    with pytest.raises(ValidationError, match=message):
        Splits.model_validate(rules)


# --- in blocks ----------------------------------------------------------------------------------------------------

SPECS: dict[str, dict[str, Any]] = {
    "exact": {"exact": True, "into": TENTHS},
    "groups": {"groupBy": "g", "into": TENTHS},
    "classes": {"stratifyBy": "g", "into": TENTHS},
    "values": {"column": "g", "into": [{"name": "a", "values": ["1", "3"]}, {"name": "b", "count": 100}, {"name": "c", "first": 100}]},
}


@pytest.mark.parametrize("rules", SPECS.values(), ids=SPECS.keys())
def test_the_size_of_a_block_changes_no_split(rules: dict[str, Any], monkeypatch: pytest.MonkeyPatch) -> None:
    source = units(900, 100)
    columns = {"g": [n % 7 for n in range(1000)]}
    run: Callable[[], dict[str, list[int]]] = lambda: members(made(rules, source, limit=800, columns=columns), source)  # noqa: E731
    whole = run()
    for module in ("planning.assignment", "sampling.selection"):
        monkeypatch.setattr(f"dataprep_converter.{module}.HASH_BLOCK", 64)
    assert run() == whole


def test_codes_are_stored_small_and_read_by_block() -> None:
    blocks = [np.zeros(65_536, np.uint8), np.full(65_536, 3, np.uint8), np.arange(10, dtype=np.uint8)]
    stored = split_assignments.to_parquet(iter(blocks))
    assert len(stored) < 4096
    for number, block in enumerate(blocks):
        assert SplitAssignments(stored).block(number).tolist() == block.tolist()
