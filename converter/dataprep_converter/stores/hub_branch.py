"""The working branch of an output folder on the Hugging Face Hub: a job writes its files there, and then publishes them in one commit.

On the Hub, every change is a commit, which the branch's readers see immediately. So a job writes to a separate working branch, which
starts from the output's branch. The job sees its output folder on the working branch or, before that branch exists, on the output's branch.
When the data set is finished, one commit makes the folder on the output's branch equal to the folder on the working branch. Then the
working branch is removed. The commit on the output's branch is made only if dataprep alone has changed the folder since the working branch
began. If somebody else commits to the output's branch first, the Hub refuses dataprep's commit.

    main      ──o───────────────────────────────o──▶   one commit: copies and removals
                 \\                             /
    dataprep/…    o── units ── plan ── shard ── report ── … ── _SUCCESS

The working branch's name depends only on the output. So all processes of a job find the branch, and a run that takes over the folder from
another run finds the same OWNER file there. Each commit names its parent. If the branch has moved in the meantime, the Hub refuses the
commit, and the conditions of each `Change` are checked again. One condition is that OWNER hasn't changed since the upload began. Changes
that arrive while a commit is being sent are made together in the next commit.
"""

import hashlib
import json
import logging
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Future
from dataclasses import dataclass, field
from importlib import import_module
from threading import Lock
from typing import Final

from dataprep_api import names
from dataprep_converter.core.errors import AlreadyExists, BadSpec, OutputExists, StoreError, Unreachable
from dataprep_converter.stores import Details, Entry
from dataprep_converter.stores.hub_repository import BASE, File, HubRepository, MovedError, Operation

logger = logging.getLogger(__name__)

_MOST_CHANGES: Final = 100


@dataclass(eq=False)
class Change:
    """A file to be written to the working branch or removed from it, and the conditions for doing so."""

    uri: str
    path: str
    content: bytes | str | None
    """The content, or the name of a local file that contains it. None removes the file."""
    replace: bool = True
    """Whether an existing file may be replaced."""
    owner: str | None = None
    """The id of OWNER's content when the change began. If OWNER has changed since, the change is discarded."""
    is_fenced: bool = False
    """Whether `owner` is compared with the current id."""
    operation: Operation = None
    """The library's object for this change. The content may already have been sent to the Hub."""
    may_be_done: bool = False
    """Whether the response to a commit with this change was lost."""
    outcome: "Future[Entry | None]" = field(default_factory=Future)

    def prepare(self) -> Operation:
        """Returns the library's object for this change."""
        hub = import_module("huggingface_hub")
        if self.operation is None and self.content is None:
            self.operation = hub.CommitOperationDelete(self.path, is_folder=False)
        elif self.operation is None:
            self.operation = hub.CommitOperationAdd(self.path, self.content)
        return self.operation

    def is_done(self, file: File | None) -> bool:
        """Returns whether the file is already in the state that the change would produce."""
        if file is None or self.content is None:
            return file is None and self.content is None
        operation = self.prepare()
        if file.size != operation.upload_info.size:
            return False
        if file.lfs is not None:
            return bool(file.lfs.sha256 == operation.upload_info.sha256.hex())
        with operation.as_file() as opened:
            content = opened.read()
        return bool(file.blob_id == hashlib.sha1(b"blob %d\0" % len(content) + content, usedforsecurity=False).hexdigest())

    def entry(self, file: File | None) -> Entry | None:
        """Returns the file's entry, or None if there is no file."""
        if file is None:
            return None
        return Entry(uri=self.uri, size=file.size, pin=f"{file.size}-{file.blob_id}", details=Details(modified=0.0))


