"""Statistics of columns, of shards and of complete data sets: histograms, frequent values, classes and moments."""

import base64
import gc
import json
import math
import weakref
import zlib
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.builders.jobs import run_job
from tests.builders.specs import parse_job

from dataprep_api.dataset.messages import CommitResult
from dataprep_api.resources.job import DataPrepJob
from dataprep_converter.core.tensors import Array, to_arrow
from dataprep_converter.inputs.access import Access
from dataprep_converter.records.feature import FeatureSpec
from dataprep_converter.statistics import comparison
from dataprep_converter.statistics.class_counts import ClassCounts
from dataprep_converter.statistics.histograms import Histogram
from dataprep_converter.statistics.statistics import ShardStatistics, room
from dataprep_converter.statistics.summaries import Summariser, Summary, enough, extremes, octet_counts
from dataprep_converter.statistics.top_values import TopValues
from dataprep_converter.tools.verification import verify

FINITE = st.floats(allow_nan=False, allow_infinity=False)


# --- histograms --------------------------------------------------------------------------------------------------------


def a_histogram(values: Sequence[float], *, limit: int = 8) -> Histogram:
    made = Histogram(limit=limit)
    made.add(np.array(values, np.float64))
    return made


@given(st.lists(FINITE, min_size=1, max_size=200), st.integers(1, 199), st.randoms(use_true_random=False))
def test_a_histogram_does_not_depend_on_order_or_parts(values: list[float], cut: int, random: Any) -> None:
    whole = a_histogram(values)
    mixed = list(values)
    random.shuffle(mixed)
    parts = a_histogram(mixed[:cut])
    parts.merge(a_histogram(mixed[cut:]))
    assert parts.to_json() == whole.to_json()
    assert Histogram.from_json(whole.to_json(), limit=8).to_json() == whole.to_json()


@given(st.lists(FINITE, min_size=1, max_size=200))
def test_every_value_lies_in_the_bucket_that_counts_it(values: list[float]) -> None:
    buckets = a_histogram(values).buckets()
    assert len(buckets) <= 8
    assert sum(count for _, _, count in buckets) == len(values)
    for low, high, count in buckets:
        assert len([value for value in values if low <= value <= high]) >= count >= 1


def test_small_integers_have_buckets_of_their_own() -> None:
    found = a_histogram([0, 1, 1, 2, -1, -1, -1, 255], limit=256).buckets()
    assert [count for _, _, count in found] == [3, 1, 2, 1, 1]
    assert [low for low, _, _ in found[1:]] == [0, 1, 2, 255]
    assert found[0][1] == -1


def test_a_quantile_is_right_within_its_bucket() -> None:
    values = np.random.default_rng(0).lognormal(3, 1, 20_000)
    histogram = a_histogram(values.tolist(), limit=256)
    shares = (0.05, 0.25, 0.5, 0.75, 0.95)
    assert histogram.quantiles(shares) == pytest.approx(np.quantile(values, shares), rel=0.05)
    assert Histogram(limit=4).quantiles([0.5]) == []
    assert a_histogram([0, 0, 0]).quantiles([0.5]) == [0]


def test_large_numbers_close_together_keep_their_differences() -> None:
    times = 1_700_000_000 + np.arange(0, 86_400 * 30, 60.0)
    assert len(a_histogram(times.tolist(), limit=256).buckets()) > 60


def test_the_largest_bucket_ends_with_the_largest_float() -> None:
    histogram = a_histogram([np.finfo(np.float64).max])
    low, high, _ = histogram.buckets()[0]
    assert low <= np.finfo(np.float64).max == high


@given(st.lists(st.floats(width=16), min_size=1, max_size=6))
def test_the_bounds_of_float16_are_those_of_numpy(values: list[float]) -> None:
    column = np.array(values, np.float16)

    least, greatest = extremes(column)

    if np.isnan(column).any():
        assert math.isnan(least) or math.isnan(greatest)
    else:
        assert (least, greatest) == (column.min(), column.max())
        assert not any(value == 0 and math.copysign(1, value) < 0 for value in (least, greatest))


