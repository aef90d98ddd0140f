"""Parses messages with the code that protoc generates from `record.proto`.

Input: the schema's path, and a JSON file of lists of payloads in hex.
"""

import importlib
import importlib.metadata
import json
import sys
import tempfile
from pathlib import Path
from typing import Any

from google.protobuf.json_format import MessageToDict
from grpc_tools import protoc

schema = Path(sys.argv[1])
made = tempfile.mkdtemp()
assert protoc.main(["protoc", f"-I{schema.parent}", f"--python_out={made}", str(schema)]) == 0
sys.path.insert(0, made)
record_pb2 = importlib.import_module("record_pb2")


def record(payload: str) -> dict[str, Any]:
    found: dict[str, Any] = MessageToDict(record_pb2.Record.FromString(bytes.fromhex(payload)), preserving_proto_field_name=True)
    return found


versions = {name: importlib.metadata.version(name) for name in ("grpcio-tools", "protobuf")}
files = [[record(payload) for payload in payloads] for payloads in json.loads(Path(sys.argv[2]).read_text())]
json.dump({"versions": versions, "schema": record_pb2.DESCRIPTOR.serialized_pb.hex(), "files": files}, sys.stdout)
