"""Options for the format `recordioProtobuf`."""

from typing import Annotated

from pydantic import Field

from dataprep_api.spec.model import Column, Model


class Sparse(Model):
    """A sparse feature, made of two features of the job."""

    name: Column
    """Key in the records."""
    keys: Column
    """Feature with the positions of the values. It is a list of whole numbers, row-major if there are several dimensions."""
    values: Column
    """Feature with the values. The list of values is as long as the list of positions."""
    shape: Annotated[list[Annotated[int, Field(ge=1)]], Field(min_length=1, max_length=8)]
    """Shape of the dense tensor."""


class RecordioProtobufOptions(Model):
    """Options for `recordioProtobuf`: SageMaker's Record messages in RecordIO framing."""

    sparse: Annotated[list[Sparse], Field(max_length=16)] | None = None
    """Sparse features. Each tensor is stored as positions and values, which are two features of the job."""
    uid: Column | None = None
    """Text feature to store as `uid`."""
    metadata: Column | None = None
    """Text feature to store as `metadata`."""
    configuration: Column | None = None
    """Text feature to store as `configuration`. It contains JSON."""
    content_type: Annotated[str, Field(min_length=1, max_length=127)] | None = None
    """Content type of bytes. Example: `image/jpeg`. Default: no content type is written."""