@pytest.mark.parametrize("size", [0, 1, 777, 2**19, 2**19 + 1], ids=str)
def test_bytes_are_counted_one_or_two_at_a_time(size: int) -> None:
    values = np.random.default_rng(size).integers(0, 256, size, dtype=np.uint8)
    np.testing.assert_array_equal(octet_counts(values), np.bincount(values, minlength=256))


# --- frequent values ---------------------------------------------------------------------------------------------------


@given(st.lists(st.integers(0, 30), max_size=200), st.integers(1, 20))
def test_a_count_is_too_low_by_at_most_the_error(values: list[int], limit: int) -> None:
    found = TopValues(limit=limit)
    for first in range(0, len(values), 50):
        found.add(pa.array(values[first : first + 50], pa.int64()))
    for value, count in Counter(values).items():
        assert count - found.error <= found.counts.get(value, 0) <= count
    assert len(found.counts) <= limit
    assert (found.error == 0) == (len(set(values)) <= limit)


def test_few_different_values_are_counted_exactly_in_parts() -> None:
    one, two = TopValues(), TopValues()
    one.add(pa.array([b"a", b"b", b"a"], pa.large_binary()))
    two.add(pa.array([b"a", b"\xff"], pa.large_binary()))
    one.merge(TopValues.from_json(two.to_json()))
    assert one.most(2) == [(b"a", 3), (b"b", 1)]
    assert one.counts[b"\xff"] == 1
    assert one.error == 0


def test_values_that_mostly_differ_are_no_longer_counted() -> None:
    found = TopValues()
    found.add(pa.array(np.arange(5000)))
    assert found.mostly_different
    assert found.counts == {}


# --- classes -----------------------------------------------------------------------------------------------------------


def a_label(dtype: str = "int64", shape: tuple[int, ...] = (), *, sequence: bool = False) -> FeatureSpec:
    return FeatureSpec("y", "int64", dtype, shape, label=True, sequence=sequence)


@pytest.mark.parametrize(
    ("column", "feature", "counts"),
    [
        pytest.param(pa.array([1, 0, 1, None]), a_label(), {0: 1, 1: 2}, id="whole numbers"),
        pytest.param(pa.array([1.0, 0.0, 1.0], pa.float32()), a_label("float32"), {0: 1, 1: 2}, id="floats of recordio"),
        pytest.param(pa.array([[1, 0], [], [2]]), a_label(shape=(-1,), sequence=True), {0: 1, 1: 1, 2: 1}, id="steps"),
        pytest.param(to_arrow(np.eye(3, dtype=np.float32)[[2, 2, 0]]), a_label("float32", (3,)), {0: 1, 2: 2}, id="vectors of oneHot"),
        pytest.param(pa.array(["cat", "dog", "cat"]), a_label("bytes"), {b"cat": 2, b"dog": 1}, id="texts"),
        pytest.param(pa.array([True, False, True]), a_label("bool"), {0: 1, 1: 2}, id="booleans"),
        pytest.param(pa.array(["a", "b", "a"]).dictionary_encode(), a_label("bytes"), {b"a": 2, b"b": 1}, id="dictionary"),
    ],
)
def test_classes_are_counted(column: Array, feature: FeatureSpec, counts: dict[Any, int]) -> None:
    found = ClassCounts()
    found.add(column, feature)
    assert found.counts == counts
    assert ClassCounts.from_json(json.loads(json.dumps(found.to_json()))) == found


@pytest.mark.parametrize(
    ("column", "feature"),
    [
        pytest.param(pa.array([1.0, 0.5]), a_label("float64"), id="a fraction"),
        pytest.param(pa.array([1.0, float("nan")]), a_label("float64"), id="NaN"),
        pytest.param(to_arrow(np.array([[0.0, 3.0]])), a_label("float64", (2,)), id="a box"),
        pytest.param(pa.array(np.arange(70_000)), a_label(), id="too many"),
        pytest.param(pa.array(["long" * 40]), a_label("bytes"), id="long texts"),
    ],
)
def test_numbers_to_predict_are_no_classes(column: Array, feature: FeatureSpec) -> None:
    found = ClassCounts()
    found.add(column, feature)
    found.add(column, feature)
    assert not found.is_class
    assert not found.counts


