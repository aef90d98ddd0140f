"""Runs our code: a complete job, the encoder alone, `verify`, the reader, a plan, or a job with a slow source.

ours.py job|beside|encode|verify|read|plan|plan-far|overlap INPUT OUTPUT RECORDS OPTIONS
"""

import json
import os
import sys
import time
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from importlib import import_module
from pathlib import Path
from typing import Any, Never, Self

import computing
import describing
import pyarrow as pa
from clocked import clocked, tell
from pyarrow import parquet as pq

import dataprep_reader
from dataprep_api.dataset.plan import Shard
from dataprep_api.resources.job import DataPrepJob
from dataprep_api.spec import LabelFeature, Output
from dataprep_converter.cli.display import Display
from dataprep_converter.core import native
from dataprep_converter.core.closeable import Closeable
from dataprep_converter.core.sha256 import Sha256
from dataprep_converter.dataset.sidecars import METADATA
from dataprep_converter.formats.registry import encoder_class
from dataprep_converter.inputs.access import Access
from dataprep_converter.pipeline import shard_sink
from dataprep_converter.pipeline.features import resolve
from dataprep_converter.pipeline.shard_samples import MOST_RECORDS
from dataprep_converter.planning.planner import make_plan
from dataprep_converter.readers import reader_class
from dataprep_converter.records.batch import Batch
from dataprep_converter.runtime import allocator, fork_server, limits
from dataprep_converter.sampling.units import samples_of_a_batch
from dataprep_converter.steps.run import run
from dataprep_converter.stores import Entry, FolderFiles, StoreSettings
from dataprep_converter.stores.files import FileInput, FileStore
from dataprep_converter.tools import verification
from dataprep_converter.transforms import step_class

_FILE_BYTES = 110_000
_PIN = "1-110000"
_FILES = 256
_NO_DIGEST = "0" * 64
_LATENCY = 0.002
_FAR_LATENCY = 0.02
_BATCH = 1024
_AT_ONCE = os.sysconf("SC_IOV_MAX")
"""The largest number of pieces that the system accepts in one call."""


def a_job(spec: dict[str, Any], source: Path, output: Path) -> DataPrepJob:
    """Returns the job of a spec, parsed as in `dataprep run`. INPUT and OUTPUT in the spec are replaced by the folders."""
    text = json.dumps({"metadata": {"name": "benchmark"}, "spec": spec})
    return DataPrepJob.parse(json.loads(text.replace("INPUT", str(source)).replace("OUTPUT", str(output))))


def load(job: DataPrepJob) -> None:
    """Imports the modules that the job would otherwise import at their first use, because the peers' clocks also start after their
    imports."""
    spec = job.spec
    native.is_there()
    reader_class(spec.data.kind)
    encoder_class(spec.output.format)
    for transform in spec.transforms or []:
        step_class(transform.kind)
    for place in METADATA.values():
        import_module(place.partition(":")[0])


def import_for_others() -> None:
    """Waits until the fork server has done its imports. In a `dataprep` command, the fork server imports modules while the command starts.
    Peers' processes also do their imports before the clock starts."""
    fork_server.get_ready()
    one = fork_server.context().Process(target=abs, args=(0,))  # type: ignore[attr-defined]
    one.start()
    one.join()


def convert(job: DataPrepJob, *, workers: int) -> int:
    """Does all the work of `dataprep run`. Returns the number of records."""
    _, made = run(job, access=Access(), workers=workers, display=Display(quiet=True))
    return made.records.out


def pretend_memory(count: int) -> None:
    """Makes this process behave as if its memory limit were this many bytes."""

    def memory_bytes(**_: object) -> int:
        return count

    limits.memory_bytes = memory_bytes


def pretend_digests() -> None:
    """Makes this process write shards with a constant in place of every digest. The difference in time is the cost of the digests."""

    class Nothing(Sha256):
        def update_all(self, pieces: Sequence[Any]) -> None:
            del pieces

        def hexdigest(self) -> str:
            return _NO_DIGEST

    shard_sink.Sha256 = Nothing  # type: ignore[attr-defined, misc]


def on_cores(count: int) -> None:
    """Restricts this process and its children to this many cores."""
    os.sched_setaffinity(0, sorted(os.sched_getaffinity(0))[:count])


