"""The memory that a reader needs doesn't grow with its input.

For each way of reading, `make test` tests one reader, and the nightly run tests the others. A forked process only plans and reads a small
or a large input. All of its memory counts, including the memory of C libraries and databases. The inputs consist of large values, so that
they are read quickly.
"""

import gzip
import json
import shutil
import sqlite3
import zipfile
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any, Final

import fastavro
import numpy as np
import pyarrow as pa
import pyarrow.orc
import pyarrow.parquet
import pytest
from tests.builders import pairs
from tests.builders.archives import a_tar, a_zip
from tests.builders.jobs import run_spec
from tests.builders.sequence_files import head, records
from tests.builders.tfrecords import example
from tests.converter.cli.commandline import dataprep

from dataprep_converter.core.framing import frame
from dataprep_converter.runtime import plugins

pytestmark = [pytest.mark.slow, pytest.mark.disk]

_orc: Any = pyarrow.orc  # the modules have no type stubs
_pq: Any = pyarrow.parquet

SMALL: Final = 16 << 20
LARGE: Final = 48 << 20
"""The sizes of the inputs in bytes. Even the small input is larger than the units, parts and pieces that readers hold in memory, which
have a few MiB each."""
_VALUE_BYTES: Final = 128 << 10
_BATCH_BYTES: Final = 1 << 20
_CONSTANTS: Final[Mapping[str, int]] = {
    "dataprep_converter.readers.base.blocks.KEPT_BYTES": 2 << 20,
    "dataprep_converter.readers.base.files_ahead._BYTES_AHEAD": 4 << 20,
    "dataprep_converter.inputs.archives.KEPT_BYTES": 4 << 20,
    "dataprep_converter.readers.databases.databases._SQLITE_ROWS": 512,
    "dataprep_converter.readers.databases.sql.BLOCK_ROWS": 512,
}
"""Lower limits for caches and batches. With their default limits, these could hold all of the small input."""

_READ: Final = """
import ctypes, importlib, json, re, sys, threading, time
from pathlib import Path
import numpy as np
import pyarrow as pa
from dataprep_api.spec import Source
from dataprep_converter.inputs.access import Access
from dataprep_converter.readers import reader_class

# Return freed memory to the system immediately: M_TRIM_THRESHOLD, M_MMAP_THRESHOLD, M_ARENA_MAX.
for option, value in ((-1, 1 << 17), (-3, 1 << 17), (-8, 1)):
    ctypes.CDLL(None).mallopt(option, value)
pa.set_memory_pool(pa.system_memory_pool())
order = json.loads(Path(sys.argv[1]).read_text())
for constant, value in order["constants"].items():
    module, _, name = constant.rpartition(".")
    setattr(importlib.import_module(module), name, value)

def own():
    return int(re.search(r"RssAnon:\\s+(\\d+)", Path("/proc/self/status").read_text())[1]) << 10

def watch():
    global peak
    while True:
        peak = max(peak, own())
        time.sleep(0.002)

source = Source.model_validate(order["source"])
reader_type, access, read = reader_class(source.kind), Access(), 0
watcher = threading.Thread(target=watch, daemon=True)
before = peak = own()
if source.kind != "join":
    watcher.start()
units, state = reader_type.discover(source.member, access).collect()
if source.kind == "join":
    before = peak = own()
    watcher.start()
samples = np.arange(units.samples, dtype=np.int64)
step = max(1, len(samples) * order["batch"] // order["size"])
with reader_type(source.member, state, access) as reader:
    for batch in reader.read(units, (samples[first : first + step] for first in range(0, len(samples), step))):
        assert not batch.bad
        read += batch.records.nbytes
        peak = max(peak, own())
print(json.dumps([read, peak - before]))
"""
"""Plans and reads a source, and prints the bytes of its records and the peak of this process's memory. Memory-mapped files don't count. A
join's plan step doesn't count either: it is allowed to use its share of the memory, which `test_memory.py` tests."""


