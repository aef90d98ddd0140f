"""`spec.script`: a user's program makes the data set. This module plans such a job and runs its program on this machine.

In a cluster, the operator runs the program in the user's image. `script_commit.py` checks the files that the program made.
"""

import hashlib
import os
import subprocess
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final, NoReturn

from dataprep_api import canonical
from dataprep_api.dataset import run_id
from dataprep_api.dataset.plan import PlanHead
from dataprep_api.resources.params import expanded
from dataprep_api.spec import DataPrepJobSpec
from dataprep_api.spec.script import Script
from dataprep_converter.core.errors import BadSpec, ScriptFailed
from dataprep_converter.dataset import overlaps
from dataprep_converter.dataset.output_folder import RunFolder
from dataprep_converter.dataset.script_files import READER
from dataprep_converter.inputs.access import Access
from dataprep_converter.runtime import plugins
from dataprep_converter.sampling.plan import Plan, Tables
from dataprep_converter.sampling.units import UnitTable
from dataprep_converter.sampling.units_file import UnitsFile
from dataprep_converter.steps.draft import Draft
from dataprep_converter.stores import scheme_of

_STANDARD_ERROR: Final = 2


def script_of(spec: DataPrepJobSpec) -> Script:
    """Returns the job's script. Raises BadSpec if the job has no script."""
    if spec.script is None:
        raise BadSpec("The job has no script.")
    return spec.script


@dataclass(frozen=True, kw_only=True)
class ScriptDraft(Draft):
    """The draft of a data set that a program will make."""

    tables: Tables

    def close(self) -> None:
        """Removes temporary files."""
        self.tables.close()

    def store(self, folder: RunFolder) -> Plan:
        """First removes files of earlier runs, because they could be mistaken for the program's files. Then stores the plan."""
        folder.remove(sorted(folder.known_files(path for path, _ in folder.visible())))
        return super().store(folder)

    def put_plan(self, folder: RunFolder) -> None:
        """Writes the plan's files. The head is written last."""
        folder.put_plan(self.plan, self.tables)


def check_overlaps(spec: DataPrepJobSpec, access: Access) -> None:
    """Raises BadSpec when the script would write to the Hub, or to a place that it reads from."""
    overlaps.check(source_uris(spec), spec.output.uri, access)
    if scheme_of(spec.output.uri) == "hf":
        raise BadSpec(
            f"{spec.output.uri}: a script can't write to the Hub, where each file would become visible as soon as it is written. Name a "
            "folder of another store, and copy the finished data set with dataprep copy.",
            uri=spec.output.uri,
        )


def source_uris(spec: DataPrepJobSpec) -> list[str]:
    """Returns the script's input, if it has one. The input must exist before the script starts."""
    input_uri = script_of(spec).input
    return [input_uri] if input_uri is not None else []


def plan(spec: DataPrepJobSpec, access: Access) -> ScriptDraft:
    """Returns a plan with one task and no shards, because only the program knows which files it will make."""
    script = script_of(spec)
    code_sha256 = plugins.digest() if spec.code is not None else None
    inputs = inputs_sha256(spec, access)
    units = UnitsFile.of(UnitTable.of([]))
    head = PlanHead(
        run_id=run_id.run_id(spec, inputs_sha256=inputs),
        encoding_version=run_id.ENCODING_VERSION,
        parts=run_id.versions(spec),
        spec_sha256=canonical.sha256(run_id.content(spec)),
        inputs_sha256=inputs,
        units_sha256=units.sha256,
        reader=READER,
        reader_state={"outputs": list(script.outputs)},
        samples=0,
        bytes_in=0,
        code_sha256=code_sha256,
        splits=[],
        extension="",
        tasks=1,
    )
    new = Plan(head=head, sha256=hashlib.sha256(head.to_bytes()).hexdigest(), units=UnitTable.of([]))
    return ScriptDraft(spec=spec, access=access, plan=new, tables=Tables(units=units))


def inputs_sha256(spec: DataPrepJobSpec, access: Access) -> str:
    """Returns a digest of everything that the program gets in addition to its arguments: the code, the input files and the variables.

    If the script doesn't name an image, the digest also covers the workers' image.
    """
    script = script_of(spec)
    content = {
        "code": plugins.digest() if spec.code is not None else None,
        "env": [each.model_dump(mode="json", by_alias=True, exclude_none=True) for each in spec.workers.env or []],
        "image": spec.workers.image if script.image is None and script.framework is None else None,
    }
    digest = hashlib.sha256(canonical.dumps(content))
    if script.input is not None:
        store = access.store(script.input)
        entry = store.stat(script.input)
        for file in [entry] if entry is not None else sorted(store.list(script.input), key=lambda each: each.uri):
            path = file.uri.removeprefix(script.input)
            digest.update(canonical.dumps([path, file.size, file.pin]))
    return digest.hexdigest()


def work(*_: object, **__: object) -> NoReturn:
    """Raises BadSpec, because the task's pod runs the user's program instead of a work step."""
    raise BadSpec("A job with a script has no work step: its program runs instead.")


def execute(spec: DataPrepJobSpec, *, plan: Plan) -> None:
    """Runs the program on this machine with the same arguments, folder and variables as in a pod. The program's output goes to standard
    error.

    Raises BadSpec when the program can't be started, and ScriptFailed when its exit code isn't 0.
    """
    script = script_of(spec)
    code = os.environ.get(plugins.CODE_VARIABLE) if spec.code is not None else None
    own_variables = {
        "DATAPREP_INPUT": _absolute(script.input) if script.input is not None else "",
        "DATAPREP_OUTPUT": _absolute(spec.output.uri),
        "DATAPREP_RUN_ID": plan.head.run_id,
        plugins.CODE_VARIABLE: code or "",
    }
    spec_variables = {each.name: each.value or "" for each in spec.workers.env or [] if each.value_from is None}
    inherited = {name: value for name, value in os.environ.items() if not name.startswith("DATAPREP_")}
    environment = inherited | spec_variables | {name: value for name, value in own_variables.items() if value}
    words = _words(script.model_copy(update={"input": own_variables["DATAPREP_INPUT"]}), own_variables["DATAPREP_OUTPUT"], environment)
    folder = script.working_directory or code
    try:
        completed = subprocess.run(words, cwd=folder, env=environment, stdin=subprocess.DEVNULL, stdout=_STANDARD_ERROR, check=False)  # noqa: S603 - it is the user's command
    except OSError as exc:
        raise BadSpec(f"script.command can't be started: {exc.strerror}: {exc.filename}.") from exc
    if completed.returncode:
        how = (
            f"was killed by signal {-completed.returncode}" if completed.returncode < 0 else f"ended with exit code {completed.returncode}"
        )
        raise ScriptFailed(f"The script {how}; its output is above.")


def _words(script: Script, output_uri: str, environment: Mapping[str, str]) -> list[str]:
    try:
        return [expanded(word, environment) for word in script.arguments(output_uri)]
    except KeyError as exc:
        raise BadSpec(
            f"script.command: the variable {exc.args[0]} of workers.env gets its value from the cluster; for this command, set it in the environment."
        ) from None


def _absolute(uri: str) -> str:
    """Makes a path absolute, because the program may start in another folder. Returns a URI unchanged."""
    return uri if "://" in uri else str(Path(uri).absolute())
