"""All workloads, in the report's order."""

from collections.abc import Sequence
from typing import Final

from benchmarks.workload import Workload
from benchmarks.workloads import engine, files, tables, uploads

WORKLOADS: Final[Sequence[Workload]] = (*files.WORKLOADS, *tables.WORKLOADS, *uploads.WORKLOADS, *engine.WORKLOADS)
