"""dataprep_spark on stores that can rename files and on stores that can't: attempts, replacing, appending and reading."""

import pytest
from tests.builders.dataframes import begin, numbers, run_tasks
from tests.converter.stores.places import Place, on_some

from dataprep_api.dataset.report import Manifest
from dataprep_converter.core.errors import NotFound
from dataprep_converter.inputs.access import Access
from dataprep_converter.tools.verification import verify
from dataprep_frames import publishing, reading
from dataprep_spark.options import read_options
from dataprep_spark.spark_types import TYPES


@pytest.mark.parametrize("format_", ["tfrecord", "mapFile"])
@on_some("hdfs", "s3", "azure")
def test_a_data_frame_is_written_replaced_appended_to_and_read(remote: Place, format_: str) -> None:
    folder, settings = remote.at("set"), remote.settings

    def write(first: int, *, overwrite: bool = False) -> Manifest:
        planned = begin(folder, numbers(0, 1).schema, overwrite=overwrite, settings=[settings], format=format_)
        partitions = [[numbers(first, 5)], [], [numbers(first + 5, 5)]]
        run_tasks(planned, partitions, first_attempt=100)
        publishing.commit(planned, run_tasks(planned, partitions))
        return verify(folder, Access([settings]), every_record=True)

    def numbers_in() -> list[int]:
        source, manifest = reading.open_source(read_options({"path": folder}), TYPES, [settings])
        batches = [batch for partition in source.partitions(manifest) for batch in source.batches(partition)]
        return [row["n"] for batch in batches for row in batch.to_pylist()]

    with pytest.raises(NotFound, match="doesn't exist"):
        numbers_in()
    assert write(0).records_out == 10
    assert write(50, overwrite=True).records_out == 10
    assert numbers_in() == list(range(50, 60))
    assert write(60).records_out == 20
    assert numbers_in() == list(range(50, 70))
    left = remote.names()
    assert not [name for name in left if "/made/" in name]
    assert remote.leftovers() == 0

    planned = begin(folder, numbers(0, 1).schema, settings=[settings], format=format_)
    run_tasks(planned, [[numbers(90, 1)]])
    publishing.abort(planned)
    assert sorted(remote.names()) == sorted(left)
