"""The repository of an output folder on the Hugging Face Hub: queries its branches and commits, and makes commits."""

import hashlib
import json
import logging
import re
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from importlib import import_module
from typing import Any, Final

from dataprep_converter.core.errors import NotFound, Unreachable
from dataprep_converter.runtime.retry import RetryPolicy, add_wait, retrying

logger = logging.getLogger(__name__)

# Any, because the client is imported only when it is needed.
Api = Any
Operation = Any
File = Any

BASE: Final = ".dataprep-base.json"
"""A file at the top of a working branch. The file names the commit at which the branch began."""
_MOST_PATHS: Final = 500
_MOVED: Final = (409, 412)
_TOO_MANY: Final = 429
_PAUSE_SECONDS: Final = 60.0
_LEAST_PAUSE_SECONDS: Final = 1.0
_MOST_PAUSES_SECONDS: Final = 4000.0
"""A commit that has waited this long fails. The limit is more than an hour, because the Hub limits the number of commits per hour."""


@dataclass(frozen=True)
class HubFolder:
    """An output folder in a repository."""

    uri: str
    repository: str
    kind: str
    """The type of the repository, such as `dataset`."""
    revision: str
    """The branch on which the finished data set is published."""
    path: str
    """The path in the repository. Empty for the complete repository."""

    @property
    def working_branch(self) -> str:
        """Returns the name of the working branch, which is the same for every job with this output."""
        place = f"{self.revision}/{self.path}".rstrip("/")
        readable = re.sub(r"[^A-Za-z0-9]+", "-", place).strip("-")[:40]
        return f"dataprep/{readable}-{hashlib.sha256(place.encode()).hexdigest()[:8]}"

    def path_of(self, uri: str) -> str:
        """Returns the path, in the repository, of a file below the folder."""
        return f"{self.path}/{uri[len(self.uri) :].lstrip('/')}".strip("/")


class MovedError(Unreachable):
    """The commit was refused, because the branch has moved."""


_RACES: Final = RetryPolicy(attempts=60, total_seconds=300, longest_delay_seconds=4, errors=(MovedError,))


class HubRepository:
    """The repository of one output folder, for one process. `border` translates the library's errors."""

    def __init__(self, api: Api, folder: HubFolder, border: Callable[[str], AbstractContextManager[None]]) -> None:
        self.folder = folder
        self._api = api
        self._where: dict[str, str] = {"repo_id": folder.repository, "repo_type": folder.kind}
        self._border = border

    def heads(self) -> dict[str, str]:
        """Maps each branch of the repository to its newest commit. The Hub's response may be out of date."""
        return {ref.name: ref.target_commit for ref in self._api.list_repo_refs(**self._where).branches}

    def target(self, heads: Mapping[str, str]) -> str:
        """Returns the newest commit of the output's branch. Raises NotFound if there is no such branch."""
        revision = self.folder.revision
        if revision not in heads:
            raise NotFound(
                f"{self.folder.uri}: {self.folder.kind}s/{self.folder.repository} has no branch {revision}, and an output must be on a branch. "
                f"Create it: hf repos branch create {self.folder.repository} {revision} --type {self.folder.kind}",
                uri=self.folder.uri,
            )
        return heads[revision]

    def files(self, paths: Sequence[str], commit: str) -> dict[str, File]:
        """Returns the attributes of the files among these paths, by path."""
        files: dict[str, File] = {}
        for start in range(0, len(paths), _MOST_PATHS):
            found = self._api.get_paths_info(paths=paths[start : start + _MOST_PATHS], revision=commit, **self._where)
            files |= {file.path: file for file in found if hasattr(file, "blob_id")}
        return files

    def tree(self, commit: str) -> dict[str, str]:
        """Maps the path of each file in the folder to the id of the file's content."""
        errors = import_module("huggingface_hub.errors")
        try:
            tree = self._api.list_repo_tree(path_in_repo=self.folder.path or None, recursive=True, revision=commit, **self._where)
            return {file.path: file.blob_id for file in tree if hasattr(file, "blob_id") and file.path != BASE}
        except errors.EntryNotFoundError:
            return {}

    def document(self, path: str, commit: str) -> dict[str, Any] | None:
        """Reads a JSON object from a file at a commit. Returns None if the file contains anything else."""
        url = import_module("huggingface_hub").hf_hub_url(filename=path, revision=commit, endpoint=self._api.endpoint, **self._where)
        utils = import_module("huggingface_hub.utils")
        answer = utils.http_backoff("GET", url, headers=self._api._build_hf_headers())  # noqa: SLF001 - the library has no public method
        utils.hf_raise_for_status(answer)
        try:
            document = json.loads(answer.content)
        except ValueError:
            return None
        return document if isinstance(document, dict) else None

    def create_branch(self, name: str, commit: str) -> None:
        """Creates a branch that begins at a commit. Does nothing if the branch exists."""
        self._api.create_branch(branch=name, revision=commit, exist_ok=True, **self._where)

    def delete_branch(self, name: str) -> bool:
        """Deletes a branch. Returns whether the branch existed."""
        errors = import_module("huggingface_hub.errors")
        try:
            self._api.delete_branch(branch=name, **self._where)
        except errors.RevisionNotFoundError:
            return False
        return True

    def send_content(self, operation: Operation, branch: str) -> bool:
        """Sends a large file's content, which has no name on the Hub until it is committed. Returns False if the branch doesn't exist."""
        errors = import_module("huggingface_hub.errors")
        try:
            self._api.preupload_lfs_files(additions=[operation], revision=branch, free_memory=False, **self._where)
        except errors.RevisionNotFoundError:
            return False
        return True

    def retry(self, call: Callable[[], None], what: str) -> None:
        """Calls `call`, and retries if the Hub can't be reached. If other commits move the branch in the meantime, allows more retries."""

        def attempt() -> None:
            with self._border(self.folder.uri):
                call()

        retrying(lambda: retrying(attempt, what=what, policy=_RACES), what=what)

    def commit(self, operations: Sequence[Operation], revision: str, parent: str, message: str) -> str:
        """Makes a commit on top of `parent` and returns its id. Raises Unreachable if `parent` is no longer the branch's newest commit."""
        errors = import_module("huggingface_hub.errors")
        waited = 0.0
        while True:
            try:
                made = self._api.create_commit(
                    operations=operations, revision=revision, parent_commit=parent, commit_message=message, **self._where
                )
            except errors.HfHubHTTPError as exc:
                status = exc.response.status_code
                if status in _MOVED:
                    raise MovedError(
                        f"{self.folder.uri}: another commit was made to {revision} in the meantime.", uri=self.folder.uri
                    ) from exc
                if status != _TOO_MANY or waited >= _MOST_PAUSES_SECONDS:
                    raise
                pause = pause_for(exc.response.headers.get("Retry-After"))
                logger.warning("%s: the Hub accepts no more commits for now, trying again in %.0f s: %s", self.folder.uri, pause, exc)
                time.sleep(pause)
                add_wait(pause)
                waited += pause
            else:
                return str(made.oid)


def pause_for(retry_after: str | None) -> float:
    """Returns the number of seconds to wait before sending a commit again, given the Retry-After header.

    The result is kept within limits, because a server may ask for 0 seconds or for days.
    """
    if retry_after is None or not retry_after.isdecimal():
        return _PAUSE_SECONDS
    return min(max(float(retry_after), _LEAST_PAUSE_SECONDS), _MOST_PAUSES_SECONDS)
