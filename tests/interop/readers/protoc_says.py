"""Compiles schemas with protoc.

Input: the schemas' paths; output: for each schema, protoc's messages, or an empty string if the schema compiles.
"""

import json
import subprocess
import sys
import tempfile
from pathlib import Path


def said(schema: Path) -> str:
    with tempfile.TemporaryDirectory() as made:
        command = [sys.executable, "-m", "grpc_tools.protoc", f"-I{schema.parent}", f"--python_out={made}", str(schema)]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert bool(done.returncode) == bool(done.stderr)
    return done.stderr


json.dump([said(Path(path)) for path in sys.argv[1:]], sys.stdout)