def encode(table: pa.Table, output: Output, labels: list[LabelFeature], place: Path) -> int:
    """Encodes columns in memory and writes them to a file, without a plan, a digest or an index. Returns the number of records."""
    projector = resolve(None, labels, schema=table.schema, default_label="", output=output)
    encoder = encoder_class(output.format)(output, projector.features)
    encoder.begin(Shard(number=0, split="all", index=0, file=place.name, first=0, records=len(table)), seed=0)
    rows = samples_of_a_batch(table.nbytes, len(table), most=MOST_RECORDS)
    with place.open("wb", buffering=0) as out:
        for records in table.to_batches(max_chunksize=rows):
            pieces = encoder.pieces(projector.project(Batch(records=records, bad=[], bytes_in=0)).records)
            for some in (pieces[first : first + _AT_ONCE] for first in range(0, len(pieces), _AT_ONCE)):
                if os.writev(out.fileno(), some) != sum(map(len, some)):
                    sys.exit(f"{place}: only a part of the bytes was written.")
        out.write(encoder.close())
        for piece in encoder.rest():
            out.write(piece)
    return len(table)


class Listing:
    """A store of simulated files, which exist only by name."""

    def __init__(self, files: int) -> None:
        self._files = files

    def list_folders(self, uri: str, *, recursive: bool = True) -> Iterator[FolderFiles]:
        """Lists the files, in a hundred folders."""
        del recursive
        each = max(1, self._files // 100)
        for folder in range(-(-self._files // each)):
            end = min(self._files, (folder + 1) * each)
            for first in range(folder * each, end, _FILES):
                names = [f"{number:09d}.jpg" for number in range(first, min(first + _FILES, end))]
                yield FolderFiles(f"{uri.rstrip('/')}/class-{folder:03d}/", names, [_FILE_BYTES] * len(names), [_PIN] * len(names))

    def stat(self, uri: str) -> Entry | None:
        """Returns None, because the URI is a folder."""
        del uri
        return None

    def open(self, uri: str) -> "Picture":
        """Opens a simulated file. The plan step opens only a few files."""
        return Picture(uri)


class Picture:
    """A simulated file: the header of a JPEG of 500 x 375 pixels, followed by zeros."""

    _CONTENT = bytes.fromhex("ffd8 ffc0 0011 08 0177 01f4 03 012200 021101 031101").ljust(_FILE_BYTES, b"\0")

    def __init__(self, uri: str) -> None:
        self.uri = uri
        self.size = _FILE_BYTES
        self.pin = _PIN

    def read_at(self, offset: int, length: int) -> bytes:
        """See `Input`."""
        return self._CONTENT[offset : offset + length]

    def close(self) -> None:
        """Does nothing, because no file was opened."""

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def plan(spec: dict[str, Any], files: int) -> int:
    """Plans a job with this many files. Returns the number of samples."""
    access = Access()
    store, others = Listing(files), access.store
    access.store = lambda uri: store if uri.startswith("/simulated") else others(uri)  # type: ignore[assignment, method-assign, return-value]
    job = a_job(spec, Path("/simulated"), Path("/nowhere"))
    with make_plan(job.spec, access) as new:
        return new.plan.head.samples


class FarInput(Closeable):
    """A local file. Each read takes as long as a request to a distant store."""

    def __init__(self, source: FileInput) -> None:
        self._source = source
        self.size, self.pin = source.size, source.pin

    def read_at(self, offset: int, length: int) -> bytes:
        """See `Input`."""
        time.sleep(_FAR_LATENCY)
        return self._source.read_at(offset, length)

    def stream(self, offset: int = 0, length: int | None = None) -> Iterator[bytes]:
        """See `Input`."""
        time.sleep(_FAR_LATENCY)
        return self._source.stream(offset, length)

    def close(self) -> None:
        """Closes the file."""
        self._source.close()


class FarFiles:
    """A store of local files that are read like files in a distant store."""

    def __init__(self) -> None:
        self._files = FileStore(StoreSettings(uri_prefix=""))

    def list(self, uri: str, *, recursive: bool = True) -> Iterator[Entry]:
        """See `Store`."""
        return self._files.list(uri, recursive=recursive)

    def stat(self, uri: str) -> Entry | None:
        """See `Store`."""
        return self._files.stat(uri)

    def open(self, uri: str) -> FarInput:
        """See `Store`."""
        return FarInput(self._files.open(uri))


class FarFilesInOrder(FarFiles):
    """A store like its base class, but its files are planned one after another, like files on a local disk."""

    def read_files(self, *_: object) -> Never:
        """Identifies this store as a store of local files. Planning doesn't call this method."""
        raise NotImplementedError


def plan_far(job: DataPrepJob, store: FarFiles) -> int:
    """Plans the job with inputs in `store`. Returns the number of samples."""
    access = Access()
    access.store = lambda uri: store  # type: ignore[assignment, method-assign, return-value]  # noqa: ARG005
    with make_plan(job.spec, access) as new:
        return new.plan.head.samples


class SlowFiles(FileStore):
    """Local files. Opening a file takes an additional 2 ms."""

    def open(self, uri: str) -> FileInput:
        """See `Store`."""
        time.sleep(_LATENCY)
        return super().open(uri)


def overlap(job: DataPrepJob) -> int:
    """Runs the job with a slow source. Returns the number of records."""
    access = Access()
    store = SlowFiles(StoreSettings(uri_prefix=""))
    access.store = lambda uri: store  # type: ignore[method-assign]  # noqa: ARG005
    _, made = run(job, access=access, workers=1, display=Display(quiet=True))
    return made.records.out


def beside(job: DataPrepJob, table: pa.Table, place: Path, record_bytes: int) -> int:
    """Runs the job, and at the same time computes an index and statistics with libraries alone. Returns the number of records."""
    with ThreadPoolExecutor(2) as threads:
        others = [threads.submit(describing.statistics, table), threads.submit(describing.index, table.num_rows, record_bytes, place)]
        made = convert(job, workers=1)
        for other in others:
            other.result()
    return made


def read(data_set: Path, *, masks: bool) -> int:
    """Reads all arrays of a data set. Returns the number of records."""
    features = [feature["name"] for feature in dataprep_reader.open(data_set).manifest.features]
    reader = dataprep_reader.open(data_set, batch_size=_BATCH, masks=features if masks else ())
    return sum(len(batch[features[0]]) for batch in reader)


def main(kind: str, source: Path, output: Path, records: int, options: dict[str, Any]) -> None:
    if kind == "job":
        job = a_job(options["spec"], source, output)
        load(job)
        if "memory_bytes" in options:
            pretend_memory(options["memory_bytes"])
        if "cores" in options:
            on_cores(options["cores"])
        if "digests" in options:
            pretend_digests()
        workers = options.get("workers", 1)
        if workers > 1:
            import_for_others()
        # Several workers have a fork server, which outlives the run, so don't wait for it.
        clocked(lambda: convert(job, workers=workers), waits=workers == 1)
        if "digests" in options and _NO_DIGEST not in next(output.glob("_dataprep/*/manifest.json")).read_text():
            sys.exit("This job should not compute digests, but it did.")
    elif kind == "beside":
        job, table = a_job(options["spec"], source, output), pq.read_table(source / "table.parquet")
        load(job)
        clocked(lambda: beside(job, table, output / "_index", options["record_bytes"]))
    elif kind == "overlap":
        records = overlap(a_job(options["spec"], source, output))
        tell(records, computing.span(records), None)
    elif kind == "encode":
        table = pa.ipc.open_file(str(source / "table.arrow")).read_all()
        form = Output.model_validate({"uri": str(output), **options["output"]})
        # Imports the encoder and its dependencies.
        extension = encoder_class(form.format).extension(form)
        native.is_there()
        allocator.tune_allocator()
        place = Path(options["place"]) if "place" in options else output / f"data.{extension}"
        labels = [LabelFeature(name=name) for name in options.get("labels", [])]
        clocked(lambda: encode(table, form, labels, place))
    elif kind == "verify":
        clocked(lambda: verification.verify(str(source), Access()).records_out)
    elif kind == "read":
        convert(a_job(options["spec"], source, output), workers=1)
        clocked(lambda: read(output, masks=options["masks"]))
    elif kind == "plan":
        clocked(lambda: plan(options["spec"], records))
    elif kind == "plan-far":
        job = a_job(options["spec"], source, output)
        load(job)
        clocked(lambda: plan_far(job, FarFilesInOrder() if options["in_order"] else FarFiles()))
    else:
        sys.exit(f"Unknown kind {kind!r}.")


if __name__ == "__main__":
    main(sys.argv[1], Path(sys.argv[2]), Path(sys.argv[3]), int(sys.argv[4]), json.loads(sys.argv[5]))
