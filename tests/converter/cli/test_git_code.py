"""Code from Git: which commit and files are fetched, and the errors if they are missing."""

import base64
import os
import sys
import threading
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any
from wsgiref.simple_server import WSGIRequestHandler, make_server

import pytest
from dulwich import porcelain
from dulwich.repo import Repo
from dulwich.server import BackendRepo, DictBackend
from dulwich.web import HTTPGitApplication
from tests.builders.specs import parse_job
from tests.converter.cli.commandline import EXAMPLES, code_of, settings

from dataprep_api.resources.job import DataPrepJob
from dataprep_api.spec.code import Git
from dataprep_converter.cli import commands, git_code
from dataprep_converter.core.errors import ConvertError, NotFound, NotPermitted, Unreachable
from dataprep_converter.core.framing import frame
from dataprep_converter.inputs.access import Access
from dataprep_converter.runtime import plugins
from dataprep_converter.steps import script_job
from dataprep_converter.steps.plan_step import run_plan_step
from dataprep_converter.steps.script_job import execute
from dataprep_converter.tools.verification import verify

ALLOWED = "Basic " + base64.b64encode(b"git:token").decode()
AUTHOR = b"A <a@example.com>"


class Commits:
    """A bare repository with three commits: v1 (an annotated tag), a commit without a reference, and the branch master."""

    def __init__(self, folder: Path) -> None:
        work = folder / "work"
        porcelain.init(str(work)).close()
        self.first = self._commit(
            work, {"make.py": "first", "tools/run.sh": "#!/bin/sh\ntouch $DATAPREP_OUTPUT/made.txt; echo 1 > $DATAPREP_OUTPUT/made.txt\n"}
        )
        porcelain.tag_create(str(work), b"v1", author=AUTHOR, message=b"one", annotated=True)
        self.between = self._commit(work, {"make.py": "between"})
        self.last = self._commit(work, {"make.py": "last"})
        self.bare = folder / "code.git"
        porcelain.clone(str(work), str(self.bare), bare=True, errstream=porcelain.NoneStream()).close()
        self.url = f"file://{self.bare}"

    def _commit(self, work: Path, files: dict[str, str]) -> str:
        for name, text in files.items():
            (work / name).parent.mkdir(exist_ok=True)
            (work / name).write_text(text)
            (work / name).chmod(0o755 if name.endswith(".sh") else 0o644)
        porcelain.add(str(work), [str(work / name) for name in files])
        return porcelain.commit(str(work), message=b"m", author=AUTHOR, committer=AUTHOR).decode()


@pytest.fixture(scope="module")
def commits(tmp_path_factory: pytest.TempPathFactory) -> Commits:
    return Commits(tmp_path_factory.mktemp("git"))


class _Silent(WSGIRequestHandler):
    def log_message(self, format: str, *args: object) -> None:  # noqa: A002 - the name is given by the base class
        pass


@pytest.fixture(scope="module")
def http(commits: Commits) -> Iterator[str]:
    """The same repository, served over HTTP on this machine."""
    with Repo(str(commits.bare)) as repository:
        served: dict[bytes, BackendRepo] = {b"/code.git": repository, b"/private.git": repository}
        git = HTTPGitApplication(DictBackend(served))

        def answer(environ: dict[str, Any], start_response: Any) -> Iterable[bytes]:  # Any: WSGI's type
            if environ["PATH_INFO"].startswith("/private") and environ.get("HTTP_AUTHORIZATION") != ALLOWED:
                start_response("401 Unauthorized", [("WWW-Authenticate", 'Basic realm="git"')])
                return [b""]
            answered: Iterable[bytes] = git(environ, start_response)
            return answered

        server = make_server("127.0.0.1", 0, answer, handler_class=_Silent)
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        yield f"http://127.0.0.1:{server.server_port}/code.git"
        server.shutdown()
        thread.join()
        server.server_close()


def test_the_branch_of_head_is_the_default(commits: Commits, tmp_path: Path) -> None:
    assert git_code.fetch(Git(url=commits.url), tmp_path) == commits.last
    assert (tmp_path / "make.py").read_text() == "last"
    assert (tmp_path / "tools" / "run.sh").stat().st_mode & 0o111
    assert not (tmp_path / ".git").exists()


def test_a_branch_a_tag_and_a_commit(commits: Commits, tmp_path: Path) -> None:
    found = {
        ref: git_code.fetch(Git(url=commits.url, ref=ref), tmp_path / str(n))
        for n, ref in enumerate(("master", "v1", "refs/tags/v1", commits.between))
    }

    assert list(found.values()) == [commits.last, commits.first, commits.first, commits.between]
    assert (tmp_path / "3" / "make.py").read_text() == "between"


def test_by_http_too(http: str, commits: Commits, tmp_path: Path) -> None:
    assert git_code.fetch(Git(url=http), tmp_path / "head") == commits.last
    assert git_code.fetch(Git(url=http, ref="v1"), tmp_path / "tag") == commits.first
    assert git_code.fetch(Git(url=http, ref="master"), tmp_path / "pinned", commit=commits.between) == commits.between
    assert (tmp_path / "pinned" / "make.py").read_text() == "between"


def test_a_private_repository_needs_the_secret(http: str, commits: Commits, tmp_path: Path) -> None:
    private = Git(url=http.replace("/code.git", "/private.git"))

    with pytest.raises(
        NotPermitted, match=r"/private\.git refuses the user\. Set code\.git\.secretRef to a Secret with username and password\.$"
    ):
        git_code.fetch(private, tmp_path)
    with pytest.raises(NotPermitted, match=r"refuses the user"):
        git_code.fetch(private, tmp_path, credentials=("git", "wrong"))
    assert git_code.fetch(private, tmp_path, credentials=("git", "token")) == commits.last


