"""`source.parquet`."""

from dataprep_api.spec.sources.table_files import TableFiles


class ParquetSource(TableFiles):
    """Parquet files. Columns: the files' columns. A field of a struct is named `a/b`, and lists are ragged."""
