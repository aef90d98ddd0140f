"""A job's input can be globs, folders or files, or a list of them. The stores list objects by prefix and in pages."""

from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from tests.builders.specs import parse_job
from tests.converter.stores.places import Place, files, hdfs, oss, s3
from tests.converter.stores.small_jobs import live

from dataprep_converter.formats.tfrecord import records
from dataprep_converter.inputs.access import Access

_pq: Any = pq  # the module has no type stubs

PLACES = [
    pytest.param(files, id="files"),
    pytest.param(hdfs, id="hdfs", marks=pytest.mark.store),
    pytest.param(s3, id="s3", marks=pytest.mark.store),
    pytest.param(oss, id="oss", marks=pytest.mark.store),
]
every_store = pytest.mark.parametrize("make", PLACES)


def a_file(kind: str, numbers: range) -> bytes:
    """Return a file with the columns `id` and `x`, as other programs write it."""
    if kind == "csv":
        return "".join(["id,x\n", *(f"{n},{n / 4}\n" for n in numbers)]).encode()
    out = pa.BufferOutputStream()
    _pq.write_table(pa.table({"id": pa.array(numbers, pa.int64()), "x": pa.array([n / 4 for n in numbers])}), out, row_group_size=7)
    return out.getvalue().to_pybytes()


def read(place: Place, kind: str, *uris: str, **options: Any) -> list[int]:
    """Run a job on these inputs, check every value, and return the ids of the records in order."""
    spec = {
        "source": {kind: {"uris": [place.at(uri) for uri in uris], **({"header": True} if kind == "csv" else {}), **options}},
        "output": {"uri": place.at("out"), "shards": {"count": 1}, "overwrite": "Always"},
    }
    job = parse_job(spec, name="inputs")
    live(job, Access([place.settings]))
    made = place.store().get(place.at("out/train.tfrecords"))
    found = [records.parse_example(payload) for _, payload in records.read([made])]
    assert all(record["x"] == [record["id"][0] / 4] for record in found)
    return [int(record["id"][0]) for record in found]


@pytest.fixture
def place(request: pytest.FixtureRequest, make: Any, tmp_path: Path) -> Place:
    del tmp_path
    found: Place = make(request)
    return found


@pytest.mark.parametrize(
    ("make", "kind"),
    [
        pytest.param(*place.values, kind, id=f"{kind}-{place.id}", marks=[*place.marks, *([] if has_turn else [pytest.mark.nightly])])
        for number, place in enumerate(PLACES)
        for kind, has_turn in (("parquet", number % 2 == 1), ("csv", number % 2 == 0))
    ],
)
def test_what_lies_below_a_prefix_is_read_by_a_glob_in_the_order_of_its_names(place: Place, kind: str) -> None:
    # A folder that Glue, EMR or Athena has written looks like this. It contains files in no particular order, a marker file, and another
    # job's leftovers.
    parts = {f"prefix/part-0000{n}.{kind}": a_file(kind, range(20 * n, 20 * n + 20)) for n in (2, 0, 1)}
    others = {"prefix/_SUCCESS": b"", "prefix/notes.txt": b"no data", f"prefixed/part-9.{kind}": a_file(kind, range(900, 910))}
    for name, content in {**parts, **others}.items():
        place.store().put(place.at(name), content)

    assert read(place, kind, f"prefix/*.{kind}") == list(range(60))
    assert read(place, kind, f"pre*/part-0000[02].{kind}") == [*range(20), *range(40, 60)]


@every_store
def test_a_list_of_files_folders_and_globs_keeps_its_order(place: Place) -> None:
    for name, first in (("b/2.csv", 20), ("b/1.csv", 10), ("a/1.csv", 0), ("c/x.csv", 30)):
        place.store().put(place.at(name), a_file("csv", range(first, first + 5)))

    found = read(place, "csv", "c/x.csv", "b", "a/*.csv")
    assert found == [*range(30, 35), *range(10, 15), *range(20, 25), *range(5)]
