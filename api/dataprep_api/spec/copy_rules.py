"""`format: copy`: copies a finished data set byte for byte. The spec can't set fields that would change the data set's records."""

from collections.abc import Iterator
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from dataprep_api.spec import DataPrepJobSpec, Model

SOURCES: Final = ("dataset", "from_job")
_RECORD_FIELDS: Final = ("features", "labels", "transforms", "deduplicate", "limit", "splits", "shuffle", "on_bad_record", "nulls", "code")
_COPY_FIELDS: Final = ("uri", "version", "format", "overwrite", "hdfs")


def faults(spec: "DataPrepJobSpec") -> Iterator[str]:
    """Yield a message for each setting that can't be combined with `format: copy`."""
    if spec.source is None or spec.source.kind not in SOURCES:
        yield "it needs source.dataset or source.fromJob"
    elif spec.source.from_job is not None and spec.source.from_job.split is not None:
        yield "a copy takes all splits, so leave out fromJob.split"
    names = [_yaml_name(spec, name) for name in _RECORD_FIELDS if getattr(spec, name) != type(spec).model_fields[name].default]
    output = spec.output
    fields = type(output).model_fields
    names += [
        f"output.{_yaml_name(output, name)}"
        for name in fields
        if name not in _COPY_FIELDS and getattr(output, name) != fields[name].default
    ]
    if names:
        yield f"a copy has the same records as its source, so leave out {', '.join(names)}"
    if output.overwrite == "Extend":
        yield "a copy can't be extended; extend the original data set, and copy it again"


def _yaml_name(model: "Model", name: str) -> str:
    return type(model).model_fields[name].alias or name
