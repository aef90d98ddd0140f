"""The progress of a job's planning. The planner updates the counts, and a display in another thread reads them."""

from dataclasses import dataclass


@dataclass
class PlanProgress:
    """The counts of one plan.

    Planning can begin with a scan by several processes. The planner then lists the inputs, and might read columns of the records once or
    several times.
    """

    scanned: int = 0
    """Bytes that have been scanned."""
    to_scan: int = 0
    """Bytes to be scanned in total, or 0 if no scan is running."""
    files: int = 0
    """Files that have been listed."""
    records: int = 0
    """Records that have been found."""
    size: int = 0
    """Bytes of the records that have been found."""
    read: int = 0
    """Records that have been read for splits, vocabularies and so on."""
    to_read: int = 0
    """The known number of records to be read in total, including records already read."""
