"""`source.arrow`."""

from dataprep_api.spec.sources.table_files import TableFiles


class ArrowSource(TableFiles):
    """Arrow IPC files and streams. Feather v2 files are included. Columns: the files' columns. A field of a struct is named `a/b`, and lists are ragged."""
