"""Reads repositories on the Hugging Face Hub (`hf://`), and writes data sets to them. Files are read through the fsspec file system of the
library, huggingface_hub.

A branch can move while a job runs. So the plan step looks up the commit of each revision once, and every process of the job reads this
commit (`StoreSettings.commits`). A file's pin contains the id of its content. So even if a process without a plan finds a later commit, the
pins of unchanged files stay the same.

A job's output is written to a working branch and published in one commit (`hub_branch.py`, which sends its requests through
`hub_repository.py`). The job's processes see the output folder on the working branch; everybody else sees the branch that the address
names.
"""

# fsspec's methods that return a URI's options and path begin with an underscore, because file systems are meant to override them.
# The public methods for outputs are documented on the classes `Store` and `WritesAside`, in `__init__.py`.
# ruff: noqa: D102, SLF001

import re
from collections.abc import Callable, Sequence
from importlib import import_module
from threading import Lock
from typing import Any, Final

from dataprep_api.spec import HdfsOptions
from dataprep_converter.core.errors import BadCredentials, BadSpec, ConvertError, NotFound, NotPermitted, StoreError
from dataprep_converter.runtime.retry import retrying
from dataprep_converter.stores import Entry, StoreSettings
from dataprep_converter.stores.fsspec_store import FsspecStore, System, translated
from dataprep_converter.stores.hub_branch import Change, WorkingBranch
from dataprep_converter.stores.hub_repository import HubFolder, HubRepository
from dataprep_converter.stores.hub_upload import HubUpload

_TOKEN: Final = "token"  # noqa: S105 - the name of a key
_ONE_WORD: Final = re.compile(r"[!-~]+")
_REFUSED: Final = (401, 403)
_DEFAULT_REVISION: Final = "main"
_COMMIT: Final = re.compile("[0-9a-f]{40}")
_FORBIDDEN: Final = 403
_MISSING: Final = 404
_LFS: Final = "/info/lfs/"
_REFUSED_FILES: Final = "LFS batch API returned errors"
"""The library's error message begins with this text if the Hub refuses individual files."""


