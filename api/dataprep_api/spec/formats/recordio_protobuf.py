"""Options of the format `recordioProtobuf`."""

from typing import Annotated

from pydantic import Field

from dataprep_api.spec.model import Column, Model


class Sparse(Model):
    """A feature of which only some values are stored."""

    name: Column
    """Key in the records."""
    keys: Column
    """Feature with the positions. A list of whole numbers, row-major for several dimensions."""
    values: Column
    """Feature with the values. A list as long as that of the positions."""
    shape: Annotated[list[Annotated[int, Field(ge=1)]], Field(min_length=1, max_length=8)]
    """Dense shape."""


class RecordioProtobufOptions(Model):
    """Options of the format `recordioProtobuf`: SageMaker's Record messages in RecordIO framing."""

    sparse: Annotated[list[Sparse], Field(max_length=16)] | None = None
    """Sparse features. They are stored as positions and values, each made of two features of the job."""
    uid: Column | None = None
    """Text feature for `uid`."""
    metadata: Column | None = None
    """Text feature for `metadata`."""
    configuration: Column | None = None
    """Text feature for `configuration`: JSON."""
    content_type: Annotated[str, Field(min_length=1, max_length=127)] | None = None
    """Content type of bytes: `image/jpeg`. Default: none is written."""
