"""The plan in a worker's memory, and its stored files."""

import hashlib
from dataclasses import dataclass

from dataprep_api.dataset import run_id
from dataprep_api.dataset.plan import PlanHead
from dataprep_api.spec import DataPrepJobSpec
from dataprep_converter.core.closeable import Closeable
from dataprep_converter.core.errors import BadSpec, NotWhole
from dataprep_converter.sampling.intermediate_files import IntermediateFiles
from dataprep_converter.sampling.split_assignments import SplitAssignments
from dataprep_converter.sampling.units import Units, UnitTable
from dataprep_converter.sampling.units_file import UnitsFile


@dataclass(frozen=True)
class Plan:
    """The plan in a worker's memory."""

    head: PlanHead
    sha256: str
    """Digest of `plan.json`."""
    units: Units
    codes: SplitAssignments | None = None
    """The split of each sample, if the splits can't be computed from ranges and hash intervals."""


@dataclass(frozen=True)
class WholePlan(Plan):
    """A plan with the table of all units."""

    units: UnitTable


@dataclass(frozen=True)
class Tables(Closeable):
    """The plan's files other than `plan.json`, in their stored form.

    The files are kept in temporary files, which are removed when this object is closed.
    """

    units: UnitsFile
    codes: bytes | None = None
    intermediate: IntermediateFiles | None = None
    """Files that the reader made and that are still on this machine."""

    def close(self) -> None:
        """Removes the temporary files."""
        self.units.close()
        if self.intermediate is not None:
            self.intermediate.remove()


def check_versions(head: PlanHead, spec: DataPrepJobSpec, uri: str) -> None:
    """Raises BadSpec if this release would make other records than the release that made the plan.

    New records must match the existing records.
    """
    if head.encoding_version != run_id.ENCODING_VERSION:
        raise BadSpec(
            f"{uri} (run {head.run_id}) was made by a release that encodes records differently (encoding {head.encoding_version}, this release has "
            f"{run_id.ENCODING_VERSION}). Use that release, or set output.overwrite: Always."
        )
    fault = run_id.fault_of_versions(head.parts, spec)
    if fault is not None:
        raise BadSpec(f"{uri} (run {head.run_id}) {fault}.")


def load_plan(plan: PlanHead, head_bytes: bytes, tables: Tables) -> WholePlan:
    """Returns a stored plan with its files. Raises NotWhole if a file doesn't have the digest in the plan."""
    if tables.units.sha256 != plan.units_sha256:
        raise damaged(plan, "units")
    return WholePlan(
        head=plan,
        sha256=hashlib.sha256(head_bytes).hexdigest(),
        units=tables.units.units(),
        codes=load_codes(plan, tables.codes),
    )


def load_codes(plan: PlanHead, codes: bytes | None) -> SplitAssignments | None:
    """Returns the content of `splits.parquet`. Raises NotWhole if the file doesn't have the digest in the plan."""
    sha256 = hashlib.sha256(codes).hexdigest() if codes is not None else None
    if sha256 != plan.codes_sha256:
        raise damaged(plan, "splits")
    return SplitAssignments(codes) if codes is not None else None


def damaged(plan: PlanHead, name: str) -> NotWhole:
    """Returns the error for a file whose content doesn't match the plan."""
    return NotWhole(
        f"{name}.parquet of run {plan.run_id} doesn't have the digest in plan.json. The plan step or dataprep repair can write the file again."
    )