class WorkingBranch:
    """The working branch of one output folder, for one process."""

    def __init__(self, repository: HubRepository) -> None:
        self._repository = repository
        self.folder = folder = repository.folder
        self.name = folder.working_branch
        self._owner_path = folder.path_of(names.join(folder.uri, names.OWNER))
        self._success_path = folder.path_of(names.join(folder.uri, names.SUCCESS))
        self._newer: dict[str, str] = {}
        """Maps a commit on the working branch to the commit that this process has made on top of it. Needed because the Hub's responses may
        be out of date."""
        self._waiting: list[Change] = []
        self._list = Lock()
        self._turn = Lock()

    # --- its state -------------------------------------------------------------------------------------------------

    def view(self) -> str:
        """Returns the commit at which the job sees its output."""
        heads = self._heads()
        return heads.get(self.name) or self._repository.target(heads)

    def owner(self) -> str | None:
        """Returns the id of OWNER's content, or None if there is no OWNER."""
        file = self._repository.files([self._owner_path], self.view()).get(self._owner_path)
        return file.blob_id if file is not None else None

    def check_target(self) -> None:
        """Raises NotFound if the branch to publish to doesn't exist."""
        self._repository.target(self._heads())

    def _heads(self) -> dict[str, str]:
        """Maps each branch of the repository to its newest commit."""
        heads = self._repository.heads()
        if self.name not in heads:
            self._newer.clear()
            return heads
        while (newer := self._newer.get(heads[self.name])) is not None:
            heads[self.name] = newer
        return heads

    # --- the beginning and the end of a run --------------------------------------------------------------------------

    def begin(self) -> None:
        """Creates the working branch if there is none.

        If the working branch exists but has no changes yet, and the output's branch has moved, the working branch starts again from the
        output's branch.
        """
        heads = self._heads()
        if self.name in heads:
            base = self._base(heads[self.name])
            if (
                base is not None
                and base != self._repository.target(heads)
                and self._repository.tree(base) == self._repository.tree(heads[self.name])
            ):
                self._remove(heads[self.name])
                heads = self._heads()
        if self.name not in heads:
            self._repository.create_branch(self.name, self._repository.target(heads))
            heads = self._heads()
        if self.name in heads and self._base(heads[self.name]) is None:
            # Record the base before any other file is written to the branch.
            try:
                self._begin_at(heads[self.name], replace=False)
            except AlreadyExists:
                logger.info("another process has begun the branch %s at the same time", self.name)

    def _begin_at(self, commit: str, *, replace: bool) -> None:
        """Records the commit at which the working branch begins."""
        content = json.dumps({"base": commit}).encode() + b"\n"
        self.change([Change(f"{self.folder.uri} ({BASE})", BASE, content, replace=replace)])

    def publish(self) -> None:
        """In one commit, makes the folder on the output's branch equal to that on the working branch. Then removes the working branch.

        Does nothing if there is no working branch, or if the data set on it isn't finished.
        """

        self._repository.retry(self._publish, f"publishing {self.folder.uri}")

    def _publish(self) -> None:
        heads = self._heads()
        if self.name not in heads:
            return
        head, target = heads[self.name], self._repository.target(heads)
        ours, published = self._repository.tree(head), self._repository.tree(target)
        if not self._is_finished(ours, head):
            return
        if ours != published and self._is_changed(ours, head):
            self._check_unchanged(published, head, target)
            hub = import_module("huggingface_hub")
            copies = [path for path, content in ours.items() if published.get(path) != content]
            operations = [hub.CommitOperationCopy(path, path, src_revision=head) for path in copies]
            operations += [hub.CommitOperationDelete(path, is_folder=False) for path in published if path not in ours]
            logger.info("publishing %s: %d files in one commit on %s", self.folder.uri, len(copies), self.folder.revision)
            title = f"Publish {self.folder.path or 'the data set'} with dataprep"
            target = self._repository.commit(operations, self.folder.revision, target, title)
        try:
            self._remove(head)
        except MovedError:
            # Another run has begun on the working branch in the meantime. The other run changes the data set that has just been published,
            # so the working branch now begins at the published commit.
            if ours == self._repository.tree(target):
                self._begin_at(target, replace=True)

    def abandon(self, is_ours: Callable[[], bool]) -> None:
        """Removes the working branch with everything on it, if `is_ours` returns True."""
        head = self._heads().get(self.name)
        if head is not None and is_ours():
            self._remove(head)

    def _is_finished(self, ours: Mapping[str, str], head: str) -> bool:
        """Returns whether the data set on the working branch is finished or was removed.

        A run that takes over the folder writes OWNER before it removes an earlier run's `_SUCCESS`. So both files must name the same run.
        """
        if self._success_path not in ours or self._owner_path not in ours:
            return self._owner_path not in ours
        owner, success = (self._repository.document(path, head) for path in (self._owner_path, self._success_path))
        return owner is not None and success is not None and owner.get("runId") == success.get("runId")

    def _is_changed(self, ours: Mapping[str, str], head: str) -> bool:
        """Returns whether the folder has changed since the working branch began. A run that died before it claimed the folder leaves the
        folder unchanged."""
        base = self._base(head)
        return base is not None and self._repository.tree(base) != ours

    def _base(self, head: str) -> str | None:
        """Returns the commit at which the working branch began, or None if this isn't recorded yet."""
        if BASE not in self._repository.files([BASE], head):
            return None
        base: str = (self._repository.document(BASE, head) or {})["base"]
        return base

    def _check_unchanged(self, published: Mapping[str, str], head: str, target: str) -> None:
        """Raises OutputExists if others have changed a file on the output's branch since the working branch began. The error names the
        file."""
        base = self._base(head)
        if base == target:
            return
        before = self._repository.tree(base) if base is not None else {}
        for path in sorted(published.keys() | before.keys()):
            if published.get(path) != before.get(path):
                raise OutputExists(
                    f"{self.folder.uri}: {path} was changed on {self.folder.revision} after this job started, so the finished data set "
                    f"isn't published over that change. Revert the change, or remove the branch {self.name} and run the job again.",
                    uri=self.folder.uri,
                )

    def _remove(self, commit: str) -> None:
        """Removes the working branch if `commit` is its newest commit. Raises MovedError if there is a newer commit, possibly by another
        run.

        The Hub can't check and remove a branch in one request, so a commit made between the check and the removal is lost (docs/design.md).
        """
        head = self._heads().get(self.name)
        if head not in (None, commit):
            raise MovedError(
                f"{self.folder.uri}: the branch {self.name} isn't removed, because another commit was made to it in the meantime.",
                uri=self.folder.uri,
            )
        if head is None or not self._repository.delete_branch(self.name):
            logger.info("another process has removed the branch %s", self.name)
        self._newer.clear()

    # --- changes ---------------------------------------------------------------------------------------------------

    def send_content(self, change: Change) -> None:
        """Sends a large file's content to the Hub. The content has no name on the Hub until the change is committed."""
        if not self._repository.send_content(change.prepare(), self.name):
            raise self._gone(change)

    def change(self, changes: Sequence[Change]) -> list[Entry | None]:
        """Makes the changes, together with other threads' changes. Returns the files' entries.

        Raises AlreadyExists if a file exists but must not be replaced, and Unreachable if OWNER has changed or the working branch is gone.
        """
        with self._list:
            self._waiting += changes
        for change in changes:
            while not change.outcome.done():
                with self._turn:
                    self._commit_next()
        return [change.outcome.result() for change in changes]

    def _commit_next(self) -> None:
        """Commits waiting changes, at most one for each file."""
        with self._list:
            group: dict[str, Change] = {}
            for change in self._waiting[:_MOST_CHANGES]:
                group.setdefault(change.path, change)
            self._waiting = [change for change in self._waiting if group.get(change.path) is not change]
        if not group:
            return
        undone = set(group.values())
        try:
            self._repository.retry(lambda: self._commit(undone), f"a commit to {self.name}")
        except BaseException as exc:
            for change in undone:
                change.outcome.set_exception(
                    exc if isinstance(exc, Exception) else StoreError(f"{change.uri}: the commit was interrupted.")
                )
            if not isinstance(exc, Exception):
                raise

    def _commit(self, undone: set[Change]) -> None:
        """Commits the changes whose conditions hold. Removes from `undone` every change that has an outcome."""
        heads = self._heads()
        head = heads.get(self.name)
        files = self._repository.files([*(change.path for change in undone), self._owner_path], head) if head is not None else {}
        for change in list(undone):
            file = files.get(change.path)
            fault = self._fault(change, file, files.get(self._owner_path)) if head is not None else self._gone(change)
            if change.is_done(file) and (fault is None or change.may_be_done):
                change.outcome.set_result(change.entry(file))
            elif fault is not None:
                change.outcome.set_exception(fault)
            else:
                continue
            undone.remove(change)
        if not undone or head is None:
            return
        operations = [change.prepare() for change in undone]
        for change in undone:
            # The library's object remembers which content the Hub already had. So another attempt needs a new object.
            change.operation = None
        try:
            made = self._repository.commit(operations, self.name, head, f"dataprep: {len(operations)} file{'s' * (len(operations) > 1)}")
        except MovedError:
            raise
        except Exception:
            for change in undone:
                change.may_be_done = True
            raise
        if made != head:
            # If the Hub already had the content when we sent it, the library makes no commit, and `made` equals `head`. If the file has
            # been removed since then, the check below finds that the file is missing and raises Unreachable, and the commit is tried again.
            self._newer[head] = made
        files = self._repository.files([change.path for change in undone], made)
        ignored = {operation.path_in_repo for operation in operations if getattr(operation, "_should_ignore", False)}
        for change in list(undone):
            if change.path in ignored:
                undone.remove(change)
                change.outcome.set_exception(
                    BadSpec(
                        f"{change.uri}: the repository's .gitignore excludes this file. Change .gitignore or output.uri.", uri=change.uri
                    )
                )
            elif not change.is_done(files.get(change.path)):
                raise Unreachable(f"{change.uri} is missing from the commit {made}, which should have written it.", uri=change.uri)
            else:
                undone.remove(change)
                change.outcome.set_result(change.entry(files.get(change.path)))

    def _fault(self, change: Change, file: File | None, owner: File | None) -> StoreError | None:
        if change.is_fenced and change.owner != (owner.blob_id if owner is not None else None):
            return Unreachable(f"{change.uri}: {names.OWNER} was written after this upload started.", uri=change.uri)
        if file is not None and not change.replace:
            return AlreadyExists(f"{change.uri} exists already.", uri=change.uri)
        return None

    def _gone(self, change: Change) -> StoreError:
        return Unreachable(
            f"{change.uri}: the working branch {self.name} is gone, because the data set was published or removed.", uri=change.uri
        )
