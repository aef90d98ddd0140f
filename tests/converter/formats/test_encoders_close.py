"""Encoders that keep records in temporary files always remove these files, even if the shard fails."""

from collections import Counter

import numpy as np
import pyarrow as pa
import pytest
from tests.converter.readers.reader_contract import open_files

from dataprep_api.spec import Output
from dataprep_converter.formats.registry import encoder_class
from dataprep_converter.records.feature import FeatureSpec

FEATURES = [FeatureSpec(name="n", kind="int64", dtype="int64", shape=())]


def temporary_files() -> Counter[str]:
    return Counter({name: count for name, count in open_files().items() if name.endswith("(deleted)")})


# If a shard has few records, MDS keeps them in memory and writes no temporary file.
@pytest.mark.parametrize(("name", "records"), [("arrayRecord", 1000), ("mds", 1_000_000)], ids=["arrayRecord", "mds"])
def test_an_encoder_that_was_left_in_the_middle_leaves_no_file_open(name: str, records: int) -> None:
    output = Output.model_validate({"uri": "out", "format": name})
    batch = pa.record_batch({"n": np.arange(records), "_sample": np.arange(records)})
    before = temporary_files()
    with encoder_class(name)(output, FEATURES) as encoder:
        encoder.encode(batch)
        assert temporary_files() - before
    assert temporary_files() - before == Counter()
