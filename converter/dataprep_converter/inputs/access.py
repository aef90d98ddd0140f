"""Finds the store for a URI, with the settings of the longest matching prefix. Each process has its own `Access`."""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, Final

from dataprep_api.dataset import run_id
from dataprep_api.dataset.run_id import NullRule, StructRule
from dataprep_api.redaction import has_user, unsigned
from dataprep_api.spec import DataPrepJobSpec, Model, Source
from dataprep_api.spec.model import STORED
from dataprep_converter.core.errors import BadSpec
from dataprep_converter.inputs.archive_uris import split_archive_uri
from dataprep_converter.runtime.plan_progress import PlanProgress
from dataprep_converter.runtime.request_budget import RequestBudget
from dataprep_converter.stores import Store, StoreSettings, scheme_of
from dataprep_converter.stores.registry import ANONYMOUS, NO_CREDENTIALS, PACED, store_class

if TYPE_CHECKING:
    from dataprep_converter.runtime.scanned_here import ScannedHere
    from dataprep_converter.runtime.scans import Scan
    from dataprep_converter.runtime.sql_engine import SqlEngine

_WEB: Final = ("http://", "https://")
_RULES: Final = (
    "parts",
    "nulls",
    "structs",
    "keeps_types",
    "compares_all_digits",
    "rounds_defaults",
    "reads_heif",
    "times_in_nanoseconds",
    "commits",
    "_signed",
)


@dataclass
class SkippedFiles:
    """Counts the files that are skipped when the inputs are listed."""

    hidden: dict[str, int] = field(default_factory=dict)
    """Maps each completely listed input to the number of files in it that were skipped because their names begin with `_` or `.`."""
    in_data_sets: dict[str, int] = field(default_factory=dict)
    """Maps the URI of each data set below an input to the data set's number of visible files."""

    def count(self) -> int:
        """Returns the total number of skipped files."""
        return sum(self.hidden.values()) + sum(self.in_data_sets.values())


