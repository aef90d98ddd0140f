"""Makes sources of SQL queries, and the records of jobs that read them."""

from pathlib import Path
from typing import Any

from tests.builders.specs import parse_job

from dataprep_api.spec import Source
from dataprep_converter.cli.display import Display
from dataprep_converter.formats.tfrecord import records
from dataprep_converter.inputs.access import Access
from dataprep_converter.sampling.units import UnitTable
from dataprep_converter.steps.run import run

EVERYTHING = "SELECT * FROM t"


def a_source(file: Path | str, query: str = EVERYTHING, *, order: tuple[str, ...] = ("id",), **options: Any) -> Source:
    url = file if isinstance(file, str) else f"sqlite:///{file}"
    return Source.model_validate({"sql": {"url": url, "query": query, "orderBy": list(order), **options}})


def parts(units: UnitTable) -> list[int]:
    return [int(count) for count in units.table["records"].to_numpy()]


def job_of(source: Source, output: Path, access: Access | None = None) -> list[dict[str, Any]]:
    """The records of a job that has only a source."""
    spec = {"source": source.model_dump(by_alias=True, exclude_none=True), "output": {"uri": str(output)}}
    job = parse_job(spec, name="sql")
    run(job, access=access or Access(), workers=1, display=Display(quiet=True))
    (file,) = output.glob("*.tfrecords")
    return [records.parse_example(payload) for _, payload in records.read([file.read_bytes()])]
