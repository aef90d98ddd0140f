"""Compiles the example pipeline with kfp, and runs its steps as processes on this machine.

Input: a JSON file with the example's path, the paths of the modules, the text of a job, and a folder. Output: the compiled pipeline, and
the pipeline's result.
"""

import contextlib
import importlib.util
import json
import os
import sys
from pathlib import Path

import yaml
from kfp import compiler, local

wanted = json.loads(Path(sys.argv[1]).read_text())
folder = Path(wanted["folder"])
spec = importlib.util.spec_from_file_location("kfp_pipeline", wanted["example"])
assert spec is not None
assert spec.loader is not None
example = importlib.util.module_from_spec(spec)
spec.loader.exec_module(example)

compiler.Compiler().compile(example.pipeline, str(folder / "pipeline.yaml"))
compiled = yaml.safe_load((folder / "pipeline.yaml").read_text())

# The steps are processes that find our modules and libraries first. Our libraries don't include kfp, so kfp comes from this environment.
# The image in docs/pipelines.md works in the same way. kfp needs an old Kubernetes client, so the image installs kfp without its
# dependencies.
(folder / "sitecustomize.py").write_text(f"import sys; sys.path[1:1] = {wanted['paths']!r}")
os.environ["PYTHONPATH"] = str(folder)
local.init(local.SubprocessRunner(use_venv=False), pipeline_root=str(folder / "outputs"))
arguments = {"job": wanted["job"], "namespace": wanted["namespace"]}
with contextlib.redirect_stdout(sys.stderr):
    task = (example.pipeline if not wanted["namespace"] else example.make_data_set)(**arguments)
outputs = {name: value if isinstance(value, int) else {"uri": value.uri, **value.metadata} for name, value in task.outputs.items()}
print(json.dumps({"components": compiled["components"], "outputs": outputs}))  # noqa: T201 - the result
