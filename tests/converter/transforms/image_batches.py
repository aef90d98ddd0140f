"""Helpers for the image step tests: batches, files, and chains of steps."""

import io
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
from PIL import Image

from dataprep_api.spec import Transform
from dataprep_converter.core.tensors import to_arrow, to_numpy
from dataprep_converter.records.batch import SAMPLE, Batch
from dataprep_converter.transforms import step_class


def drawn(height: int, width: int, *, mode: str = "RGB", seed: int = 0) -> Image.Image:
    """Returns a smooth picture with some noise, similar to a photograph."""
    rng = np.random.default_rng(seed)
    y, x = np.mgrid[0:height, 0:width]
    waves = np.stack([127 + 90 * np.sin(x / (9 + c) + c) * np.cos(y / (13 - c)) for c in range(3)], axis=2)
    return Image.fromarray(np.clip(waves + rng.normal(0, 8, waves.shape), 0, 255).astype(np.uint8)).convert(mode)


def file_of(picture: Image.Image, kind: str = "JPEG", **options: Any) -> bytes:
    """Returns the bytes of a file written by Pillow."""
    file = io.BytesIO()
    picture.save(file, kind, **options)
    return file.getvalue()


def files(*contents: bytes | None, **columns: Any) -> Batch:
    """Returns a batch like those of `source.images`."""
    count = len(contents)
    made: dict[str, Any] = {
        "image/encoded": pa.array(contents, pa.large_binary()),
        "image/format": pa.array(["jpeg"] * count, pa.string()),
        "image/height": pa.array([-1] * count, pa.int64()),
        "image/width": pa.array([-1] * count, pa.int64()),
        **columns,
    }
    return Batch(records=pa.record_batch({**made, SAMPLE: pa.array(range(10, 10 + count), pa.int64())}), bad=[], bytes_in=7)


def tensors(*images: npt.NDArray[Any]) -> Batch:
    """Returns a batch of images of one size in the column `image`."""
    column = to_arrow(np.stack(images))
    return Batch(records=pa.record_batch({"image": column, SAMPLE: pa.array(range(10, 10 + len(images)), pa.int64())}), bad=[], bytes_in=7)


def schema_of(batch: Batch) -> pa.Schema:
    """Returns the batch's columns without the sample number."""
    names = [name for name in batch.records.schema.names if name != SAMPLE]
    return pa.schema([batch.records.schema.field(name) for name in names])


def schema_after(schema: pa.Schema, *transforms: Mapping[str, Any]) -> pa.Schema:
    """Returns the columns after these transforms, each written as in a spec. Raises BadSpec if planning would raise it."""
    for each in transforms:
        transform = Transform.model_validate(each)
        schema = step_class(transform.kind)(transform.member, schema).schema()
    return schema


def applied(batch: Batch, *transforms: Mapping[str, Any]) -> Batch:
    """Returns the batch after a chain of transforms. Checks that the result of every step matches its schema."""
    schema = schema_of(batch)
    for each in transforms:
        transform = Transform.model_validate(each)
        step = step_class(transform.kind)(transform.member, schema)
        schema = step.schema()
        batch = step.apply(batch)
        assert schema_of(batch).equals(schema), (schema_of(batch), schema)
    return batch


def pixels(batch: Batch, column: str = "image") -> npt.NDArray[Any]:
    """Returns the values of a column of tensors."""
    return to_numpy(batch.records.column(column))


def reasons(batch: Batch) -> Sequence[str]:
    """Returns the reasons why samples are bad."""
    return [bad.reason for bad in batch.bad]