@pytest.mark.parametrize(
    ("changes", "error", "text"),
    [
        pytest.param(
            {"ref": "nothing"},
            NotFound,
            r"code\.git has no branch, tag or commit \(of 40 digits\) 'nothing'; it has .*master.*v1\.$",
            id="ref",
        ),
        pytest.param({"ref": "ab" * 20}, NotFound, rf"code\.git has no commit {'ab' * 20}\.$", id="commit"),
        pytest.param({"sub_path": "other"}, NotFound, r"code\.git has no folder other in commit [0-9a-f]{40}\.$", id="folder"),
        pytest.param({"url": "file:///no/such/place"}, NotFound, r"^file:///no/such/place isn't a Git repository", id="repository"),
        pytest.param({"url": "http://127.0.0.1:9/x"}, Unreachable, r"^http://127\.0\.0\.1:9/x can't be fetched: ", id="server"),
    ],
)
def test_what_is_not_there_is_named(
    commits: Commits, tmp_path: Path, changes: dict[str, str], error: type[ConvertError], text: str
) -> None:
    with pytest.raises(error, match=text) as told:
        git_code.fetch(Git(**{"url": commits.url} | changes), tmp_path)
    assert "secret" not in str(told.value)


def test_a_secret_of_a_pod_is_read(tmp_path: Path) -> None:
    assert git_code.mounted_credentials(str(tmp_path)) == (None, None)
    (tmp_path / "git").mkdir()
    (tmp_path / "git" / "password").write_text("token\n")
    assert git_code.mounted_credentials(str(tmp_path)) == ("git", "token")


def test_the_commit_is_part_of_the_run_and_of_what_the_plan_tells(
    commits: Commits, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(plugins.CODE_VARIABLE, "")
    monkeypatch.setenv(plugins.COMMIT_VARIABLE, "")

    def a_job(**git: str) -> DataPrepJob:
        script = {"command": ["./run.sh"], "outputs": ["made.txt"]}
        spec = {"code": {"git": {"url": commits.url, "subPath": "tools"} | git}, "script": script, "output": {"uri": str(tmp_path / "out")}}
        job = parse_job(spec, name="a")
        monkeypatch.setenv(plugins.CODE_VARIABLE, "")
        git_code.provide(job.spec)
        return job

    job = a_job()
    prepared = run_plan_step(job, Access())
    assert prepared.result.code_commit == commits.last
    execute(job.spec, plan=prepared.plan)
    assert (tmp_path / "out" / "made.txt").read_text() == "1\n"

    def run_id(job: DataPrepJob) -> str:
        with script_job.plan(job.spec, Access()) as draft:
            return draft.plan.head.run_id

    assert run_id(a_job(ref="v1")) != prepared.plan.head.run_id
    assert run_id(a_job()) == prepared.plan.head.run_id


def test_the_command_writes_the_commit_beside_the_files(commits: Commits, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    job = tmp_path / "job.yaml"
    job.write_text(
        "{apiVersion: dataprep.io/v1alpha1, kind: DataPrepJob, metadata: {name: a}, spec: {script: {command: 'true', outputs: [a]}, "
        f"output: {{uri: out}}, code: {{git: {{url: '{commits.url}'}}}}}}}}"
    )

    with pytest.raises(SystemExit) as ended:
        commands.main(["fetch-code", "--job", str(job), "--into", str(tmp_path / "code"), "--commit", commits.between])

    assert ended.value.code == 0
    assert capsys.readouterr().out == f"{commits.between}\n"
    assert (tmp_path / "code" / ".dataprep-commit").read_text() == commits.between


def test_the_example_of_a_script_from_git_runs_on_a_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    script = (
        "import argparse, pathlib\n"
        "parser = argparse.ArgumentParser()\n"
        "parser.add_argument('--directory'), parser.add_argument('--validation_size', type=int), parser.add_argument('--buckets')\n"
        "given = parser.parse_args()\n"
        "lines = pathlib.Path(given.buckets, 'lines.txt').read_bytes().split()\n"
        "for name, part in (('train', lines[given.validation_size:]), ('validation', lines[:given.validation_size]), ('test', lines)):\n"
        "    pathlib.Path(given.directory, f'{name}.tfrecords').write_bytes(b''.join(bytes.fromhex(line.decode()) for line in part))\n"
    )
    work = tmp_path / "work"
    porcelain.init(str(work)).close()
    (work / "convert_to_records.py").write_text(script)
    porcelain.add(str(work), [str(work / "convert_to_records.py")])
    porcelain.commit(str(work), message=b"m", author=AUTHOR, committer=AUTHOR)
    (tmp_path / "in").mkdir()
    (tmp_path / "in" / "lines.txt").write_text("".join(frame(bytes([n])).hex() + "\n" for n in range(7)))
    # The folder has a link to the interpreter, because the example calls `python`.
    monkeypatch.setenv("PATH", str(Path(sys.executable).parent), prepend=os.pathsep)
    monkeypatch.setenv("VALIDATION_SIZE", "2")
    monkeypatch.setenv(plugins.COMMIT_VARIABLE, "")
    monkeypatch.setenv(plugins.CODE_VARIABLE, "")

    fields = {"params.input": tmp_path / "in", "params.output": tmp_path / "out", "code.git.url": f"file://{work}"}
    assert code_of("run", EXAMPLES / "script-hdfs.yaml", *settings(fields)) == 0
    manifest = verify(str(tmp_path / "out"), Access())
    assert {file.file: file.records for file in manifest.files} == {"test.tfrecords": 7, "train.tfrecords": 5, "validation.tfrecords": 2}
