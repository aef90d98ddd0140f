"""Fetches code from Git (`spec.code.git`): the files of one commit, without history, into a folder.

The plan step resolves the reference to a commit, and the other steps fetch this commit. Submodules are not fetched, and LFS files remain
pointers.
"""

import os
import re
import tempfile
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, Final
from urllib.parse import urlsplit, urlunsplit

from dataprep_api.spec import DataPrepJobSpec
from dataprep_api.spec.code import Git
from dataprep_converter.core.errors import BadSpec, ConvertError, NotFound, NotPermitted, Unreachable
from dataprep_converter.runtime import plugins

COMMIT_FILE: Final = ".dataprep-commit"
"""Name of the file that contains the id of the fetched commit. This file is written last."""

_SHA: Final = re.compile(r"[0-9a-f]{40}")
_TIMEOUT_SECONDS: Final = 60
_SHOWN: Final = 10

_Refs = Mapping[bytes, bytes]
_Wants = Callable[..., list[Any]]  # Any, because dulwich has its own type of object ids


def provide(spec: DataPrepJobSpec) -> None:
    """Fetches a job's code for this process and its children. Does nothing in a pod, where the code has already been fetched."""
    git = spec.code.git if spec.code is not None else None
    if git is None or os.environ.get(plugins.CODE_VARIABLE):
        return
    folder = plugins.new_folder()
    fetch(git, folder, credentials=(os.environ.get("GIT_USERNAME"), os.environ.get("GIT_PASSWORD")))
    os.environ[plugins.CODE_VARIABLE] = str(folder / git.sub_path if git.sub_path else folder)
    os.environ[plugins.COMMIT_VARIABLE] = str(folder / COMMIT_FILE)


def mounted_credentials(mounts: str) -> tuple[str | None, str | None]:
    """Returns the user and password from the Secret mounted in the pod. A token needs no user."""
    files = [Path(mounts, "git", key) for key in ("username", "password")]
    user, password = (file.read_text(encoding="utf-8").strip() if file.is_file() else None for file in files)
    return (user or "git") if password else user, password


def fetch(git: Git, into: Path, *, commit: str | None = None, credentials: tuple[str | None, str | None] = (None, None)) -> str:
    """Writes the files of a commit into a folder and returns the commit's id.

    Without `commit`, fetches the commit that `git.ref` names now. Raises NotFound if the repository, reference, commit or folder is
    missing; also raises NotPermitted and Unreachable.
    """
    try:
        from dulwich import porcelain  # noqa: F401 - checks only that it is installed
    except ImportError as exc:
        raise BadSpec("code.git needs dulwich: pip install 'dataprep-operator[git]'") from exc
    with tempfile.TemporaryDirectory(prefix="dataprep-git-") as scratch:
        try:
            commit_id = _check_out(git, into, Path(scratch), commit=commit, credentials=credentials)
        except ConvertError:
            raise
        except Exception as exc:  # dulwich raises exceptions of many types
            raise _translate(exc, git.url) from exc
    if git.sub_path is not None and not (into / git.sub_path).is_dir():
        raise NotFound(f"{without_password(git.url)} has no folder {git.sub_path} in commit {commit_id}.")
    (into / COMMIT_FILE).write_text(commit_id, encoding="ascii")
    return commit_id


def without_password(url: str) -> str:
    """Returns the URL without its user and password."""
    parts = urlsplit(url)
    return urlunsplit(parts._replace(netloc=parts.netloc.rpartition("@")[2]))


def _check_out(git: Git, into: Path, scratch: Path, *, commit: str | None, credentials: tuple[str | None, str | None]) -> str:
    from dulwich.client import get_transport_and_path
    from dulwich.config import ConfigDict
    from dulwich.errors import GitProtocolError
    from dulwich.index import build_index_from_tree
    from dulwich.objects import Commit, Tag
    from dulwich.repo import Repo

    config = ConfigDict()
    config.set((b"http",), b"timeout", str(_TIMEOUT_SECONDS).encode())
    client, path = get_transport_and_path(git.url, config=config, username=credentials[0], password=credentials[1], quiet=True)
    wanted_ids: list[Any] = []  # Any, because dulwich has its own type of object ids

    def one(refs: _Refs, depth: int | None = None) -> list[Any]:
        del depth
        wanted_ids[:] = [commit.encode() if commit is not None else _resolve(refs, git)]
        return list(wanted_ids)

    def all_references(refs: _Refs, depth: int | None = None) -> list[Any]:
        del depth
        return sorted({sha for name, sha in refs.items() if not name.endswith(b"^{}")})

    def fetch_into(folder: str, wants: _Wants, depth: int | None) -> Repo:
        (scratch / folder).mkdir()
        repository = Repo.init_bare(str(scratch / folder))
        try:
            client.fetch(path, repository, determine_wants=wants, depth=depth)
        except BaseException:
            repository.close()
            raise
        return repository

    try:
        repository = fetch_into("shallow", one, 1)
    except (GitProtocolError, KeyError):
        if not wanted_ids:
            raise
        # Some servers refuse to send a commit that no reference points to. Such a commit may be in the complete history, so fetch
        # everything.
        repository = fetch_into("whole", all_references, None)
    with repository:
        if wanted_ids[0] not in repository.object_store:
            raise NotFound(f"{without_password(git.url)} has no commit {wanted_ids[0].decode()}.")
        object_: Any = repository[wanted_ids[0]]  # Any, because it can be any kind of Git object
        while isinstance(object_, Tag):
            object_ = repository[object_.object[1]]
        if not isinstance(object_, Commit):
            raise NotFound(f"{wanted_ids[0].decode()} in {without_password(git.url)} isn't a commit.")
        into.mkdir(parents=True, exist_ok=True)
        build_index_from_tree(str(into), str(scratch / "index"), repository.object_store, object_.tree)
        return object_.id.decode()


def _resolve(refs: _Refs, git: Git) -> bytes:
    """Returns the id of the object that the reference names: HEAD, a branch, a tag, a full reference name, or a commit's 40 digits."""
    ref = git.ref.encode()
    for name in (ref, b"refs/heads/" + ref, b"refs/tags/" + ref):
        if refs.get(name):
            return refs[name]
    if _SHA.fullmatch(git.ref):
        return ref
    ref_names = sorted(name.decode(errors="replace").partition("/")[2] for name in refs if name.startswith((b"refs/heads/", b"refs/tags/")))
    listing = ", ".join(name for name in ref_names[:_SHOWN] if not name.endswith("^{}")) or "nothing"
    raise NotFound(f"{without_password(git.url)} has no branch, tag or commit (of 40 digits) {git.ref!r}; it has {listing}.")


def _translate(exc: Exception, url: str) -> ConvertError:
    from dulwich.client import HTTPUnauthorized
    from dulwich.errors import NotGitRepository

    text = f"{without_password(url)} can't be fetched: {' '.join(str(exc).split())[:300] or type(exc).__name__}"
    if isinstance(exc, HTTPUnauthorized):
        return NotPermitted(f"{without_password(url)} refuses the user. Set code.git.secretRef to a Secret with username and password.")
    if isinstance(exc, NotGitRepository):
        return NotFound(f"{without_password(url)} isn't a Git repository, or this user isn't allowed to see it.")
    return Unreachable(text)
