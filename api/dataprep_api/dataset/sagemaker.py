"""The form in which SageMaker's algorithms expect libsvm and IDX data: libsvm as one sparse tensor, and IDX images as flat vectors."""

from dataprep_api.formats import format_rules
from dataprep_api.spec import DataPrepJobSpec
from dataprep_api.spec.formats.recordio_protobuf import Sparse

KEYS = "keys"
VALUES = "values"
NUM_FEATURES = "numFeatures"
"""The key under which the plan's `readerState` stores the length of the tensor.

The key is used only if the source doesn't specify the length.
"""


def sparse(num_features: int) -> Sparse:
    """Return the value of `output.recordioProtobuf.sparse` that combines the columns of libsvm data into one tensor."""
    return Sparse(name=VALUES, keys=KEYS, values=VALUES, shape=[num_features])


def is_flat_idx(spec: DataPrepJobSpec) -> bool:
    """Whether IDX images are stored as flat vectors, without their dimensions."""
    return spec.source is not None and spec.source.idx is not None and format_rules(spec.output.format).is_for_sagemaker


def is_sparse_libsvm(spec: DataPrepJobSpec) -> bool:
    """Whether libsvm data is stored as one sparse tensor. True if the job configures no features, transforms or sparse tensors."""
    source = spec.source.libsvm if spec.source is not None else None
    is_configured = spec.features is not None or spec.transforms or spec.output.recordio_protobuf.sparse is not None
    return source is not None and not source.dense and not is_configured and format_rules(spec.output.format).is_for_sagemaker


def has_unknown_length(spec: DataPrepJobSpec) -> bool:
    """Whether the sparse tensor's length must be derived from the largest index in all files."""
    return is_sparse_libsvm(spec) and spec.data.libsvm is not None and spec.data.libsvm.num_features is None
