"""The parts of Ray Data that this package needs. This is the only module here that imports Ray."""

from typing import Any

import numpy as np

from dataprep_converter.core.tensors import NUMPY_NAMES

_NEEDED = "dataprep_ray needs Ray Data: pip install 'dataprep-operator[ray]'"

try:
    from ray.data import DataContext, Datasink, Datasource, ReadTask
    from ray.data.block import BlockAccessor, BlockMetadata
    from ray.data.extensions.tensor_extension import ArrowTensorArray
except ImportError as exc:
    raise ImportError(f"{_NEEDED} ({exc})") from exc

__all__ = ["BlockAccessor", "BlockMetadata", "Datasink", "Datasource", "ReadTask", "errors_allowed", "tensors_of_ray"]


def errors_allowed() -> int:
    """Returns how many tasks may fail before the write fails. Ray leaves out the rows of these tasks.

    A negative number means that all tasks may fail.
    """
    return int(DataContext.get_current().max_errored_blocks)


def tensors_of_ray(tensors: Any) -> Any:
    """Converts a column of Arrow's tensors to Ray's tensors, which Ray passes to users as numpy arrays."""
    sample = np.zeros((1, *tensors.type.shape), NUMPY_NAMES[tensors.type.value_type])
    kind: Any = ArrowTensorArray.from_numpy(sample).type
    return kind.wrap_array(tensors.storage.cast(kind.storage_type))
