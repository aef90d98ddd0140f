"""Options of the format `npz`."""

from typing import Literal

from dataprep_api.spec.model import Model


class NpzOptions(Model):
    """Options of the format `npz`: a zip of NumPy arrays, one for each feature and label."""

    compression: Literal["None", "Deflate"] = "None"
    """Compression of the arrays. `None` as `numpy.savez`, `Deflate` as `numpy.savez_compressed`."""
