"""The plan as a worker holds it, and its stored files."""

import hashlib
from dataclasses import dataclass

from dataprep_api.dataset import run_id
from dataprep_api.dataset.plan import PlanHead
from dataprep_api.spec import DataPrepJobSpec
from dataprep_converter.core.closeable import Closeable
from dataprep_converter.core.errors import BadSpec, NotWhole
from dataprep_converter.sampling.made_files import IntermediateFiles
from dataprep_converter.sampling.split_assignments import SplitAssignments
from dataprep_converter.sampling.units import UnitTable
from dataprep_converter.sampling.units_file import UnitsFile


@dataclass(frozen=True)
class Plan:
    """The plan as a worker holds it."""

    head: PlanHead
    sha256: str
    """Of `plan.json`."""
    units: UnitTable
    codes: SplitAssignments | None = None
    """The split of each sample, where it can't be derived."""


@dataclass(frozen=True)
class Tables(Closeable):
    """The plan's files beside `plan.json`, as they are stored. Closing them removes their temporary files."""

    units: UnitsFile
    codes: bytes | None = None
    made: IntermediateFiles | None = None
    """The files that the reader made, still on this machine."""

    def close(self) -> None:
        """Removes the temporary files."""
        self.units.close()
        if self.made is not None:
            self.made.remove()


def check_versions(head: PlanHead, spec: DataPrepJobSpec, uri: str) -> None:
    """Raises BadSpec when this release can't make records as a plan's release did: its records would not match the existing ones."""
    if head.encoding_version != run_id.ENCODING_VERSION:
        raise BadSpec(
            f"{uri} (run {head.run_id}) was made by a release whose records have other bytes (encoding {head.encoding_version}, this one has "
            f"{run_id.ENCODING_VERSION}). Use that release, or set output.overwrite: Always."
        )
    fault = run_id.fault_of_versions(head.parts, spec)
    if fault is not None:
        raise BadSpec(f"{uri} (run {head.run_id}) {fault}.")


def load_plan(plan: PlanHead, written: bytes, tables: Tables) -> Plan:
    """A stored plan and its files. Raises NotWhole when they don't belong together."""
    codes_sha256 = hashlib.sha256(tables.codes).hexdigest() if tables.codes is not None else None
    for name, found, expected in (("units", tables.units.sha256, plan.units_sha256), ("splits", codes_sha256, plan.codes_sha256)):
        if found != expected:
            raise NotWhole(
                f"{name}.parquet of run {plan.run_id} is not the one that plan.json names. The plan step makes it again, and so does dataprep repair."
            )
    codes = SplitAssignments(tables.codes) if tables.codes is not None else None
    return Plan(head=plan, sha256=hashlib.sha256(written).hexdigest(), units=tables.units.units(), codes=codes)
