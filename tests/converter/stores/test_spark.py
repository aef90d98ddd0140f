"""dataprep_spark on stores that rename files and on stores that don't: attempts, replacing, appending, reading."""

import uuid
from collections.abc import Callable

import pytest
from tests.builders.dataframes import begin, numbers, run_tasks
from tests.converter.conftest import BUCKET

from dataprep_api.dataset.report import Manifest
from dataprep_converter.core.errors import NotFound
from dataprep_converter.inputs.access import Access
from dataprep_converter.stores import StoreSettings
from dataprep_converter.tools.verification import verify
from dataprep_spark import publishing, reading
from dataprep_spark.options import read_options
from storeservers import HdfsCluster

pytestmark = pytest.mark.store


def on_hdfs(request: pytest.FixtureRequest) -> tuple[str, StoreSettings]:
    hdfs: HdfsCluster = request.getfixturevalue("hdfs_cluster")
    return hdfs.uri, StoreSettings(uri_prefix="hdfs://", user=hdfs.user)


def on_s3(request: pytest.FixtureRequest) -> tuple[str, StoreSettings]:
    return f"s3://{BUCKET}", request.getfixturevalue("s3_settings")


STORES: dict[str, Callable[[pytest.FixtureRequest], tuple[str, StoreSettings]]] = {"hdfs": on_hdfs, "s3": on_s3}


@pytest.mark.parametrize("format_", ["tfrecord", "mapFile"])
@pytest.mark.parametrize("name", STORES)
def test_a_data_frame_is_written_replaced_appended_to_and_read(name: str, format_: str, request: pytest.FixtureRequest) -> None:
    root, settings = STORES[name](request)
    folder = f"{root}/spark-{uuid.uuid4().hex[:8]}/set"

    def write(first: int, *, overwrite: bool = False) -> Manifest:
        planned = begin(folder, numbers(0, 1).schema, overwrite=overwrite, settings=[settings], format=format_)
        partitions = [[numbers(first, 5)], [], [numbers(first + 5, 5)]]
        run_tasks(planned, partitions, first_attempt=100)
        publishing.commit(planned, run_tasks(planned, partitions))
        return verify(folder, Access([settings]), every_record=True)

    def numbers_in() -> list[int]:
        source, manifest = reading.open_source(read_options({"path": folder}), [settings])
        batches = [batch for partition in source.partitions(manifest) for batch in source.batches(partition)]
        return [row["n"] for batch in batches for row in batch.to_pylist()]

    with pytest.raises(NotFound, match="doesn't exist"):
        numbers_in()
    assert write(0).records_out == 10
    assert write(50, overwrite=True).records_out == 10
    assert numbers_in() == list(range(50, 60))
    assert write(60).records_out == 20
    assert numbers_in() == list(range(50, 70))
    left = [entry.uri for entry in Access([settings]).store(folder).list(folder)]
    assert not [uri for uri in left if "/made/" in uri or ".dataprep-tmp-" in uri]

    planned = begin(folder, numbers(0, 1).schema, settings=[settings], format=format_)
    run_tasks(planned, [[numbers(90, 1)]])
    publishing.abort(planned)
    assert sorted(entry.uri for entry in Access([settings]).store(folder).list(folder)) == sorted(left)
