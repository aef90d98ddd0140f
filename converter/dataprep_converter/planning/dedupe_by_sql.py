"""Finds duplicates with an SQL engine that runs on several machines; see *Deduplication on Spark* in docs/design.md.

digests     sample | d0, d1 | error      as `DigestReader` reads them
kept        n                            the first sample of each digest
"""

# ruff: noqa: S608 - statements contain no values from the user.

import logging
import tempfile
from collections.abc import Generator
from typing import Any, Final

from dataprep_converter.inputs.access import Access
from dataprep_converter.planning import kept_bitmaps
from dataprep_converter.planning.dedupe import DIGEST_BYTES
from dataprep_converter.planning.digest_reader import ROWS, DigestReader
from dataprep_converter.planning.kept_bitmaps import BitmapWriter
from dataprep_converter.readers.joins import ranges
from dataprep_converter.readers.joins.join_folder import remove_folder
from dataprep_converter.readers.joins.part_reader import error_of
from dataprep_converter.runtime.sql_engine import SqlEngine
from dataprep_converter.sampling.selection import Samples
from dataprep_converter.sampling.units import UnitTable

logger = logging.getLogger(__name__)

MOST_UNIT_BYTES: Final = 256 << 20
"""Maximum size of the table of all units, which each task gets. A table of about two million units has this size."""
_DIGESTS: Final = "digests"
_KEPT: Final = "kept"


def helps(engine: SqlEngine, units: UnitTable, *, has_local_files: bool) -> bool:
    """Whether the engine should find the duplicates among the samples of these units. Otherwise, this process finds them.

    `has_local_files` says whether the units refer to files that this process has made on its machine.
    """
    if not engine.helps(max(units.size, units.samples * DIGEST_BYTES)):
        logger.info("deduplicate: the source has %d MiB, so this process finds the duplicates.", units.size >> 20)
        return False
    reason = None
    if has_local_files and engine.is_remote:
        reason = "the records are in files on this machine"
    elif units.table.nbytes > MOST_UNIT_BYTES:
        reason = f"the table of {len(units):,} units is too large for each task"
    if reason is not None:
        logger.warning("deduplicate: this process finds the duplicates, because %s.", reason)
    return reason is None


def find_repeated(reader: DigestReader, engine: SqlEngine, access: Access, *, folder: str | None) -> Generator[Samples, None, None]:
    """Yields, in ascending order, the numbers of samples that have the same digest as an earlier sample or are beyond the limit.

    The engine's tasks write to the folder with the URI `folder`, or to a new folder in $TMPDIR. If parts of the source have errors, raises
    the error of the first of these parts.
    """
    logger.info("deduplicate: the source is read on the engine's machines, in %d parts.", reader.parts)
    access.progress.to_read += reader.samples
    uri = folder or tempfile.mkdtemp(prefix="dataprep-deduplication-")
    store = access.store(uri)
    try:
        engine.read(_DIGESTS, ROWS, reader.parts, reader)
        for (said,) in engine.rows(f"SELECT error FROM {_DIGESTS} WHERE error IS NOT NULL ORDER BY sample LIMIT 1"):
            raise error_of(said)
        access.progress.read += reader.samples
        engine.keep(_KEPT, f"SELECT min(sample) AS n FROM {_DIGESTS} WHERE error IS NULL GROUP BY d0, d1")
        kept = int(engine.rows(f"SELECT count(*) FROM {_KEPT}")[0][0])
        paths = ranges.paths_by_range(_lay_down(engine, uri, reader.samples), rows=kept, of="the deduplication")
        yield from kept_bitmaps.left_out(paths, access, samples=reader.samples, range_samples=kept_bitmaps.RANGE_SAMPLES)
    finally:
        engine.forget([_DIGESTS, _KEPT])
        remove_folder(uri, store)


def _lay_down(engine: SqlEngine, uri: str, samples: int) -> list[tuple[Any, ...]]:
    """Writes the files that show which samples are kept. Returns rows of `ranges.FILES`. Raises the error of a task that failed."""
    size = kept_bitmaps.RANGE_SAMPLES
    write = BitmapWriter(uri, size)
    files = engine.lay_down(f"SELECT n FROM {_KEPT}", ["n"], -(-samples // size), f"cast(floor(n / {size}) AS int)", write)
    ranges.check(files)
    return files
