"""Jobs whose data set is made by a user's program: the input that the program gets, and the checks of the files that it writes."""

import json
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest
from tests.builders.jobs import run_job

from dataprep_api.dataset.messages import CommitResult
from dataprep_api.errors import SpecError
from dataprep_api.reasons import Reason
from dataprep_api.resources.job import DataPrepJob
from dataprep_converter.core.errors import BadSpec, ConvertError, InputChanged, Missing, NotWhole, OutputExists, ScriptFailed
from dataprep_converter.core.framing import frame
from dataprep_converter.inputs.access import Access
from dataprep_converter.runtime import plugins
from dataprep_converter.steps.plan_step import run_plan_step
from dataprep_converter.steps.script_commit import commit
from dataprep_converter.steps.script_job import execute
from dataprep_converter.tools.inspect import inspection
from dataprep_converter.tools.repair import repair
from dataprep_converter.tools.verification import verify

COPY = ["cp", "-r", "${DATAPREP_INPUT}/.", "${DATAPREP_OUTPUT}"]
"""A script that copies a test's files to its output."""

SAYS = "import json, os, sys; json.dump({'argv': sys.argv[1:], 'cwd': os.getcwd(), 'env': dict(os.environ)}, open(os.environ['DATAPREP_OUTPUT'] + '/said.json', 'w'))"


def records(count: int) -> bytes:
    return b"".join(frame(bytes([65 + number]) * number) for number in range(1, count + 1))


def a_job(
    folder: Path, *, outputs: Sequence[str] = ("*.tfrecords",), command: Any = None, **fields: Any
) -> DataPrepJob:  # Any, because the spec is parsed YAML
    script = {"command": COPY if command is None else command, "input": str(folder / "in"), "outputs": list(outputs)}
    script |= fields.pop("script", {})
    output = {"uri": str(folder / "out"), "overwrite": "IfChanged"} | fields.pop("output", {})
    document = {"apiVersion": "dataprep.io/v1alpha1", "kind": "DataPrepJob", "metadata": {"name": "mine"}}
    return DataPrepJob.parse(document | {"spec": {"script": script, "output": output} | fields})


def made(job: DataPrepJob) -> CommitResult:
    return run_job(job)[1]


def said(job: DataPrepJob) -> Any:  # Any: JSON
    made(job)
    return json.loads(Path(job.spec.output.uri, "said.json").read_text())


Lay = Callable[..., Path]


@pytest.fixture
def lay(tmp_path: Path) -> Lay:
    """Writes the files that the script copies."""

    def laid(files: dict[str, bytes]) -> Path:
        for name, content in files.items():
            (tmp_path / "in" / name).parent.mkdir(parents=True, exist_ok=True)
            (tmp_path / "in" / name).write_bytes(content)
        return tmp_path

    return laid


# --- what the program is given --------------------------------------------------------------------------------------------


def test_the_words_reach_the_program_as_they_are_and_no_shell_reads_them(lay: Lay) -> None:
    words = ["a b", "$HOME", "$(id)", "`id`", "x;y", "*", "", "${name}", "$$"]
    job = a_job(lay({"a": b"1"}), outputs=["said.json"], command=[sys.executable, "-c", SAYS, *words], params={"name": "it's ${x}; $(id)"})

    assert said(job)["argv"] == ["a b", "$HOME", "$(id)", "`id`", "x;y", "*", "", "it's ${x}; $(id)", "$"]


def test_a_string_is_divided_by_shell_rules_before_params_are_filled_in(lay: Lay) -> None:
    folder = lay({"a": b"1"})
    command = f"{sys.executable} -c '{SAYS.replace(chr(39), chr(34))}' --name\n${{name}} 'two words'\n"

    assert said(a_job(folder, outputs=["said.json"], command=command, params={"name": "a b"}))["argv"] == ["--name", "a b", "two words"]


def test_buckets_and_checkpoint_dir_are_the_last_arguments_when_asked_for(lay: Lay) -> None:
    asked = {"bucketsArgument": True, "checkpointDirArgument": True}
    job = a_job(lay({"a": b"1"}), outputs=["said.json"], command=[sys.executable, "-c", SAYS, "--epochs=3"], script=asked)

    assert said(job)["argv"] == [
        "--epochs=3",
        f"--buckets={job.spec.script and job.spec.script.input}",
        f"--checkpointDir={job.spec.output.uri}",
    ]


