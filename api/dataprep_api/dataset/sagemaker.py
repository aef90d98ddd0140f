"""What SageMaker's algorithms expect of records that come from formats of their own: libsvm is one sparse tensor, and IDX a flat vector."""

from dataprep_api.formats import format_rules
from dataprep_api.spec import DataPrepJobSpec
from dataprep_api.spec.formats.recordio_protobuf import Sparse

KEYS = "keys"
VALUES = "values"
NUM_FEATURES = "numFeatures"
"""In the plan's `readerState`: the length of the tensor, where the source doesn't say it."""


def sparse(num_features: int) -> Sparse:
    """How the columns of libsvm are one tensor, as the option of the format."""
    return Sparse(name=VALUES, keys=KEYS, values=VALUES, shape=[num_features])


def is_flat_idx(spec: DataPrepJobSpec) -> bool:
    """Whether images of IDX are stored as vectors without their sizes."""
    return spec.source is not None and spec.source.idx is not None and format_rules(spec.output.format).is_for_sagemaker


def is_sparse_libsvm(spec: DataPrepJobSpec) -> bool:
    """Whether libsvm is stored as one tensor: where the job says nothing of features."""
    source = spec.source.libsvm if spec.source is not None else None
    asked = spec.features is not None or spec.transforms or spec.output.recordio_protobuf.sparse is not None
    return source is not None and not source.dense and not asked and format_rules(spec.output.format).is_for_sagemaker


def has_unknown_length(spec: DataPrepJobSpec) -> bool:
    """Whether that tensor is as long as the largest index of all files asks for."""
    return is_sparse_libsvm(spec) and spec.data.libsvm is not None and spec.data.libsvm.num_features is None