def values(size: int, of: int = _VALUE_BYTES) -> Iterator[bytes]:
    """Yields different values without a line end or a comma, `size` bytes in total."""
    for number in range(size // of):
        word = b"value %d; " % number
        yield (word * (of // len(word) + 1))[:of]


def source_of(kind: str, file: Path | str, **options: Any) -> dict[str, Any]:
    return {kind: {"uris": [str(file)], **options}}


def written(file: Path, pieces: Iterator[bytes], *, compresses: bool = False) -> Path:
    """Writes the pieces to a file, or to a gzip file if `compresses`."""
    with gzip.open(file, "wb", compresslevel=1) if compresses else file.open("wb") as out:
        for piece in pieces:
            out.write(piece)
    return file


# --- text ---------------------------------------------------------------------------------------------------------


def lines(folder: Path, size: int, *, compresses: bool = False) -> dict[str, Any]:
    return source_of("text", written(folder / "a.txt", (value + b"\n" for value in values(size)), compresses=compresses))


def lines_in_gzip(folder: Path, size: int) -> dict[str, Any]:
    return lines(folder, size, compresses=True)


def rows_of_csv(folder: Path, size: int) -> dict[str, Any]:
    return source_of("csv", written(folder / "a.csv", (b'%d,"%b"\n' % row for row in enumerate(values(size)))))


def rows_of_csv_in_gzip(folder: Path, size: int) -> dict[str, Any]:
    return source_of("csv", written(folder / "a.csv.gz", (b"%d,%b\n" % row for row in enumerate(values(size))), compresses=True))


def lines_of_json(folder: Path, size: int) -> dict[str, Any]:
    return source_of("jsonl", written(folder / "a.jsonl", (b'{"n": %d, "text": "%b"}\n' % row for row in enumerate(values(size)))))


# --- columns ------------------------------------------------------------------------------------------------------


def a_table(size: int) -> pa.Table:
    return pa.table({"n": range(size // _VALUE_BYTES), "value": pa.array(list(values(size)), pa.binary())})


def row_groups(folder: Path, size: int, *, rows: int = 32) -> dict[str, Any]:
    """Row groups of `rows` rows, by default 4 MiB. Arrow ends a page only after a batch of rows."""
    file = folder / "a.parquet"
    _pq.write_table(a_table(size), file, row_group_size=rows, compression="none", use_dictionary=False, write_batch_size=8)
    return source_of("parquet", file)


def one_row_group(folder: Path, size: int) -> dict[str, Any]:
    return row_groups(folder, size, rows=size // _VALUE_BYTES)


def batches_of_arrow(folder: Path, size: int) -> dict[str, Any]:
    table = a_table(size)
    with pa.ipc.new_file(str(folder / "a.arrow"), table.schema) as out:
        out.write_table(table, max_chunksize=32)
    return source_of("arrow", folder / "a.arrow")


def stripes_of_orc(folder: Path, size: int) -> dict[str, Any]:
    file = folder / "a.orc"
    _orc.write_table(a_table(size), str(file), stripe_size=4 << 20, batch_size=32, compression="uncompressed")
    return source_of("orc", file)


def blocks_of_avro(folder: Path, size: int) -> dict[str, Any]:
    schema = fastavro.parse_schema({"type": "record", "name": "Row", "fields": [{"name": "value", "type": "bytes"}]})
    with (folder / "a.avro").open("wb") as out:
        fastavro.writer(out, schema, ({"value": value} for value in values(size)), sync_interval=1 << 20)
    return source_of("avro", folder / "a.avro")


# --- files and archives -------------------------------------------------------------------------------------------


def files_of(size: int) -> dict[str, bytes]:
    return {f"data/{number:05}.bin": value for number, value in enumerate(values(size))}


def whole_files(folder: Path, size: int) -> dict[str, Any]:
    (folder / "data").mkdir()
    for name, content in files_of(size).items():
        (folder / name).write_bytes(content)
    return source_of("wholeFile", folder / "data")


def members_of(archive: Path, content: bytes) -> dict[str, Any]:
    archive.write_bytes(content)
    return source_of("wholeFile", f"{archive}!/data")


def members_of_tar(folder: Path, size: int) -> dict[str, Any]:
    return members_of(folder / "a.tar", a_tar(files_of(size)))


def members_of_gzipped_tar(folder: Path, size: int) -> dict[str, Any]:
    return members_of(folder / "a.tar.gz", gzip.compress(a_tar(files_of(size)), 1, mtime=0))


def members_of_zip(folder: Path, size: int) -> dict[str, Any]:
    return members_of(folder / "a.zip", a_zip(files_of(size)))


def members_of_stored_zip(folder: Path, size: int) -> dict[str, Any]:
    return members_of(folder / "a.zip", a_zip(files_of(size), method=zipfile.ZIP_STORED))


def a_large_member(folder: Path, size: int) -> dict[str, Any]:
    """Records in the only member of a gzipped tar file."""
    content = gzip.compress(a_tar({"data/a.bin": b"".join(values(size))}), 1, mtime=0)
    return {"fixedLength": members_of(folder / "a.tar.gz", content)["wholeFile"] | {"recordBytes": _VALUE_BYTES}}


def samples_of_webdataset(folder: Path, size: int) -> dict[str, Any]:
    (folder / "00000.tar").write_bytes(a_tar({Path(name).name: content for name, content in files_of(size).items()}))
    return source_of("webdataset", folder)


# --- records ------------------------------------------------------------------------------------------------------


def frames(folder: Path, size: int, *, compresses: bool = False) -> dict[str, Any]:
    pieces = (frame(example(n=number, value=value)) for number, value in enumerate(values(size)))
    return source_of("tfrecord", written(folder / "a.tfrecords", pieces, compresses=compresses))


def frames_in_gzip(folder: Path, size: int) -> dict[str, Any]:
    return frames(folder, size, compresses=True)


def records_of_hadoop(folder: Path, size: int) -> dict[str, Any]:
    all_pairs = [(number.to_bytes(8, "big"), len(value).to_bytes(4, "big") + value) for number, value in enumerate(values(size))]
    # There is one sync mark for every ten records.
    pieces = (records(all_pairs[first : first + 10]) for first in range(0, len(all_pairs), 10))
    file = folder / "a"
    file.write_bytes(head("LongWritable", "BytesWritable") + b"".join(pieces))
    return source_of("sequenceFile", file)


def rows_of_an_array(folder: Path, size: int) -> dict[str, Any]:
    np.save(folder / "a.npy", an_array(size))
    return source_of("numpy", folder / "a.npy")


def rows_of_a_deflated_array(folder: Path, size: int) -> dict[str, Any]:
    np.savez_compressed(folder / "a.npz", values=an_array(size))
    return source_of("numpy", folder / "a.npz")


def an_array(size: int) -> np.ndarray[Any, Any]:
    return np.frombuffer(b"".join(values(size)), np.uint8).reshape(-1, _VALUE_BYTES)


def shards_of(folder: Path, size: int, format_: str) -> Path:
    """A data set of the lines, in shards of 4 MiB."""
    output = {"uri": str(folder / "set"), "format": format_, "shards": {"targetSize": "4Mi"}}
    run_spec({"source": lines(folder, size), "features": [{"name": "text"}], "output": output})
    return folder / "set"


def shards_of_mds(folder: Path, size: int) -> dict[str, Any]:
    return source_of("mds", shards_of(folder, size, "mds"))


def shards_of_a_data_set(folder: Path, size: int) -> dict[str, Any]:
    return {"dataset": {"uri": str(shards_of(folder, size, "tfrecord"))}}


_CODE: Final = """
def pieces(stream, name):
    while data := stream.read(4096):
        yield {"value": data}
"""


def records_of_a_plugin(folder: Path, size: int) -> dict[str, Any]:
    (folder / "code").mkdir()
    (folder / "code" / "mine.py").write_text(_CODE)
    return source_of("plugin", written(folder / "a.bin", values(size)), callable="mine:pieces")


# --- tables -------------------------------------------------------------------------------------------------------


def rows_of_a_database(folder: Path, size: int) -> dict[str, Any]:
    with sqlite3.connect(folder / "a.db") as database:
        database.execute("CREATE TABLE t (id INTEGER PRIMARY KEY, value BLOB)")
        database.executemany("INSERT INTO t VALUES (?, ?)", enumerate(values(size, of=4 << 10)))
    database.close()
    return {"sql": {"url": f"sqlite:///{folder}/a.db", "query": "SELECT * FROM t", "orderBy": ["id"]}}


def joined_rows(folder: Path, size: int) -> dict[str, Any]:
    # A join builds a few hundred records at once.
    each = 8 << 10
    count = size // each
    written(folder / "left.csv", (b"k%05d,%b\n" % (count - number, value) for number, value in enumerate(values(size, of=each))))
    written(folder / "right.csv", (b"k%05d,%d\n" % (number + 1, number) for number in range(count)))
    tables = [
        {"name": name, "source": source_of("csv", folder / f"{name}.csv"), "keys": ["0"], "prefix": name} for name in ("left", "right")
    ]
    return {"join": {"keys": ["id"], "tables": tables}}


WAYS: Final[Mapping[str, Callable[[Path, int], dict[str, Any]]]] = {
    "lines of text": lines,
    "a gzip stream of text": lines_in_gzip,
    "row groups": row_groups,
    "parts of a row group": one_row_group,
    "whole files": whole_files,
    "members of a tar": members_of_tar,
    "members of a gzipped tar": members_of_gzipped_tar,
    "members of a zip": members_of_zip,
    "frames": frames,
    "rows of an array": rows_of_an_array,
    "a database's cursor": rows_of_a_database,
    "joined rows": joined_rows,
}
"""The ways of reading, each with a function that makes an input of a given size."""

MORE: Final[Mapping[str, Callable[[Path, int], dict[str, Any]]]] = {
    "csv": rows_of_csv,
    "csv in gzip": rows_of_csv_in_gzip,
    "jsonl": lines_of_json,
    "arrow": batches_of_arrow,
    "orc": stripes_of_orc,
    "avro": blocks_of_avro,
    "members of a stored zip": members_of_stored_zip,
    "a large member": a_large_member,
    "webdataset": samples_of_webdataset,
    "tfrecord in gzip": frames_in_gzip,
    "sequenceFile": records_of_hadoop,
    "deflated array": rows_of_a_deflated_array,
    "mds": shards_of_mds,
    "dataset": shards_of_a_data_set,
    "plugin": records_of_a_plugin,
}
"""Readers that read in one of these ways, but have their own code for each file. They are tested only at night."""


def peak(folder: Path, name: str, size: int) -> int:
    """Returns the number of bytes by which a process's memory grows when it reads an input of this size."""
    folder.mkdir()
    order = {"source": {**WAYS, **MORE}[name](folder, size), "size": size, "batch": _BATCH_BYTES, "constants": dict(_CONSTANTS)}
    (folder / "order.json").write_text(json.dumps(order))
    ran = dataprep(folder / "order.json", program=_READ, more={plugins.CODE_VARIABLE: str(folder / "code")})
    assert ran.returncode == 0, ran.stderr
    shutil.rmtree(folder)
    read, grown = json.loads(ran.stdout)
    assert read >= size
    return int(grown)


@pytest.mark.parametrize("name", pairs.chosen([*WAYS, *MORE], lambda name: name in WAYS))
def test_a_larger_input_needs_no_more_memory(tmp_path: Path, name: str) -> None:
    """The peak grows by at most a third of the additional input."""
    small, large = (peak(tmp_path / str(size), name, size) for size in (SMALL, LARGE))
    assert large - small <= (LARGE - SMALL) // 3, f"{small / 2**20:.1f} and {large / 2**20:.1f} MiB"