# --- summaries ---------------------------------------------------------------------------------------------------------


def a_summary(columns: Sequence[Array], shape: tuple[int, ...] = (), *, limit: int | None = None, records: int | None = None) -> Summary:
    feature = FeatureSpec("x", "float", "float32", shape)
    summariser = Summariser(feature, records=records or sum(map(len, columns)), enough=limit)
    for column in columns:
        summariser.add(column)
    return Summary.from_json(json.loads(json.dumps(summariser.finished().to_json(256))))


VALUES = np.random.default_rng(7).normal(1000, 3, (400, 6))


@pytest.mark.parametrize(
    ("column", "shape", "expected"),
    [
        pytest.param(to_arrow(VALUES[:, 0]), (), VALUES[:, 0], id="float64"),
        pytest.param(to_arrow(VALUES[:, 0].astype(np.float16)), (), VALUES[:, 0].astype(np.float16).astype(np.float64), id="float16"),
        pytest.param(to_arrow(VALUES.astype(np.int64)), (6,), VALUES.astype(np.int64), id="tensors"),
        pytest.param(to_arrow(VALUES.astype(np.float32)).slice(100, 50), (6,), VALUES[100:150].astype(np.float32), id="a slice of tensors"),
        pytest.param(to_arrow((VALUES - 1000).astype(np.int8)), (6,), (VALUES - 1000).astype(np.int8), id="int8"),
        pytest.param(to_arrow((VALUES - 900).astype(np.uint8)), (6,), (VALUES - 900).astype(np.uint8), id="uint8"),
        pytest.param(pa.array([[1.0, 2.0], [], None, [5.0]]), (-1,), np.array([1, 2, 5]), id="lists"),
        pytest.param(
            pa.array([[[1, 2], [3, 4]], [[5, 6]]], pa.list_(pa.list_(pa.int64(), 2))), (-1, 2), np.arange(1, 7), id="steps of vectors"
        ),
        pytest.param(pa.array([True, False, True, None]), (), np.array([1, 0, 1]), id="booleans"),
    ],
)
def test_moments_are_those_of_numpy(column: Array, shape: tuple[int, ...], expected: Any) -> None:
    found = a_summary([column], shape)
    assert found.numbers is not None
    assert found.values == expected.size
    assert (found.numbers.least, found.numbers.greatest) == (expected.min(), expected.max())
    assert found.numbers.moments.mean == pytest.approx(expected.astype(np.float64).mean(), rel=1e-12)
    assert found.numbers.moments.deviation() == pytest.approx(expected.astype(np.float64).std(), rel=1e-9)
    assert found.numbers.histogram.total() == expected.size


@pytest.mark.parametrize("cut", [1, 7, 64, 399])
def test_batches_may_be_cut_anywhere(cut: int) -> None:
    column = to_arrow(VALUES[:, 0])
    whole, parts = a_summary([column]), a_summary([column.slice(0, cut), column.slice(cut)])
    assert whole.numbers is not None
    assert parts.numbers is not None
    assert parts.numbers.histogram.to_json() == whole.numbers.histogram.to_json()
    assert parts.numbers.moments.mean == pytest.approx(whole.numbers.moments.mean, rel=1e-13)
    assert parts.numbers.moments.squares == pytest.approx(whole.numbers.moments.squares, rel=1e-9)


def test_what_is_not_finite_is_counted_and_in_nothing_else() -> None:
    found = a_summary([pa.array([1.0, float("nan"), float("inf"), -float("inf"), 3.0, None]), pa.array([float("nan")])])
    assert found.numbers is not None
    assert (found.records, found.missing) == (7, 1)
    assert (found.numbers.nan, found.numbers.infinite) == (2, 2)
    assert (found.numbers.least, found.numbers.greatest, found.numbers.moments.mean) == (1, 3, 2)


def test_squares_beyond_all_floats_leave_the_deviation_unknown() -> None:
    found = a_summary([pa.array([1e300, -1e300])])
    assert found.numbers is not None
    assert (found.numbers.least, found.numbers.moments.mean) == (-1e300, 0)
    assert not math.isfinite(found.numbers.moments.squares)


