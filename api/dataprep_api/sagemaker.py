"""What SageMaker's algorithms expect of records that come from formats of their own: libsvm is one sparse tensor, and IDX a flat vector."""

from dataprep_api.spec import DataPrepJobSpec
from dataprep_api.spec.formats.recordio_protobuf import Sparse
from dataprep_api.spec.model import Model

KEYS = "keys"
VALUES = "values"


class SparseColumns(Model):
    """Columns of libsvm that become the tensor `values`."""

    num_features: int | None
    """None where the source doesn't say it; then there is no shape."""

    @property
    def sparse(self) -> Sparse | None:
        """As the option of the format; None without a shape."""
        if self.num_features is None:
            return None
        return Sparse(name=VALUES, keys=KEYS, values=VALUES, shape=[self.num_features])


def sparse_of_libsvm(spec: DataPrepJobSpec) -> SparseColumns | None:
    """What `recordioProtobuf` stores of libsvm when the job says nothing of features; None where it says something, or for other sources."""
    source = spec.data.libsvm if spec.source is not None else None
    asked = spec.features is not None or spec.transforms or spec.output.recordio_protobuf.sparse is not None
    if source is None or source.dense or asked or spec.output.format != "recordioProtobuf":
        return None
    return SparseColumns(num_features=source.num_features)
