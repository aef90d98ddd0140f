"""`spec.code` and the columns that user code declares."""

from typing import Annotated, Any, Final, Literal

from pydantic import ConfigDict, Field

from dataprep_api.spec.model import Column, Model, ObjectName

CALLABLE: Final = r"^([A-Za-z_][A-Za-z0-9_.]*:)?[A-Za-z_][A-Za-z0-9_.-]*$"

Callable = Annotated[str, Field(min_length=1, max_length=256, pattern=CALLABLE)]
"""`module:function`, or the name of an entry point of the group `dataprep.plugins`."""


class Options(Model):
    """Any values: they are passed on to the user's code by name."""

    model_config = ConfigDict(extra="allow", json_schema_extra={"x-kubernetes-preserve-unknown-fields": True})

    def values(self) -> dict[str, Any]:
        """By name, as JSON values."""
        return dict(self.model_extra or {})


class CodeMap(Model):
    """A ConfigMap of the job's namespace whose keys are Python files."""

    name: ObjectName


class Code(Model):
    """Python modules for plug-ins that aren't in the image."""

    config_map_ref: CodeMap
    """The ConfigMap: `reader.py: |` and so on. Of `dataprep run`, a ConfigMap in the job's own file. What it holds is part of the run id."""


class MadeColumn(Model):
    """A column that user code makes."""

    name: Column
    """The column's name."""
    type: Literal["Int64", "Float32", "Float64", "String", "Bytes", "Bool", "UInt8"]
    """Type of its values."""
    ragged: bool = False
    """Whether each record has a list of them, of any length."""
    shape: Annotated[list[Annotated[int, Field(ge=1, le=2**31)]], Field(min_length=1, max_length=8)] | None = None
    """Shape of the tensor that each record has."""
