"""`source.avro`."""

from dataprep_api.spec.sources.table_files import TableFiles


class AvroSource(TableFiles):
    """Avro files. Columns: the fields of the records. A field of an inner record is named `a/b`, and arrays are ragged."""
