"""Options of the format `dl4jDataset`."""

from typing import Literal

from dataprep_api.spec.model import Model


class Dl4jDatasetOptions(Model):
    """Options of the format `dl4jDataset`: what ND4J's `DataSet.load` reads."""

    holds: Literal["DataSet", "MultiDataSet"] = "DataSet"
    """`DataSet` or `MultiDataSet`. `DataSet` has one array of features and at most one of labels; `MultiDataSet` has any number of each, in the order of the spec."""
