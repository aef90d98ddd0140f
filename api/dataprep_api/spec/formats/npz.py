"""Options for the format `npz`."""

from typing import Literal

from dataprep_api.spec.model import Model


class NpzOptions(Model):
    """Options for `npz`: zip files with one NumPy array per feature and label."""

    compression: Literal["None", "Deflate"] = "None"
    """Compression of the arrays. `None` corresponds to `numpy.savez`, and `Deflate` corresponds to `numpy.savez_compressed`."""
