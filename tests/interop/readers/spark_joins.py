"""Joins random tables with Spark SQL and with DuckDB. Input: a JSON file of {paths, folder, seeds}.

`paths` are the folders of the code, which Spark's Python processes need too. Returns how many joins made records, how many made sequences,
how many were refused, and the seeds whose plans differ.
"""

import json
import os
import sys
import tempfile
from collections import Counter
from pathlib import Path
from typing import Any

wanted = json.loads(Path(sys.argv[1]).read_text())
sys.path += wanted["paths"]
os.environ["PYTHONPATH"] = os.pathsep.join(wanted["paths"])
os.environ["PYSPARK_PYTHON"] = sys.executable

from tests.builders.joins import random_join  # noqa: E402 - the path is set above

from dataprep_api.resources.job import DataPrepJob  # noqa: E402
from dataprep_converter.core.errors import BadData, BadSpec  # noqa: E402
from dataprep_converter.inputs.access import Access  # noqa: E402
from dataprep_converter.readers.joins import join, joined_tables, part_reader, ranges  # noqa: E402
from dataprep_converter.readers.joins.join import JoinReader  # noqa: E402
from dataprep_converter.steps.executors import Executors, executors_of  # noqa: E402

# Divide even small tables into several parts, ranges, pieces and units.
ranges.RANGE_RECORDS = 7  # type: ignore[misc]
part_reader.PART_BYTES = 1  # type: ignore[misc]
joined_tables.PIECE_RECORDS = 4  # type: ignore[misc]
joined_tables._MOST = 0  # type: ignore[misc]
join.UNIT_RECORDS = 10  # type: ignore[misc]


def planned(job: DataPrepJob, executors: Executors | None) -> Any:
    """The complete result of planning, or the message of its error."""
    access = Access()
    access.sql_engine = engine = executors.sql_engine(job) if executors is not None else None
    try:
        discovery = JoinReader.discover(job.spec.data.member, access)
        units, state = discovery.collect()
    except (BadData, BadSpec) as exc:
        return str(exc)
    # The session begins when the engine runs its first statement.
    assert engine is None or "_session" in vars(engine)
    assert discovery.intermediate is not None
    files = [file.read_bytes() for file in sorted(discovery.intermediate.folder.iterdir())]
    discovery.intermediate.remove()
    return units.table.drop_columns("uri").to_pylist(), state, files


outcomes: Counter[str] = Counter()
differing: list[int] = []
with executors_of("local[2]", {"spark.sql.shuffle.partitions": "3", "spark.ui.enabled": "false"}, name="joins") as spark:
    for seed in wanted["seeds"]:
        with tempfile.TemporaryDirectory(dir=wanted["folder"]) as folder:
            source = random_join(seed, Path(folder))
            document = {
                "apiVersion": "dataprep.io/v1alpha1",
                "kind": "DataPrepJob",
                "metadata": {"name": "joins"},
                "spec": {"source": {"join": source}, "output": {"uri": f"{folder}/out"}},
            }
            job = DataPrepJob.parse(document)
            by_spark = planned(job, spark)
            if by_spark != planned(job, None):
                differing.append(seed)
            has_sequences = any("orderBy" in table for table in source["tables"])
            outcomes["refused" if isinstance(by_spark, str) else "sequences" if has_sequences else "records"] += 1
sys.stdout.write(json.dumps({"outcomes": outcomes, "differing": differing}) + "\n")
