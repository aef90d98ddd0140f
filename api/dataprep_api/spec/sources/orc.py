"""`source.orc`."""

from dataprep_api.spec.sources.table_files import TableFiles


class OrcSource(TableFiles):
    """ORC files. Columns: the files' columns. A field of a struct is named `a/b`, and lists are ragged."""