def test_whole_numbers_beyond_those_of_floats_keep_their_ends() -> None:
    found = a_summary([pa.array([2**63 - 1, -(2**63)])])
    assert found.numbers is not None
    assert (found.numbers.least, found.numbers.greatest) == (-(2**63), 2**63 - 1)


def test_texts_have_lengths_and_frequent_values() -> None:
    found = a_summary([pa.array(["a", "bb", "a", None, "x" * 65])])
    assert found.lengths is not None
    assert found.top is not None
    assert (found.lengths.least, found.lengths.greatest, found.lengths.moments.mean) == (1, 65, 17.25)
    assert found.top.most(9) == [(b"a", 2), (b"bb", 1)]


def test_lists_have_sizes() -> None:
    found = a_summary([pa.array([[1], [1, 2, 3], [], None])], (-1,))
    assert found.sizes is not None
    assert (found.sizes.least, found.sizes.greatest, found.sizes.moments.count) == (0, 3, 3)


def test_of_many_values_every_kth_record_is_looked_at_but_the_ends_are_those_of_all() -> None:
    values = np.arange(1000.0)
    columns = [to_arrow(values[first : first + 130]) for first in range(0, 1000, 130)]
    found = a_summary(columns, limit=100)
    assert found.every == 10
    assert found.values == 1000
    assert found.numbers is not None
    assert (found.numbers.least, found.numbers.greatest) == (0, 999)
    assert found.numbers.moments.count == 100
    assert found.numbers.moments.mean == values[::10].mean()


def test_no_batch_is_kept_for_what_is_not_looked_at() -> None:
    summariser = Summariser(FeatureSpec("x", "bytes", "float16", (64, 1024)), records=10_000, enough=enough(1))
    kept = []
    for _ in range(5):
        values = np.ones((8, 64, 1024), np.float16)
        kept.append(weakref.ref(values))
        summariser.add(to_arrow(values))
        del values
    gc.collect()
    assert [each() for each in kept] == [None] * 5


def test_more_shards_look_at_fewer_values_and_report_fewer_buckets() -> None:
    assert [enough(shards) for shards in (1, 128, 1024, 100_000)] == [2**16, 2**16, 2**14, 2**13]
    assert room(features=5, shards=1) == 256
    assert room(features=5, shards=100_000) == 8
    assert room(features=5000, shards=1) == 8


def test_a_report_of_a_large_job_is_small() -> None:
    names = [f"feature {number}" for number in range(20)]
    made = ShardStatistics([FeatureSpec(name, "float", "float32", ()) for name in names], extent="Sampled", records=5000, shards=100_000)
    made.add(pa.record_batch([to_arrow(VALUES[:, 0])] * 20, names=names))
    assert len(made.packed()) < 6000


