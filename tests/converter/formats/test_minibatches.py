"""Minibatches don't depend on the number of workers or files, and contain every sample exactly once, in order."""

import tempfile
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pydantic import ValidationError
from tests.builders.jobs import run_job
from tests.builders.specs import parse_job

from dataprep_api.dataset import plan
from dataprep_api.dataset.plan import SplitPlan
from dataprep_api.resources.job import DataPrepJob
from dataprep_api.spec import Output
from dataprep_converter.formats.tfrecord import records
from dataprep_converter.inputs.access import Access
from dataprep_converter.tools.verification import verify

HALVES = {"into": [{"name": "a", "fraction": 0.5}, {"name": "b", "fraction": 0.5}]}


def made(folder: Path, rows: int, out: str, **spec: Any) -> Path:
    """Make a data set from `rows` rows of the form `<number>,<number % 7>`. Its only feature is the number."""
    (folder / "rows.csv").write_text("".join(f"{number},{number % 7}\n" for number in range(rows)))
    columns = [{"name": "id", "type": "Int64"}, {"name": "rest", "type": "Int64"}]
    written = {
        "source": {"csv": {"uris": [str(folder / "rows.csv")], "columns": columns}},
        "features": [{"name": "id", "dtype": "int64"}],
        **spec,
        "output": {"uri": str(folder / out), **spec.get("output", {})},
    }
    job = parse_job(written)
    run_job(job)
    return folder / out


def ids(folder: Path) -> dict[str, list[list[int]]]:
    """Return the content of each file, in order, by split."""
    found: dict[str, list[list[int]]] = {}
    for file in verify(str(folder), Access()).files:
        path = folder / file.file
        if path.suffix == ".npz":
            numbers = np.load(path)["features/id"].tolist()
        else:
            numbers = [records.parse_example(payload)["id"][0] for _, payload in records.read([path.read_bytes()])]
        found.setdefault(file.split, []).append(numbers)
    return found


def cut(numbers: list[int], size: int) -> list[list[int]]:
    return [numbers[first : first + size] for first in range(0, len(numbers), size)]


@pytest.mark.slow
@settings(max_examples=4)
@given(
    rows=st.integers(1, 60),
    size=st.integers(4, 25),
    files=st.integers(1, 9),
    parallelism=st.integers(1, 9),
    shuffled=st.booleans(),
    splits=st.sampled_from([None, HALVES]),
)
def test_any_workers_and_any_files_give_the_same_minibatches(
    rows: int, size: int, files: int, parallelism: int, shuffled: bool, splits: dict[str, Any] | None
) -> None:
    minibatches = {"granularity": "Minibatch", "minibatchSize": size}
    spec: dict[str, Any] = {"splits": splits, "shuffle": {"seed": 3} if shuffled else None}
    many = {"workers": {"parallelism": parallelism}, **spec}
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        whole = ids(made(folder, rows, "whole", **spec))
        each = ids(made(folder, rows, "each", **many, output=minibatches))
        arrays = ids(made(folder, rows, "arrays", **spec, output={"format": "npz", **minibatches}))
        some = ids(made(folder, rows, "some", **many, output={"shards": {"count": files}, **minibatches}))
        for split, found in whole.items():
            expected = cut([number for numbers in found for number in numbers], size)
            assert each[split] == expected
            assert arrays[split] == expected
            assert [minibatch for numbers in some[split] for minibatch in cut(numbers, size)] == expected
            assert len(some[split]) == min(files, len(expected))
        assert sorted(number for found in each.values() for numbers in found for number in numbers) == list(range(rows))


@pytest.mark.parametrize("format_", ["tfrecord", "npz", "dl4jDataset"])
def test_a_thousand_records_at_32_are_32_files_of_which_the_last_has_8(tmp_path: Path, format_: str) -> None:
    folder = made(tmp_path, 1000, "out", output={"format": format_, "granularity": "Minibatch", "minibatchSize": 32})
    manifest = verify(str(folder), Access())
    assert [file.records for file in manifest.files] == [32] * 31 + [8]
    assert manifest.records_out == 1000