class HubStore(FsspecStore):
    """The repositories on one Hub. The token is the Secret's key `token`, or else the token that the library finds (such as `HF_TOKEN`)."""

    def __init__(self, settings: StoreSettings) -> None:
        super().__init__(settings)
        self._branches: dict[str, WorkingBranch] = {}
        self._shown = ""
        self._lock = Lock()

    def connect(self, uri: str) -> System:
        """Returns one of the library's file systems. The file system may cache listings, because commits never change."""
        if uri.startswith("hf://buckets/"):
            raise BadSpec(f"{uri}: the Hub's buckets have no commits, so dataprep reads only repositories.", uri=uri)
        return self._client("HfFileSystem", uri, skip_instance_cache=True)

    def _client(self, name: str, uri: str, **options: Any) -> Any:
        """Returns one of the library's clients, with the endpoint and the token from the settings."""
        client = getattr(import_module("huggingface_hub"), name)
        token = self._token()
        # The library's own message about an invalid token would contain the token.
        if token is not None and not _ONE_WORD.fullmatch(token):
            raise BadCredentials(f"{uri}: the token for the Hub is not one word of ASCII characters.", uri=uri)
        # False keeps the library from looking for a token.
        options |= {"endpoint": self.settings.endpoint, "token": False if self.settings.anonymous else token}
        return client(**{name: value for name, value in options.items() if value is not None})

    def path_of(self, system: System, uri: str) -> str:
        """Returns the library's path for a file, at the commit of the file's revision or of the working branch."""
        parsed = import_module("huggingface_hub").parse_hf_uri(uri)
        branch = self._branch_of(uri)
        if branch is not None:
            commit = branch.view()
            if commit != self._shown:
                # Listings of earlier commits would only waste memory.
                system.invalidate_cache()
                self._shown = commit
            return f"{parsed.type}s/{parsed.id}@{commit}/{branch.folder.path_of(uri)}".rstrip("/")
        revision = parsed.revision or _DEFAULT_REVISION
        repository = f"{parsed.type}s/{parsed.id}" if parsed.type != "model" else parsed.id
        commit = revision if _COMMIT.fullmatch(revision) else self._commit(system, uri, f"hf://{repository}@{revision}")
        return f"{repository}@{commit}/{parsed.path_in_repo}".rstrip("/")

    def _commit(self, system: System, uri: str, name: str) -> str:
        """Returns the commit of the branch or tag `name`. Queries the Hub only if no process of the job has done so before."""
        commits = self.settings.commits
        if name not in commits:
            # If something is missing, the library's error says whether it is the repository, the revision or only the file.
            resolved = system.resolve_path(system._strip_protocol(uri))
            commits[name] = system._api.repo_info(resolved.repo_id, repo_type=resolved.repo_type, revision=resolved.revision).sha
        return commits[name]

    # --- outputs ---------------------------------------------------------------------------------------------------

    def create(self, uri: str, *, size_hint: int | None = None, hdfs: HdfsOptions | None = None) -> HubUpload:  # noqa: ARG002 - see Store
        return HubUpload(uri, self._output(uri), self._border)

    def put(self, uri: str, data: bytes, *, replace: bool = True, hdfs: HdfsOptions | None = None) -> Entry:  # noqa: ARG002 - see Store
        branch = self._output(uri)
        (entry,) = branch.change([Change(uri, branch.folder.path_of(uri), data, replace=replace)])
        if entry is None:
            raise StoreError(f"{uri} is missing although it has just been written.", uri=uri)
        return entry

    def delete(self, uri: str) -> None:
        branch = self._output(uri)
        branch.change([Change(uri, branch.folder.path_of(uri), None)])

    def sweep(self, uri: str) -> int:  # noqa: ARG002 - the Hub removes content that was sent but never committed
        return 0

    def check_rights(self, uri: str) -> None:
        branch = self._output(uri)

        def attempt() -> None:
            with self._border(uri):
                api = self._client("HfApi", uri)
                api.auth_check(branch.folder.repository, repo_type=branch.folder.kind, write=True)
                branch.check_target()

        retrying(attempt, what=f"looking at {uri}")

    def begin(self, uri: str) -> None:
        self._retry(self._output(uri).begin, uri)

    def publish(self, uri: str) -> None:
        self._output(uri).publish()

    def abandon(self, uri: str, is_ours: Callable[[], bool]) -> None:
        self._retry(lambda: self._output(uri).abandon(is_ours), uri)

    def remove_together(self, uris: Sequence[str], check: Callable[[], None]) -> None:
        branch = self._output(uris[0])
        with self._border(uris[0]):
            owner = branch.owner()
        check()
        branch.change([Change(uri, branch.folder.path_of(uri), None, owner=owner, is_fenced=True) for uri in uris])

    def _retry(self, call: Callable[[], None], uri: str) -> None:
        def attempt() -> None:
            with self._border(uri):
                call()

        retrying(attempt, what=f"writing {uri}")

    def _output(self, uri: str) -> WorkingBranch:
        """Returns the working branch for a file or folder. Raises BadSpec if the file or folder isn't in a job's output folder."""
        branch = self._branch_of(uri)
        if branch is None:
            raise self.refusal(uri)
        return branch

    def _branch_of(self, uri: str) -> WorkingBranch | None:
        """Returns the working branch for a file or folder, or None if it isn't in an output folder."""
        root = next((root for root in self.settings.outputs if uri == root or uri.startswith(f"{root}/")), None)
        if root is None or not root.startswith("hf://"):
            return None
        with self._lock, self._border(uri):
            if root not in self._branches:
                hub = import_module("huggingface_hub")
                folder = _folder(root, hub.parse_hf_uri(root))
                import_module("huggingface_hub.utils").disable_progress_bars()
                self._branches[root] = WorkingBranch(HubRepository(self._client("HfApi", uri), folder, self._border))
            return self._branches[root]

    def refusal(self, uri: str) -> BadSpec:
        """Returns the error for an attempt to write a single file to the Hub."""
        return BadSpec(
            f"{uri}: dataprep writes only data sets to hf://, not single files, because each file would be a separate commit. "
            "Upload other files with hf upload.",
            uri=uri,
        )

    def refresh(self, system: System) -> None:
        """Does nothing: a commit never changes, so nothing has to be queried again."""

    def read_range(self, system: System, path: str, start: int, end: int) -> bytes:
        """Reads exactly this range, although the library would read ahead by default."""
        with system.open(path, "rb", cache_type="none") as file:
            file.seek(start)
            data: bytes = file.read(end - start)
        return data

    def to_our_error(self, error: Exception, uri: str) -> ConvertError:
        """Translates an error. Distinguishes between a missing file, a missing token, and terms of use that the user hasn't accepted."""
        if isinstance(error, ImportError):
            return BadSpec("hf:// needs the client huggingface_hub: pip install 'dataprep-operator[hf]'.", uri=uri)
        refusal = _refusal(error)
        status = refusal.response.status_code if refusal is not None else None
        message = " ".join(str(refusal or error.__cause__ or error).split())[:500]
        branch = self._branches.get(next((root for root in self._branches if uri == root or uri.startswith(f"{root}/")), ""))
        if branch is not None and _is_of_content(error, refusal):
            return _refused_content(branch.folder, uri, message)
        if branch is not None and (status in _REFUSED or type(error).__name__ == "RepositoryNotFoundError"):
            fault = self._fault_of_rights(branch.folder, status, message)
            if fault is not None:
                return fault
        if status in _REFUSED and self._token() is None:
            return NotPermitted(
                f"{uri}: the Hub doesn't show this repository without a token, or it doesn't exist: {message}. "
                "Put a token into the key token of a Secret (an entry of stores), or into HF_TOKEN.",
                uri=uri,
            )
        if status in _REFUSED:
            return BadCredentials(f"{uri}: the Hub refuses the token: {message}.", uri=uri)
        if isinstance(error, RuntimeError) and isinstance(error.__cause__, Exception):
            # The library wraps an upload's error in another error.
            return translated(error.__cause__, uri)
        return translated(error, uri)

    def _fault_of_rights(self, folder: HubFolder, status: int | None, message: str) -> ConvertError | None:
        """Returns the error for an output that this token isn't allowed to write to, or None if the error has another cause."""
        repository = f"{folder.kind}s/{folder.repository}"
        if status == _MISSING:
            return NotFound(
                f"{folder.uri}: there is no repository {repository}, or the token has no access to it: {message}. "
                f"Create it: hf repos create {folder.repository} --type {folder.kind}",
                uri=folder.uri,
            )
        if self._token() is None:
            return NotPermitted(
                f"{folder.uri}: the Hub needs a token to accept a data set, or {repository} doesn't exist: {message}. "
                + _with_write_access(repository),
                uri=folder.uri,
            )
        if status == _FORBIDDEN:
            return NotPermitted(
                f"{folder.uri}: the token isn't allowed to write to {repository}: {message}. {_with_write_access(repository)}",
                uri=folder.uri,
            )
        return None

    def _token(self) -> str | None:
        if self.settings.anonymous:
            return None
        token: str | None = self.settings.credentials.get(_TOKEN) or import_module("huggingface_hub").get_token()
        return token


