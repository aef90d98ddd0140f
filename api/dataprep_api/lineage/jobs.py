"""Finds out from a job's spec what the job's runs read, write and do."""

from dataprep_api.formats import COPY
from dataprep_api.lineage.names import DataSetName, data_set_name
from dataprep_api.spec import DataPrepJobSpec


def input_names(spec: DataPrepJobSpec) -> dict[str, DataSetName]:
    """Return the name of each data set that the spec names as an input, keyed by the URI."""
    if spec.script is not None:
        uris = [spec.script.input] if spec.script.input is not None else []
    elif spec.data.sql is not None and not spec.data.inputs():
        # The source has no files, so the input is the database.
        uris = [spec.data.sql.url]
    else:
        uris = spec.data.inputs()
    return {uri: data_set_name(uri) for uri in uris}


def output_names(spec: DataPrepJobSpec) -> list[DataSetName]:
    """Return the name of the output data set and, if the job also writes a table, the name of the table."""
    table = [spec.output.table.uri] if spec.output.table is not None else []
    return [data_set_name(uri) for uri in (spec.output.uri, *table)]


def kind_of_job(spec: DataPrepJobSpec) -> str:
    """Return what the job does."""
    if spec.script is not None:
        return "SCRIPT"
    return "COPY" if spec.output.format == COPY else "CONVERSION"
