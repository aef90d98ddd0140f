"""Plans random jobs that leave out duplicates, with Spark SQL and without. Input: a JSON file of {paths, folder, seeds}.

`paths` are the folders of the code, which Spark's Python processes need too. Returns the number of plans with duplicates, and the seeds
whose plans differ.
"""

import json
import os
import sys
import tempfile
from pathlib import Path
from typing import Any

wanted = json.loads(Path(sys.argv[1]).read_text())
sys.path += wanted["paths"]
os.environ["PYTHONPATH"] = os.pathsep.join(wanted["paths"])
os.environ["PYSPARK_PYTHON"] = sys.executable

from tests.builders.duplicates import random_job  # noqa: E402 - the path is set above

from dataprep_api.resources.job import DataPrepJob  # noqa: E402
from dataprep_converter.inputs.access import Access  # noqa: E402
from dataprep_converter.planning import kept_bitmaps, planner  # noqa: E402
from dataprep_converter.readers.joins import joined_tables, part_reader  # noqa: E402
from dataprep_converter.steps.executors import Executors, executors_of  # noqa: E402

# Divide even small sources into several parts and ranges.
kept_bitmaps.RANGE_SAMPLES = 7  # type: ignore[misc]
part_reader.PART_BYTES = 1  # type: ignore[misc]
# Use Spark for sources of any size.
joined_tables._MOST = 0  # type: ignore[misc]


def planned(job: DataPrepJob, executors: Executors | None) -> tuple[bytes, Any, list[str]]:
    """The plan's bytes, the codes of all samples, and the warnings."""
    access = Access()
    access.sql_engine = engine = executors.sql_engine(job) if executors is not None else None
    with planner.make_plan(job.spec, access) as new:
        # The session begins when the engine runs its first statement.
        assert engine is None or "_session" in vars(engine)
        return new.plan.head.to_bytes(), new.tables.codes, list(new.plan.head.warnings)


with_duplicates, differing = 0, []
with executors_of("local[2]", {"spark.sql.shuffle.partitions": "3", "spark.ui.enabled": "false"}, name="duplicates") as spark:
    for seed in wanted["seeds"]:
        with tempfile.TemporaryDirectory(dir=wanted["folder"]) as folder:
            document = {
                "apiVersion": "dataprep.io/v1alpha1",
                "kind": "DataPrepJob",
                "metadata": {"name": "duplicates"},
                "spec": random_job(seed, Path(folder)),
            }
            job = DataPrepJob.parse(document)
            by_spark = planned(job, spark)
            if by_spark != planned(job, None):
                differing.append(seed)
            with_duplicates += any("say the same as an earlier one" in warning for warning in by_spark[2])
sys.stdout.write(json.dumps({"with duplicates": with_duplicates, "differing": differing}) + "\n")