def _refusal(error: BaseException) -> Any:
    """Returns the error that contains the Hub's response: `error`, its cause or its context. Returns None if none of them does."""
    chain = (error, error.__cause__, error.__context__)
    return next((each for each in chain if isinstance(getattr(getattr(each, "response", None), "status_code", None), int)), None)


def _is_of_content(error: Exception, refusal: Any) -> bool:
    """Returns whether a large file's content was refused, either by the Hub or by the storage behind the Hub's signed address. The Hub can
    refuse a complete request or individual files."""
    if isinstance(error, ValueError):
        return str(error).startswith(_REFUSED_FILES)
    if refusal is None or refusal.response.status_code != _FORBIDDEN:
        return False
    request = refusal.response.request
    return request.method == "PUT" or _LFS in request.url.path


def _refused_content(folder: HubFolder, uri: str, message: str) -> ConvertError:
    """Returns the error for a large file whose content the Hub or its storage refuses."""
    repository = f"{folder.kind}s/{folder.repository}"
    return NotPermitted(
        f"{uri}: the Hub refuses the content of this large file: {message}. The token may lack the permission to write to "
        f"{repository}, or a proxy may refuse uploads. {_with_write_access(repository)}",
        uri=uri,
    )


def _with_write_access(repository: str) -> str:
    return f"Put a token with write access to {repository} into the key token of a Secret (an entry of stores), or into HF_TOKEN."


def _folder(uri: str, parsed: Any) -> HubFolder:
    """Returns the output folder at an address. Raises BadSpec if nothing can be committed there."""
    revision = parsed.revision or _DEFAULT_REVISION
    if _COMMIT.fullmatch(revision) or revision.startswith("refs/"):
        raise BadSpec(
            f"{uri}: an output must be on a branch, but {revision} isn't a branch. Name a branch, or leave the revision out to use {_DEFAULT_REVISION}.",
            uri=uri,
        )
    return HubFolder(uri=uri, repository=parsed.id, kind=parsed.type, revision=revision, path=parsed.path_in_repo.strip("/"))
