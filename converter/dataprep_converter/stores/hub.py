"""Reads `hf://` addresses, the repositories of the Hugging Face Hub, by the library's own file system for fsspec.

A branch may move while a job runs. So the plan step asks once for the commit of each revision, and every process of the job reads this
commit (`StoreSettings.commits`). The pin of a file is the id of its content. So if a process that has no plan finds a later commit, the
files that haven't changed keep their pins.
"""

# fsspec's methods that return a URI's options and path begin with an underscore, because file systems are meant to override them.
# ruff: noqa: SLF001

import re
from importlib import import_module
from typing import Any, Final

from dataprep_converter.core.errors import BadCredentials, BadSpec, ConvertError, NotPermitted
from dataprep_converter.stores.fsspec_store import FsspecStore, System, translated

_TOKEN: Final = "token"  # noqa: S105 - the name of a key
_ONE_WORD: Final = re.compile(r"[!-~]+")
_REFUSED: Final = (401, 403)
_DEFAULT_REVISION: Final = "main"
_COMMIT: Final = re.compile("[0-9a-f]{40}")


class HubStore(FsspecStore):
    """The repositories of one Hub. The token is the key `token` of the Secret, or the one that the library finds (`HF_TOKEN`)."""

    def connect(self, uri: str) -> System:
        """A file system of the library. It may keep its listings, because they are those of a commit."""
        if uri.startswith("hf://buckets/"):
            raise BadSpec(f"{uri}: the Hub's buckets have no commits, so dataprep reads only repositories.", uri=uri)
        system = import_module("huggingface_hub").HfFileSystem
        token = self._token()
        # The library's message about such a token would contain it.
        if token is not None and not _ONE_WORD.fullmatch(token):
            raise BadCredentials(f"{uri}: the token for the Hub is not one word of ASCII characters.", uri=uri)
        # False keeps the library from looking for a token.
        options: dict[str, Any] = {"endpoint": self.settings.endpoint, "token": False if self.settings.anonymous else token}
        return system(**{name: value for name, value in options.items() if value is not None}, skip_instance_cache=True)

    def path_of(self, system: System, uri: str) -> str:
        """The library's path of a file, at the commit of its revision."""
        parsed = import_module("huggingface_hub").parse_hf_uri(uri)
        revision = parsed.revision or _DEFAULT_REVISION
        repository = f"{parsed.type}s/{parsed.id}" if parsed.type != "model" else parsed.id
        commit = revision if _COMMIT.fullmatch(revision) else self._commit(system, uri, f"hf://{repository}@{revision}")
        return f"{repository}@{commit}/{parsed.path_in_repo}".rstrip("/")

    def _commit(self, system: System, uri: str, name: str) -> str:
        """The commit of a branch or tag with this name. The Hub is asked only if no process of the job has asked before."""
        commits = self.settings.commits
        if name not in commits:
            # The library finds out whether the repository, the revision or only the file is missing.
            resolved = system.resolve_path(system._strip_protocol(uri))
            commits[name] = system._api.repo_info(resolved.repo_id, repo_type=resolved.repo_type, revision=resolved.revision).sha
        return commits[name]

    def refusal(self, uri: str) -> BadSpec:
        """The error of a job whose output is on the Hub."""
        return BadSpec(
            f"{uri}: dataprep doesn't write to hf://, because each file would be a commit of its own, which readers see before the data set is "
            "whole. Name a folder of another store, and upload the finished data set with hf upload.",
            uri=uri,
        )

    def refresh(self, system: System) -> None:
        """Does nothing, because a commit never changes."""

    def read_range(self, system: System, path: str, start: int, end: int) -> bytes:
        """Reads exactly the range. The library would otherwise read ahead."""
        with system.open(path, "rb", cache_type="none") as file:
            file.seek(start)
            data: bytes = file.read(end - start)
        return data

    def to_our_error(self, error: Exception, uri: str) -> ConvertError:
        """Tells a repository that needs a token, or whose conditions nobody accepted, from a file that isn't there."""
        if isinstance(error, ImportError):
            return BadSpec("hf:// needs the client huggingface_hub: pip install 'dataprep-operator[hf]'.", uri=uri)
        status = _status(error) or _status(error.__cause__) or _status(error.__context__)
        message = " ".join(str(error.__cause__ or error).split())[:500]
        if status in _REFUSED and self._token() is None:
            return NotPermitted(
                f"{uri}: the Hub doesn't show this repository without a token, or it doesn't exist: {message}. "
                "Put a token into the key token of a Secret (an entry of stores), or into HF_TOKEN.",
                uri=uri,
            )
        if status in _REFUSED:
            return BadCredentials(f"{uri}: the Hub refuses the token: {message}.", uri=uri)
        return translated(error, uri)

    def _token(self) -> str | None:
        if self.settings.anonymous:
            return None
        token: str | None = self.settings.credentials.get(_TOKEN) or import_module("huggingface_hub").get_token()
        return token


def _status(error: BaseException | None) -> int | None:
    status = getattr(getattr(error, "response", None), "status_code", None)
    return status if isinstance(status, int) else None