class Access:
    """Returns stores by URI. Clients are created on first use and kept for the life of the process.

    `settings` can be pickled, so that the initializer of a process pool can create an Access in each process.
    """

    def __init__(self, settings: Sequence[StoreSettings] = ()) -> None:
        self.settings = tuple(sorted(settings, key=lambda s: len(s.uri_prefix), reverse=True))
        self._clients: dict[tuple[str, str], Store] = {}
        self.budgets: dict[str, RequestBudget] = {}
        """Maps the index of each `spec.stores` entry, and each scheme without an entry, to its request budget."""
        self._processes = 1
        self.processes_here = 1
        """The number of processes on this machine that work for this job at the same time and share the memory."""
        self._signed: dict[str, str] = {}
        """Maps each web address, stripped of its signature, to the signed address. Only unsigned addresses are stored."""
        self.commits: dict[str, str] = {}
        """Maps each branch or tag on the Hub to the commit that all stores read. The plan step stores these commits in the plan."""
        self.output: str | None = None
        """The job's output folder, once it is known. Inputs in this folder are refused."""
        self.outputs: set[str] = set()
        """The output folders that this process writes to or continues. A store that writes folders aside (`WritesAside`) shows these
        folders to this process even before they are published."""
        self.skipped = SkippedFiles()
        """The files that were skipped when this job's inputs were listed."""
        self.times_in_nanoseconds: dict[str, None] = {}
        """The columns of INT96 times that are read in nanoseconds, because the job's plan follows an older rule."""
        self.scan: Scan | None = None
        """The scan of this job's inputs, or None if this process examines all inputs itself."""
        self.scanned_here: ScannedHere | None = None
        """The facts about this job's inputs that the processes on this machine have found and share until the job is planned."""
        self.has_text_cells = False
        """Whether one of this job's inputs is a text file so large that it is divided by the newer rule (`textUnits`)."""
        self.may_cut_otherwise = False
        """Whether joined records have nulls and are so large that version 1 of the part `joins` may have divided them into other units."""
        self.progress = PlanProgress()
        """The progress of planning."""
        self.parts: Mapping[str, int] | None = None
        """The versions of the rules that the job's plan follows, as recorded in the plan; None means the versions of this release."""
        self.nulls: NullRule = "Keep"
        """How the job treats nulls."""
        self.structs: StructRule = run_id.FLAT
        """The structs in the inputs that become columns themselves, in addition to the columns of their fields."""
        self.keeps_types = True
        """Whether times and decimals keep their types in a format that can hold these types."""
        self.compares_all_digits = True
        """Whether `deduplicate` and `filter` compare all digits of decimals."""
        self.rounds_defaults = False
        """Whether the default value of a decimal column may lose digits. Set if the plan belongs to an existing data set, because that data
        set contains the rounded default."""
        self.divides_shuffles = True
        """Whether pods or processes can run the first round of a shuffle (`steps/conversion/shuffle.py`), so a plan may include it."""
        self.reads_heif = True
        """Whether AVIF and HEIC files are images."""
        self.sql_engine: SqlEngine | None = None
        """The engine that joins tables and finds duplicate records, or None if this process does so."""

    def rules(self) -> dict[str, Any]:
        """Returns the values that, together with the settings, make a reader in another process read the same rows.

        The result can be pickled.
        """
        return {name: getattr(self, name) for name in _RULES}

    def adopt(self, rules: Mapping[str, Any]) -> None:
        """Sets the values that `rules` returned in another process. Must be called before the first store is used."""
        vars(self).update(rules)

    @property
    def only_scans(self) -> bool:
        """Whether this process only examines inputs for another process, which plans the job and infers the columns."""
        return self.scan is not None and not self.scan.lists_units

    @property
    def keeps_nulls(self) -> bool:
        """Whether readers return nulls as values. If not, a record with a null is bad."""
        return self.nulls == "Keep"

    def follow(self, spec: DataPrepJobSpec, parts: Mapping[str, int]) -> None:
        """Sets the rules that the job's plan follows."""
        self.parts = parts
        self.nulls = run_id.null_rule(spec, parts)
        self.structs = run_id.struct_rule(spec, parts)
        self.keeps_types = run_id.keeps_types(spec, parts)
        self.compares_all_digits = run_id.compares_all_digits(spec, parts)
        self.reads_heif = run_id.reads_heif(spec, parts)

    @contextmanager
    def refusing_nulls(self) -> Iterator[None]:
        """Within the block, new readers refuse records with nulls."""
        nulls, self.nulls = self.nulls, "Bad"
        try:
            yield
        finally:
            self.nulls = nulls

    def version_of(self, part: str) -> int:
        """Returns which version of a part (see `run_id.PARTS`) the plan uses."""
        return run_id.PARTS[part].version if self.parts is None else self.parts.get(part, 1)

    def store(self, uri: str) -> Store:
        """Returns the store for `uri`.

        An archive member (`photos.zip!/1.jpg`) has a read-only store. Raises BadSpec if no store matches the URI.
        """
        if "\0" in uri:
            raise BadSpec(f"{uri!r} contains a NUL character, which no store accepts.", uri=uri)
        if has_user(uri):
            raise BadSpec(
                f"…@{uri.rpartition('@')[2]} contains a user or a key: put credentials into an entry of stores or into the environment."
            )
        if split_archive_uri(uri) is not None:
            return self._archive_store()
        scheme = scheme_of(uri)
        settings = self._matching_settings(uri)
        key = (scheme, settings.uri_prefix if settings is not None else "")
        if key not in self._clients:
            used = self.settings_of(uri)
            self._clients[key] = store_class(scheme)(
                replace(used, signed=self._signed, commits=self.commits, outputs=self.outputs, budget=self._budget(scheme, used))
            )
        return self._clients[key]

    def write_to(self, uri: str) -> None:
        """Remembers that this process works on the output folder `uri`."""
        self.outputs.add(uri.rstrip("/"))

    def share_among(self, processes: int) -> None:
        """Divides the request limits equally among this number of processes, including this process."""
        self._processes = processes
        for budget in self.budgets.values():
            budget.share_among(processes)

    def unsigned(self, source: Source) -> Source:
        """Returns a copy of the source whose web addresses have no signatures. This copy may be stored.

        The Access keeps the signatures, and adds them again when an address is read. Raises BadSpec if two addresses differ only in their
        signatures.
        """
        # If no address has a signature, don't copy the source. A copy would take 25 ms, because pydantic would build a validator for it.
        if all(text == unsigned(text) for text in _texts(source)):
            return source
        complete, stripped = (
            source.model_dump(mode="json", by_alias=True, exclude_unset=True, context={STORED: without}) for without in (False, True)
        )
        full_addresses: dict[str, str] = {}
        for text, address in zip(_texts(complete), _texts(stripped), strict=True):
            if address.startswith(_WEB) and full_addresses.setdefault(address, text) != text:
                raise BadSpec(
                    f"Two addresses of the source differ only in their signatures or tokens: {address}. Signatures and tokens aren't "
                    "stored, so the two files can't be told apart. Give each file a different address, or copy the files to a store."
                )
        self._signed |= {address: text for address, text in full_addresses.items() if address != text}
        return Source.model_validate(stripped)

    def settings_of(self, uri: str) -> StoreSettings:
        """Returns the settings with the longest prefix that matches `uri`, or the default settings of its scheme.

        Raises BadSpec if the settings are anonymous, but the scheme doesn't support anonymous requests.
        """
        scheme = scheme_of(uri)
        settings = self._matching_settings(uri) or _defaults(scheme)
        if settings.anonymous and scheme not in (*ANONYMOUS, *NO_CREDENTIALS):
            raise BadSpec(
                f"stores[{settings.entry}].anonymous isn't supported for {scheme}://; "
                f"it is supported for {', '.join(f'{name}://' for name in ANONYMOUS)}.",
                uri=uri,
            )
        return settings

    def fresh(self, uri: str) -> Store:
        """Replaces the kept client for `uri` with a new one, and returns it. After a failed write to HDFS, the old client may hang."""
        scheme = scheme_of(uri)
        for key in [key for key in self._clients if key[0] == scheme]:
            del self._clients[key]
        return self.store(uri)

    def _matching_settings(self, uri: str) -> StoreSettings | None:
        return next((s for s in self.settings if uri.startswith(s.uri_prefix)), None) if self.settings else None

    def _budget(self, scheme: str, settings: StoreSettings) -> RequestBudget | None:
        if scheme not in PACED:
            if settings.requests_per_second is None:
                return None
            raise BadSpec(
                f"stores[{settings.entry}].requestsPerSecond can't limit requests to {f'{scheme}://' if scheme else 'local files'}; "
                f"it works only for {', '.join(f'{name}://' for name in PACED)}."
            )
        key = settings.entry or scheme
        if key not in self.budgets:
            self.budgets[key] = RequestBudget(limit=settings.requests_per_second, name=settings.uri_prefix or f"{scheme}://")
            self.budgets[key].share_among(self._processes)
        return self.budgets[key]

    def _archive_store(self) -> Store:
        key = ("", "!")
        if key not in self._clients:
            # Not imported at the top, because most jobs don't read archives.
            from dataprep_converter.inputs.archives import ArchiveStore

            self._clients[key] = ArchiveStore(self.store)
        return self._clients[key]


def _texts(value: Any) -> Iterator[str]:  # Any, because the value is a model or parsed JSON
    if isinstance(value, str):
        yield value
    fields = vars(value) if isinstance(value, Model) else value
    for below in fields.values() if isinstance(fields, dict) else fields if isinstance(fields, list) else ():
        yield from _texts(below)


def _defaults(scheme: str) -> StoreSettings:
    return StoreSettings(uri_prefix=f"{scheme}://" if scheme else "")
