"""Options for the format `dl4jDataset`."""

from typing import Literal

from dataprep_api.spec.model import Model


class Dl4jDatasetOptions(Model):
    """Options for `dl4jDataset`: files for ND4J's `DataSet.load`."""

    holds: Literal["DataSet", "MultiDataSet"] = "DataSet"
    """Class of the stored objects. A `DataSet` has one array of features and at most one array of labels. A `MultiDataSet` has any number of feature arrays and label arrays, in the order of the spec."""
