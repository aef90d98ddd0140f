"""Reads `hf://` addresses, the repositories of the Hugging Face Hub, by the library's own file system for fsspec.

A branch may move while a job runs. So each process asks once for the commit of a revision and reads every file from this commit. The pin of
a file is the id of its content: if another process finds a later commit, files that haven't changed keep their pins, and a changed file is
refused (`InputChanged`).
"""

# fsspec's methods that return a URI's options and path begin with an underscore, because file systems are meant to override them.
# ruff: noqa: SLF001

import re
from importlib import import_module
from typing import Any, Final

from dataprep_converter.core.errors import BadCredentials, BadSpec, ConvertError, NotPermitted
from dataprep_converter.stores import StoreSettings
from dataprep_converter.stores.fsspec_store import FsspecStore, System, translated

_TOKEN: Final = "token"  # noqa: S105 - the name of a key
_ONE_WORD: Final = re.compile(r"[!-~]+")
_REFUSED: Final = (401, 403)


class HubStore(FsspecStore):
    """The repositories of one Hub. The token is the key `token` of the Secret, or the one that the library finds (`HF_TOKEN`)."""

    def __init__(self, settings: StoreSettings) -> None:
        super().__init__(settings)
        self._commits: dict[tuple[str, str, str], str] = {}

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
        resolved = system.resolve_path(system._strip_protocol(uri))
        key = (resolved.repo_type, resolved.repo_id, resolved.revision)
        if key not in self._commits:
            self._commits[key] = system._api.repo_info(resolved.repo_id, repo_type=resolved.repo_type, revision=resolved.revision).sha
        prefix = f"{resolved.repo_type}s/" if resolved.repo_type != "model" else ""
        return f"{prefix}{resolved.repo_id}@{self._commits[key]}/{resolved.path_in_repo}".rstrip("/")

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
