"""Runs generated loaders and prints what they loaded as JSON: loaded_by.py FRAMEWORK NEEDED LOADER...

NEEDED is a folder with the packages that the loaders need in addition to the environment's packages, or `-` if there are none. For Spark,
NEEDED is the class path of the jars.
"""

import contextlib
import importlib.util
import io
import json
import runpy
import sys
import types
from typing import Any


def shown(value: Any) -> Any:
    """Converts tensors, arrays and bytes to lists and text, and images to their shape."""
    if isinstance(value, (list, tuple)):
        return [shown(each) for each in value]
    if isinstance(value, (bytes, bytearray)):
        return value.decode("latin-1")
    if hasattr(value, "getpixel"):
        return [value.height, value.width, len(value.getbands())]
    if not hasattr(value, "shape"):
        return value
    return list(value.shape) if len(value.shape) == 3 else value.tolist()


def torch(loader: dict[str, Any]) -> Any:
    return {
        split: [{name: shown(value) for name, value in record.items()} for record in loader["Records"](split)] for split in loader["SPLITS"]
    }


def dali(loader: dict[str, Any]) -> Any:
    found: dict[str, Any] = {}
    for split, records in loader["SPLITS"].items():
        outputs = loader["load"](split, batch_size=records).run()
        found[split] = {
            name: [shown(output.at(number)) for number in range(records)] for name, output in zip(loader["FEATURES"], outputs, strict=True)
        }
    return found


def sagemaker(loader: dict[str, Any]) -> Any:
    from google.protobuf.json_format import MessageToDict  # only installed in this environment

    records = {split: [MessageToDict(each) for each in loader["load"](split)] for split in loader["SPLITS"]}
    return {"records": records, "config": _checked(loader["input_data_config"]("s3://bucket/folder"))}


def _checked(config: Any) -> Any:
    """The configuration, after botocore has validated it against its model of the API call."""
    from botocore.loaders import Loader
    from botocore.model import ServiceModel
    from botocore.validate import ParamValidator

    model = ServiceModel(Loader().load_service_model("sagemaker", "service-2"))
    shape = model.operation_model("CreateTrainingJob").input_shape.members["InputDataConfig"]
    report = ParamValidator().validate(config, shape)
    assert not report.has_errors(), report.generate_report()
    channel = shape.member.members
    assert all(each["CompressionType"] in channel["CompressionType"].enum for each in config)
    return config


def spark(loader: dict[str, Any]) -> Any:
    from pyspark.sql import SparkSession

    session = SparkSession.getActiveSession()
    found: dict[str, Any] = {}
    for split in loader["SPLITS"]:
        records = loader["load"](session, split)
        found[split] = [each.asDict() if hasattr(each, "asDict") else shown(each) for each in records.collect()]
    found["partitions"] = records.rdd.getNumPartitions() if hasattr(records, "rdd") else records.getNumPartitions()
    return found


def start_spark(jars: str) -> None:
    from pyspark.sql import SparkSession

    settings = {"driver.extraClassPath": jars, "driver.host": "127.0.0.1", "driver.bindAddress": "127.0.0.1", "ui.enabled": "false"}
    builder = SparkSession.builder.master("local[1]")
    for name, value in settings.items():
        builder = builder.config(f"spark.{name}", value)
    builder.getOrCreate().sparkContext.setLogLevel("ERROR")


framework, needed, *loaders = sys.argv[1:]
if framework == "spark":
    start_spark(needed)
elif needed != "-":
    sys.path.append(needed)
if framework == "sagemaker":
    # The package's __init__ imports all of SageMaker and its dependencies, which the reader doesn't need.
    found = importlib.util.find_spec("sagemaker")
    assert found is not None
    package = types.ModuleType("sagemaker")
    package.__path__ = list(found.submodule_search_locations or [])
    sys.modules["sagemaker"] = package
results = []
for path in loaders:
    sys.argv = [path]
    said = io.StringIO()
    with contextlib.redirect_stdout(said):
        loader = runpy.run_path(path)
        loader["main"]()
        results.append({"loaded": globals()[framework](loader)})
    results[-1]["said"] = said.getvalue()
json.dump(results, sys.stdout)