@pytest.mark.parametrize("extent", ["All", "Sampled"])
def test_columns_side_by_side_are_summarised_as_each_alone(extent: Any) -> None:
    random = np.random.default_rng(5)
    rows, records = 9000, 180_000
    columns: dict[str, list[Array]] = {name: [] for name in ("rank", "few", "ratio", "holes", "wild", "octet", "text", "tensor")}
    for number in range(records // rows):
        ratio = random.normal(0, 1, rows).astype(np.float32)
        wild = ratio.copy()
        wild[:3] = (np.nan, np.inf, -np.inf) if number == 4 else 0
        mask = random.random(rows) < (0.1 if number in (3, 4, 11) else 0)
        columns["rank"].append(to_arrow(np.arange(rows) + number * rows))
        columns["few"].append(to_arrow(random.integers(0, 30, rows)))
        columns["ratio"].append(to_arrow(ratio))
        columns["holes"].append(pa.array(ratio, mask=mask))
        columns["wild"].append(to_arrow(wild))
        columns["octet"].append(to_arrow(random.integers(0, 9, rows, np.uint8)))
        columns["text"].append(pa.array(random.choice(["a", "bc", "def"], rows)))
        columns["tensor"].append(to_arrow(ratio[:, None] * np.ones(2, np.float32)))
    features = [FeatureSpec(name, "float", "float32", (2,) if name == "tensor" else ()) for name in columns]
    together = ShardStatistics(features, extent=extent, records=records, shards=1)
    for batch in zip(*columns.values(), strict=True):
        together.add(pa.record_batch(list(batch), names=list(columns)))
    found = json.loads(zlib.decompress(base64.b64decode(together.packed())))["features"]
    for feature in features:
        alone = Summariser(feature, records=records, enough=enough(1) if extent == "Sampled" else None)
        for column in columns[feature.name]:
            alone.add(column)
        expected = json.loads(json.dumps(alone.finished().to_json(room(features=len(features), shards=1))))
        if "n" in expected:
            # If one column has nulls, the values of the other columns are added in a different order. This changes the last digits of their
            # mean and deviation.
            expected["n"][2:4] = pytest.approx(expected["n"][2], rel=1e-9), pytest.approx(expected["n"][3], rel=1e-9)
        if expected.get("t", [False])[-1]:
            # Counting stops as soon as most of the values so far are distinct. With smaller parts, this happens earlier.
            expected["t"][3] = found[feature.name]["t"][3]
        assert found[feature.name] == expected, feature.name
    assert found["holes"]["c"][1] > 2000
    assert found["wild"]["n"][-2:] == [1, 2]


# --- splits compared ---------------------------------------------------------------------------------------------------


def test_chance_alone_is_no_difference() -> None:
    random = np.random.default_rng(3)
    shares = [0.5, 0.3, 0.15, 0.05]
    told = 0
    for _ in range(300):
        first, second = (random.multinomial(size, shares).astype(np.float64) for size in (2000, 100))
        told += comparison.is_unlikely(first, second)
    assert told <= 2


def test_a_shift_is_seen() -> None:
    first, second = np.array([900.0, 100]), np.array([60.0, 40])
    assert comparison.is_unlikely(first, second)
    assert comparison.distance(first, second) == pytest.approx(0.3)
    assert comparison.distance(first, first * 7) == 0


# --- data sets ---------------------------------------------------------------------------------------------------------


def a_job(folder: Path, out: str, rows: Sequence[str], **output: Any) -> DataPrepJob:
    (folder / "in.csv").write_text("\n".join(rows) + "\n")
    types = {"part": "String", "x": "Float32", "n": "Int64", "word": "String", "y": "String"}
    spec = {
        "source": {"csv": {"uris": [str(folder / "in.csv")], "columns": [{"name": name, "type": kind} for name, kind in types.items()]}},
        "features": [{"name": "x"}, {"name": "n"}, {"name": "word"}],
        "labels": [{"name": "kind/y", "columns": ["y"]}],
        "transforms": [{"vocabulary": {"columns": ["y"]}}],
        "splits": {"column": "part", "into": [{"name": "train", "values": ["a"]}, {"name": "validation", "values": ["b"]}]},
        "output": {"uri": str(folder / out), **output},
    }
    return parse_job(spec)


ROWS = [
    *(f"a,{number / 8},{number % 5},{'even' if number % 2 == 0 else 'odd'},{'red' if number % 4 else 'blue'}" for number in range(400)),
    *(f"b,{number / 8},{number % 5},even,red" for number in range(300, 700)),
]


def made(job: DataPrepJob, *, workers: int = 1) -> CommitResult:
    return run_job(job, workers=workers)[1]


def statistics(folder: Path) -> Any:
    return json.loads((folder / "_dataprep" / "statistics.json").read_text())


def test_statistics_and_labels_lie_beside_the_data_set(tmp_path: Path) -> None:
    result = made(a_job(tmp_path, "out", ROWS))
    found = statistics(tmp_path / "out")
    train = found["splits"]["train"]
    x = np.arange(400) / 8
    assert train["features"]["x"] | {"quantiles": 0, "histogram": 0} == {
        "dtype": "float32", "shape": [], "count": 400, "missing": 0, "values": 400, "sampledEvery": 1, "nan": 0, "infinite": 0,
        "min": 0, "max": 49.875, "mean": x.mean(), "deviation": float(f"{x.std():.12g}"), "quantiles": 0, "histogram": 0,
    }  # fmt: skip
    assert train["features"]["word"]["top"] == [{"value": "even", "count": 200}, {"value": "odd", "count": 200}]
    assert [(round(low), count) for low, _, count in train["features"]["n"]["histogram"]] == [(number, 80) for number in range(5)]
    manifest = verify(str(tmp_path / "out"), Access())
    assert manifest.labels["kind/y"] == ["blue", "red"]
    assert train["classes"]["kind/y"] == [
        {"class": 0, "name": "blue", "count": 100, "share": 0.25},
        {"class": 1, "name": "red", "count": 300, "share": 0.75},
    ]
    assert manifest.splits[0].label_counts["kind/y"] == {"0": 100, "1": 300}
    side = tmp_path / "out" / "_dataprep"
    assert (side / "labels" / "kind.y.txt").read_text() == "blue\nred\n"
    assert json.loads((side / "label_map.json").read_text()) == {"kind/y": {"names": ["blue", "red"], "numbers": {"blue": 0, "red": 1}}}
    assert {file.file for file in manifest.metadata} >= {
        "_dataprep/statistics.json", "_dataprep/label_map.json", "_dataprep/labels/kind.y.txt",
    }  # fmt: skip
    assert result.warnings == found["warnings"]


def test_splits_that_differ_are_warned_of(tmp_path: Path) -> None:
    result = made(a_job(tmp_path, "out", ROWS))
    assert result.warnings[:3] == [
        "kind/y: the class 0 (blue) of train is not in validation.",
        "kind/y: classes are spread differently in train and validation (distance 0.25); 0 (blue) is 25.0% of train and 0.0% of validation.",
        "x: values of validation (37.5 to 87.375) lie outside those of train (0 to 49.875).",
    ]
    assert result.warnings[3].startswith("x: values are spread differently in train and validation (distance 0.7")
    assert len(result.warnings) == 4


def test_splits_that_are_alike_are_not(tmp_path: Path) -> None:
    rows = [
        f"{'b' if number % 4 == 0 else 'a'},{(number * 7919) % 97},{(number // 4) % 5},w,{'red' if number % 3 else 'blue'}"
        for number in range(800)
    ]
    assert made(a_job(tmp_path, "out", rows)).warnings == []


def test_workers_change_nothing_and_shards_only_the_last_digits(tmp_path: Path) -> None:
    made(a_job(tmp_path, "one", ROWS))
    made(a_job(tmp_path, "two", ROWS, shards={"count": 3}), workers=2)
    made(a_job(tmp_path, "three", ROWS, shards={"count": 3}), workers=1)
    files = [(tmp_path / name / "_dataprep" / "statistics.json").read_bytes() for name in ("one", "two", "three")]
    assert files[1] == files[2]
    assert files[0] == files[1]


def test_class_counts_alone(tmp_path: Path) -> None:
    made(a_job(tmp_path, "out", ROWS, statistics="ClassCounts"))
    found = statistics(tmp_path / "out")["splits"]["train"]
    assert found["features"] == {}
    assert {each["name"]: each["count"] for each in found["classes"]["kind/y"] if each["count"]} == {"red": 300, "blue": 100}


def test_the_share_of_nulls_is_there_for_features_with_nulls_only(tmp_path: Path) -> None:
    (tmp_path / "rows.jsonl").write_text('{"n": 1, "x": 1}\n{"n": null, "x": 2}\n{"n": null, "x": 3}\n')
    run_job(parse_job({"source": {"jsonl": {"uris": [str(tmp_path / "rows.jsonl")]}}, "output": {"uri": str(tmp_path / "out")}}))
    features = json.loads((tmp_path / "out/_dataprep/statistics.json").read_text())["splits"]["train"]["features"]
    assert (features["n"]["count"], features["n"]["missing"], features["n"]["missingShare"]) == (1, 2, 0.666666666667)
    assert (features["x"]["missing"], "missingShare" in features["x"]) == (0, False)