def test_what_is_filtered_or_bad_is_missing_from_its_minibatch(tmp_path: Path) -> None:
    (tmp_path / "rows.csv").write_text("".join(f"{number if number != 5 else 'wrong'},{number % 7}\n" for number in range(20)))
    output = {"granularity": "Minibatch", "minibatchSize": 4}
    job = {
        "source": {
            "csv": {"uris": [str(tmp_path / "rows.csv")], "columns": [{"name": "id", "type": "Int64"}, {"name": "rest", "type": "Int64"}]}
        },
        "features": [{"name": "id", "dtype": "int64"}],
        "transforms": [{"filter": {"where": "id < 8 or id > 12"}}],
        "onBadRecord": {"policy": "Skip"},
    }
    for format_, out in (("tfrecord", "records"), ("npz", "arrays"), ("dl4jDataset", "data")):
        whole = {"apiVersion": "dataprep.io/v1alpha1", "kind": "DataPrepJob", "metadata": {"name": "x"}}
        parsed = DataPrepJob.parse({**whole, "spec": job | {"output": {**output, "uri": str(tmp_path / out), "format": format_}}})
        run_job(parsed)
    expected = [[0, 1, 2, 3], [4, 6, 7], [], [13, 14, 15], [16, 17, 18, 19]]
    assert ids(tmp_path / "records") == {"train": expected}
    assert ids(tmp_path / "arrays") == {"train": expected}
    assert [file.records for file in verify(str(tmp_path / "data"), Access()).files] == list(map(len, expected))


@given(records=st.integers(0, 5000), batch=st.integers(1, 300), data=st.data())
def test_no_shard_divides_a_minibatch(records: int, batch: int, data: st.DataObject) -> None:
    batches = -(-records // batch)
    shards = data.draw(st.integers(min(1, batches), batches))
    split = SplitPlan(name="a", ranges=[(0, records)], records=records, batch=batch, shards=shards, template="{shard}")
    head = plan.PlanHead(
        run_id="", encoding_version=1, spec_sha256="", inputs_sha256="", units_sha256="", reader="csv",
        samples=records, bytes_in=0, splits=[split], extension="x", tasks=1,
    )  # fmt: skip
    found = list(plan.shards(head))
    assert [rank for shard in found for rank in range(shard.first, shard.first + shard.records)] == list(range(records))
    assert all(shard.first % batch == 0 and shard.records for shard in found)
    sizes = [-(-shard.records // batch) for shard in found]
    assert max(sizes, default=0) - min(sizes, default=0) <= 1


@pytest.mark.parametrize(
    ("shards", "files"),
    [({}, 4), ({"count": 3}, 3), ({"count": 9}, 4), ({"records": 30}, 4), ({"records": 60}, 2), ({"targetSize": "64Ki"}, 1)],
    ids=str,
)
def test_files_have_as_many_whole_minibatches_as_shards_ask_for(tmp_path: Path, shards: dict[str, Any], files: int) -> None:
    folder = made(tmp_path, 100, "out", output={"granularity": "Minibatch", "minibatchSize": 30, "shards": shards})
    found = ids(folder)["train"]
    assert len(found) == files
    assert [number for numbers in found for number in numbers] == list(range(100))
    assert all(numbers[0] % 30 == 0 for numbers in found)


@pytest.mark.parametrize(
    ("output", "message"),
    [
        ({"minibatchSize": 8}, "minibatchSize needs granularity: Minibatch"),
        (
            {"granularity": "Minibatch", "format": "npz", "shards": {"count": 2}},
            "with granularity: Minibatch, each file of npz, fileBatch, dl4jDataset contains one minibatch, so leave shards out",
        ),
        ({"granularity": "Minibatch", "shards": {"records": 20}}, r"shards\.records must be at least minibatchSize \(32\), got 20"),
        ({"granularity": "minibatch"}, "Input should be 'Record' or 'Minibatch'"),
    ],
)
def test_what_does_not_go_together_is_refused(output: dict[str, Any], message: str) -> None:
    with pytest.raises(ValidationError, match=message):
        Output.model_validate({"uri": "out", **output})
