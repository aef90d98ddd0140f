"""For Ray Data: reads finished data sets as Datasets, and writes Datasets as data sets, in every format and to every store.

    import ray
    from dataprep_ray import DataprepDatasink, DataprepDatasource

    ds = ray.data.read_datasource(DataprepDatasource("s3://bucket/mnist", columns=["image", "label"], split="train"))
    ds.write_datasink(DataprepDatasink("s3://bucket/set", format="tfrecord", mode="overwrite"))

docs/ray.md describes the options, the types and the promises.
"""

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from dataprep_ray.datasink import DataprepDatasink
    from dataprep_ray.datasource import DataprepDatasource

__all__ = ["DataprepDatasink", "DataprepDatasource"]


def __getattr__(name: str) -> Any:
    """Imports Ray only when a class is needed. Raises ImportError if Ray Data is missing."""
    if name == "DataprepDatasource":
        from dataprep_ray.datasource import DataprepDatasource

        return DataprepDatasource
    if name == "DataprepDatasink":
        from dataprep_ray.datasink import DataprepDatasink

        return DataprepDatasink
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
