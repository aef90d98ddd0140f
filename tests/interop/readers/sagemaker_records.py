"""Reads RecordIO files with SageMaker's SDK.

Uses `read_recordio` and `read_records` of `sagemaker.serializer_utils`, re-exported by `sagemaker.amazon.common`.
"""

import importlib.metadata
import importlib.util
import json
import sys
import types
from pathlib import Path
from typing import Any

# The package's __init__ imports all of SageMaker and its dependencies, which this module doesn't need.
found = importlib.util.find_spec("sagemaker")
assert found is not None
package = types.ModuleType("sagemaker")
package.__path__ = list(found.submodule_search_locations or [])
sys.modules["sagemaker"] = package

from google.protobuf.json_format import MessageToDict  # noqa: E402
from sagemaker import serializer_utils  # noqa: E402


def read(file: str) -> dict[str, Any]:
    with Path(file).open("rb") as stream:
        payloads = [payload.hex() for payload in serializer_utils.read_recordio(stream)]
    try:
        with Path(file).open("rb") as stream:
            records = [MessageToDict(message, preserving_proto_field_name=True) for message in serializer_utils.read_records(stream)]
    except Exception as exc:
        return {"payloads": payloads, "refused": type(exc).__name__}
    return {"payloads": payloads, "records": records}


versions = {"sagemaker": importlib.metadata.version("sagemaker")}
json.dump({"versions": versions, "files": [read(file) for file in sys.argv[1:]]}, sys.stdout)