def test_input_output_and_run_id_are_in_the_environment_beside_the_jobs_own_variables(lay: Lay, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DATAPREP_MOUNTS_OF_OURS", "1")
    job = a_job(
        lay({"a": b"1"}),
        outputs=["said.json"],
        command=[sys.executable, "-c", SAYS, "${MINE}"],
        workers={"env": [{"name": "MINE", "value": "7"}]},
    )
    found = said(job)
    success = json.loads(Path(job.spec.output.uri, "_SUCCESS").read_text())

    assert found["argv"] == ["7"]
    assert found["env"]["DATAPREP_INPUT"] == str(Path(job.spec.output.uri).parent / "in")
    assert found["env"]["DATAPREP_OUTPUT"] == job.spec.output.uri
    assert found["env"]["DATAPREP_RUN_ID"] == success["runId"]
    assert "DATAPREP_MOUNTS_OF_OURS" not in found["env"]


def test_it_starts_in_the_folder_of_its_code(lay: Lay, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "code").mkdir()
    (tmp_path / "code" / "say.py").write_text(SAYS)
    monkeypatch.setenv(plugins.CODE_VARIABLE, str(tmp_path / "code"))
    job = a_job(lay({"a": b"1"}), outputs=["said.json"], command=[sys.executable, "say.py"], code={"configMapRef": {"name": "mine"}})

    assert said(job)["cwd"] == str(tmp_path / "code")


def test_relative_places_are_absolute_for_the_program(lay: Lay, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    lay({"a.tfrecords": records(1)})
    monkeypatch.chdir(tmp_path)
    job = a_job(tmp_path, script={"input": "in", "workingDirectory": "/"}, output={"uri": "out"})

    assert made(job).files == 1
    assert (tmp_path / "out" / "a.tfrecords").is_file()


def test_a_variable_of_the_cluster_that_is_not_here_is_named(lay: Lay) -> None:
    env = [{"name": "TOKEN", "valueFrom": {"secretKeyRef": {"name": "a", "key": "b"}}}]
    job = a_job(lay({"a": b"1"}), command=["cp", "${TOKEN}"], workers={"env": env})

    with pytest.raises(BadSpec, match=r"^script\.command: the variable TOKEN of workers\.env gets its value from the cluster; for this"):
        made(job)


@pytest.mark.parametrize(
    ("command", "error", "text"),
    [
        pytest.param(["false"], ScriptFailed, r"^The script ended with exit code 1; its output is above\.$", id="an exit code"),
        pytest.param(["sh", "-c", "kill -9 $$$$"], ScriptFailed, r"^The script was killed by signal 9;", id="a signal"),
        pytest.param(
            ["no-such-program"],
            BadSpec,
            r"^script\.command can't be started: No such file or directory: no-such-program\.$",
            id="no program",
        ),
    ],
)
def test_a_program_that_fails_is_told(lay: Lay, command: list[str], error: type[ConvertError], text: str) -> None:
    folder = lay({"a": b"1"})

    with pytest.raises(error, match=text):
        made(a_job(folder, command=command))
    assert not (folder / "out" / "_SUCCESS").exists()


# --- what it leaves -------------------------------------------------------------------------------------------------------


def test_its_files_become_a_data_set_that_verifies_and_can_be_shown(lay: Lay, capsys: pytest.CaptureFixture[str]) -> None:
    folder = lay({"train-0.tfrecords": records(3), "train-1.tfrecords": records(2), "sub/labels.txt": b"cat\n"})
    result = made(a_job(folder, outputs=["train-*.tfrecords", "**/labels.txt"]))

    assert (result.files, result.records.out, result.records.in_, result.splits[0].records) == (3, 5, 5, 5)
    manifest = verify(str(folder / "out"), Access(), every_record=True)
    assert [(file.file, file.records) for file in manifest.files] == [
        ("sub/labels.txt", 0),
        ("train-0.tfrecords", 3),
        ("train-1.tfrecords", 2),
    ]
    inspection.show(str(folder / "out"), Access(), records=0, as_json=False, stream=sys.stdout)
    assert "5 records" in capsys.readouterr().out


@pytest.mark.parametrize("command", [["true"], "true"], ids=["list", "text"])
def test_a_command_that_ends_well_and_makes_nothing_is_no_success(lay: Lay, command: Any) -> None:  # Any: list or str
    folder = lay({"a": b"1"})

    with pytest.raises(
        Missing, match=r"its outputs in .*/out are not complete: train-\*\.tfrecords is missing, test\.tfrecords is missing\.$"
    ) as told:
        made(a_job(folder, outputs=["train-*.tfrecords", "test.tfrecords"], command=command))
    assert told.value.reason is Reason.OUTPUT_MISSING
    assert not (folder / "out" / "_SUCCESS").exists()


GOOD = records(3)
BROKEN: dict[str, tuple[str, bytes, str]] = {
    "empty": ("a.tfrecords", b"", r"a\.tfrecords is empty"),
    "a bad CRC": ("a.tfrecords", GOOD[:-1] + bytes([GOOD[-1] ^ 1]), r"a\.tfrecords: .* at offset 35"),
    "cut off": ("a.tfrecord", GOOD[:-1], r"a\.tfrecord: .* at offset 35"),
    "no extension": ("a-00000-of-00001", b"hello world, this is text", r"a-00000-of-00001: .* at offset 0"),
    "an empty other file": ("labels.txt", b"", r"labels\.txt is empty"),
}


@pytest.mark.parametrize(("name", "content", "told"), BROKEN.values(), ids=BROKEN.keys())
def test_an_output_that_is_not_whole_is_told_with_all_others(lay: Lay, name: str, content: bytes, told: str) -> None:
    folder = lay({name: content, "good.tfrecords": GOOD})

    with pytest.raises(Missing, match=rf"/out are not complete: more\.txt is missing, {told}\.$"):
        made(a_job(folder, outputs=["*", "more.txt"]))


def test_files_that_are_not_records_by_their_name_need_only_hold_data(lay: Lay) -> None:
    folder = lay({"output.jpg": b"\xff\xd8", "model.ckpt-1.index": b"x"})
    result = made(a_job(folder, outputs=["output.jpg", "model.ckpt-*"]))

    assert (result.files, result.records.out, result.bytes_out) == (2, 0, 3)
    verify(str(folder / "out"), Access())


def test_recordio_files_are_read_too(lay: Lay) -> None:
    folder = lay({"a.rec": bytes.fromhex("0a23d7ce 03000000 61626300"), "b.rec": b"\0\0\0\0"})

    with pytest.raises(Missing, match=r"outputs in .*/out are not complete: b\.rec: .* at offset 0\.$"):
        made(a_job(folder, outputs=["*.rec"], output={"format": "recordioProtobuf"}))


def test_what_no_output_names_is_told(lay: Lay) -> None:
    folder = lay({"a.tfrecords": GOOD, "notes.txt": b"1", "_temporary": b"2"})

    with pytest.raises(NotWhole, match=r"/out holds files that script\.outputs doesn't match: notes\.txt\. Add them to script\.outputs"):
        made(a_job(folder))


def test_a_changed_file_is_found_later(lay: Lay) -> None:
    folder = lay({"a.tfrecords": GOOD, "labels.txt": b"cat"})
    made(a_job(folder, outputs=["*"]))
    (folder / "out" / "labels.txt").write_bytes(b"dog")

    with pytest.raises(NotWhole, match=r"labels\.txt has SHA-256 .* instead of"):
        verify(str(folder / "out"), Access())
    with pytest.raises(BadSpec, match=r"was made by a script; run the job again with output\.overwrite: Always\.$"):
        repair(str(folder / "out"), Access())


# --- run again ------------------------------------------------------------------------------------------------------------


def test_the_same_job_is_not_run_twice(lay: Lay) -> None:
    folder = lay({"a.tfrecords": GOOD})
    first = made(a_job(folder))
    planned, second = run_job(a_job(folder))

    assert planned.reused
    assert second.manifest_sha256 == first.manifest_sha256


CHANGES: dict[str, dict[str, Any]] = {
    "the command": {"command": ["cp", "-rp", "${DATAPREP_INPUT}/.", "${DATAPREP_OUTPUT}"]},
    "a variable": {"workers": {"env": [{"name": "A", "value": "1"}]}},
    "the image": {"workers": {"image": "other"}},
    "Always": {"output": {"overwrite": "Always"}},
}


@pytest.mark.parametrize("changes", CHANGES.values(), ids=CHANGES.keys())
def test_another_job_is(lay: Lay, changes: dict[str, Any]) -> None:
    folder = lay({"a.tfrecords": GOOD})
    made(a_job(folder))

    assert not run_job(a_job(folder, **changes))[0].reused


def test_another_input_is_another_run(lay: Lay) -> None:
    folder = lay({"a.tfrecords": GOOD})
    first = made(a_job(folder))
    second = made(a_job(lay({"a.tfrecords": records(4)})))

    assert first.run_id != second.run_id
    assert second.records.out == 4


def test_what_an_earlier_run_left_does_not_pass_for_what_this_one_makes(lay: Lay) -> None:
    folder = lay({"a.tfrecords": GOOD})
    made(a_job(folder))

    with pytest.raises(Missing, match=r"\*\.tfrecords is missing"):
        made(a_job(folder, command=["true"]))
    assert not (folder / "out" / "a.tfrecords").exists()


def test_files_of_nobody_are_not_overwritten(lay: Lay) -> None:
    folder = lay({"a.tfrecords": GOOD})
    (folder / "out").mkdir()
    (folder / "out" / "b.tfrecords").write_bytes(b"mine")

    with pytest.raises(OutputExists, match=r"contains b\.tfrecords, which no dataprep run planned there"):
        made(a_job(folder))
    assert (folder / "out" / "b.tfrecords").read_bytes() == b"mine"


def test_never_keeps_a_finished_data_set(lay: Lay) -> None:
    folder = lay({"a.tfrecords": GOOD})
    made(a_job(folder))

    with pytest.raises(OutputExists, match=r"holds the finished data set of run [0-9a-f]{16}; overwrite is Never"):
        made(a_job(folder, output={"overwrite": "Never"}))


def test_a_missing_input_is_named_before_anything_runs(tmp_path: Path) -> None:
    with pytest.raises(ConvertError, match=r"The source .*/in doesn't exist") as told:
        made(a_job(tmp_path))
    assert told.value.reason is Reason.INPUT_NOT_FOUND


def test_an_input_that_changes_meanwhile_is_told(lay: Lay) -> None:
    folder = lay({"a.tfrecords": GOOD})
    job = a_job(folder)
    prepared = run_plan_step(job, Access())
    execute(job.spec, plan=prepared.plan)
    lay({"b.tfrecords": GOOD})

    with pytest.raises(InputChanged, match=r"/in or the code has changed since the job was planned"):
        commit(job.spec, plan=prepared.plan, access=Access())


# --- the spec ---------------------------------------------------------------------------------------------------------------


def test_the_seeds_command_has_ten_words() -> None:
    command = (
        "python neural_style.py --iterations 50000 --content\n"
        "/neural-style/1-content.jpg --styles /neural-style/1-style.jpg\n"
        "--output /neural-style/output.jpg"
    )
    script = a_job(Path("/x"), command=command).spec.script

    assert script is not None
    assert len(script.words()) == 10
    assert (script.words()[0], script.words()[-1]) == ("python", "/neural-style/output.jpg")


@pytest.mark.parametrize(
    ("fields", "text"),
    [
        pytest.param(
            {"command": ["a", "${x}"]},
            r"spec\.script\.command\[1\]: \$\{x\} is neither in spec\.params nor in spec\.workers\.env",
            id="${}",
        ),
        pytest.param({"command": "a 'b"}, r"command can't be split into words: No closing quotation", id="quote"),
        pytest.param({"command": []}, r"command must have at least one word", id="no word"),
        pytest.param({"outputs": ["../a"]}, r"outputs must be paths below output\.uri", id=".."),
        pytest.param({"outputs": []}, r"spec\.script\.outputs", id="no outputs"),
        pytest.param({"script": {"image": "a", "framework": "b"}}, r"set only one of image and framework", id="two images"),
        pytest.param({"script": {"workingDirectory": "a"}}, r"workingDirectory must be an absolute path, got 'a'", id="folder"),
        pytest.param(
            {"command": ["true"], "script": {"input": None, "bucketsArgument": True}}, r"bucketsArgument needs input", id="no buckets"
        ),
        pytest.param({"shuffle": {"seed": 1}}, r"shuffle can be set only in a job with a source", id="shuffle"),
        pytest.param({"nulls": "Keep"}, r"nulls can be set only in a job with a source", id="nulls"),
        pytest.param({"source": {"csv": {"uris": ["/a"]}}}, r"set exactly one of source and script", id="source too"),
    ],
)
def test_what_can_not_be_is_refused(fields: dict[str, Any], text: str) -> None:
    with pytest.raises(SpecError, match=text):
        a_job(Path("/x"), **fields)
