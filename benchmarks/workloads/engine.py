"""Workloads for everything except the formats: shuffles, joins, verifying, indexes and statistics, digests, plans, scaling, overlap, and
start."""

import json
from collections.abc import Mapping, Sequence
from typing import Any, Final

from benchmarks.contenders import ONE_CORE, TWO_CORES, Contender, digest, libraries, limit, ours, spark_writers
from benchmarks.measuring import ROOT
from benchmarks.workload import IDX, IMAGES, ONE_FILE, PARQUET, PREPARED, Against, Workload, command, job, read

_JOINED: Final[Mapping[str, Any]] = {
    "source": {
        "join": {
            "keys": ["id"],
            "tables": [{"name": name, "source": {"parquet": {"uris": [f"INPUT/{name}.parquet"]}}} for name in ("left", "right")],
        }
    }
}
_GZIP: Final[Mapping[str, Any]] = {"idx": {"subsets": [{"name": "all", "images": "INPUT/images.idx.gz", "labels": "INPUT/labels.idx.gz"}]}}
_JOINED_BYTES: Final = 175
_ROW_BYTES: Final = 363
_DIGIT_BYTES: Final = 887
"""Average sizes in bytes of records with eight floats, with 22 numbers, and with 28 x 28 bytes."""
_PLANNED: Final[Mapping[str, Any]] = {"source": {"images": {"uris": ["/simulated"]}}, "output": {"uri": "/nowhere"}}
_FAR: Final[Mapping[str, Any]] = {"source": {"parquet": {"uris": ["INPUT"]}}, "output": {"uri": "OUTPUT"}}
_SHUFFLED: Final[Mapping[str, Any]] = {"shuffle": {"seed": 1}}
_CSV: Final[Mapping[str, Any]] = {"source": {"csv": {"uris": ["INPUT/table.csv"], "header": True}}}
_WITHOUT: Final[Mapping[str, Any]] = {"index": False, "statistics": "ClassCounts"}
_REST: Final[Mapping[str, Any]] = {"spec": {"source": PARQUET, "output": {**ONE_FILE, **_WITHOUT}}, "record_bytes": _ROW_BYTES}
_BESIDE: Final = "ours, without, and libraries for the rest"
_SLOW: Final[Mapping[str, Any]] = {
    "source": {"wholeFile": {"uris": ["INPUT"]}},
    "transforms": [{"map": {"callable": "computing:slowly"}}],
    "output": {"uri": "OUTPUT", "shards": {"count": 1}},
}
_IMPORTS: Final = (
    "import os; os.environ['OPENBLAS_NUM_THREADS'] = '1'; from dataprep_converter.runtime import without_pandas; without_pandas.hide(); "
    "import dataprep_converter.steps.conversion.convert_work, dataprep_converter.readers.arrays.idx, dataprep_converter.formats.tfrecord.tfrecord_encoder; os._exit(0)"
)
"""This program ends with `os._exit`, so that the end of the process isn't measured. A normal exit would take 0.1 s to free the libraries'
objects. A pod doesn't need this time, because it has frozen these objects (`allocator.py`)."""
_SMALL_JOB: Final = (
    *("-m", "dataprep_converter", "run", str(ROOT / "benchmarks/small_job.yaml")),
    *("--set", "params.input=INPUT", "--set", "output.uri=OUTPUT", "--quiet"),
)


def _duckdb(name: str, kind: str) -> Contender:
    return Contender(name, "peer", "duckdb_join.py", kind, peer="duckdb")


WORKLOADS: Final[Sequence[Workload]] = (
    Workload(
        "shuffle",
        "W10: MNIST's IDX files to TFRecord in random order",
        make="idx",
        records=300_000,
        quick=20_000,
        contenders=(
            job({"source": IDX, **_SHUFFLED}),
            job({"source": IDX}, name="ours, in order"),
            limit("gathering, SHA-256 and write alone", "gather", options=(str(_DIGIT_BYTES),)),
            digest(_DIGIT_BYTES),
        ),
        goals={"ours, in order": 0.9},
        gains={"ours, in order": ("gathering, SHA-256 and write alone", "SHA-256 and write alone")},
        check="shuffled",
        against=Against("digits", "idx", "ours, in order"),
    ),
    Workload(
        "shuffle-gzip",
        "W10: gzipped MNIST IDX files, which can only be read from their beginning, to TFRecord in random order",
        make="idx_gzip",
        records=300_000,
        quick=20_000,
        contenders=(
            job({"source": _GZIP, **_SHUFFLED}, memory_bytes=512 << 20),
            job({"source": _GZIP}, name="ours, in order"),
            limit("inflating alone", "inflate"),
        ),
        bounds={"ours": ("MB/s", 250)},
        limit="inflating alone",
        check="shuffled",
        against=Against("digits", "idx", "ours, in order"),
    ),
    Workload(
        "join",
        "W11: two Parquet tables with different row orders, joined by key, to TFRecord in the order of the keys",
        make="two_tables",
        records=5_000_000,
        quick=50_000,
        contenders=(
            job(_JOINED, is_bounded=False),
            job(_JOINED, name="ours, 512 MiB", memory_bytes=512 << 20),
            _duckdb("DuckDB to Parquet", "parquet"),
            _duckdb("DuckDB to Parquet, in any order", "any-order"),
            limit("DuckDB to Arrow in memory, in order", "arrow", "duckdb_join.py"),
            job({"source": {"parquet": {"uris": ["INPUT/joined.parquet"]}}}, name="ours, of rows that are joined"),
            digest(_JOINED_BYTES),
        ),
        goals={"DuckDB to Parquet": 0.7},
        limit="DuckDB to Arrow in memory, in order",
        check="columns",
    ),
    Workload(
        "verify",
        "W12: verification of every byte of a TFRecord data set of JPEG files",
        make="images",
        records=6000,
        quick=300,
        contenders=(
            ours("verify", {}, writes=False),
            limit("read alone", "read"),
            limit("SHA-256 alone, 2 threads", "sha256"),
            limit("CRC-32C alone", "crc"),
        ),
        goals={"read alone": 0.85},
        limit="SHA-256 alone, 2 threads",
        against=Against("contents", "files", PREPARED),
        prepare=job({"source": IMAGES}, {"shards": {"count": 8}}),
    ),
    *(
        Workload(
            f"read-nulls-{format_}",
            f"Reading arrays of 22 columns with nulls from {title} for training, compared with the same columns without nulls",
            make="tables_with_nulls",
            records=300_000,
            quick=20_000,
            contenders=(
                read("nulls", {"format": format_}),
                read("nulls", {"format": format_}, name="ours, with masks", masks=True),
                read("full", {"format": format_}, name="ours, without nulls"),
            ),
            goals={"ours, without nulls": 0.5},
        )
        for format_, title in (("tfrecord", "TFRecord"), ("parquet", "Parquet"))
    ),
    Workload(
        "extras",
        "W14: the cost of indexes and statistics, for a Parquet table of 22 columns",
        make="parquet_table",
        records=1_000_000,
        quick=40_000,
        contenders=(
            job({"source": PARQUET}),
            job({"source": PARQUET}, _WITHOUT, name="ours, without"),
            job({"source": PARQUET}, {"statistics": "ClassCounts"}, name="ours, without statistics"),
            job({"source": PARQUET}, {"index": False}, name="ours, without indexes"),
            limit(_BESIDE, "beside", "ours.py", options=(json.dumps(_REST),)),
        ),
        goals={"ours, without": 0.92},
        limit=_BESIDE,
        check="raw",
        against=Against("columns", "columns"),
    ),
    Workload(
        "digests",
        "W14: the cost of SHA-256, for JPEG files to TFRecord",
        make="images",
        records=6000,
        quick=300,
        contenders=(
            job({"source": IMAGES}),
            job({"source": IMAGES}, name="ours, without SHA-256", digests=False),
            limit("SHA-256 alone, 1 thread", "sha256-by-one"),
            digest(),
        ),
        goals={"ours, without SHA-256": 0.9},
        limit="SHA-256 and write alone",
        check="raw",
        against=Against("contents", "files"),
    ),
    *(
        Workload(
            name,
            f"W15: planning a simulated listing of {records:,} files",
            make="nothing",
            records=records,
            quick=20_000,
            contenders=(ours("plan", {"spec": _PLANNED}, writes=False),),
            bounds={"ours": ("records/s", 300_000)},
        )
        for name, records in (("plan", 1_000_000), ("plan-large", 10_000_000))
    ),
    Workload(
        "plan-far",
        "W15: planning 400 Parquet files in a store in which each request takes 20 ms",
        make="parquet_files",
        records=40_000,
        quick=4000,
        contenders=(
            ours("plan-far", {"spec": _FAR, "in_order": False}, writes=False),
            ours("plan-far", {"spec": _FAR, "in_order": True}, name="ours, one file after the other", writes=False),
        ),
        goals={"ours, one file after the other": 5},
    ),
    Workload(
        "spark",
        "W16: a DataFrame of 22 columns in Spark's memory to TFRecord, compared with Spark's own Parquet",
        make="parquet_table",
        records=500_000,
        quick=40_000,
        contenders=spark_writers(),
        goals={"df.write.parquet": 0.7, "tensorflow-hadoop": 3},
        check="columns",
        against=Against("columns", "columns"),
    ),
    Workload(
        "scaling",
        "Scaling: CSV of 22 columns to TFRecord in 8 shards, 2 processes compared with 1",
        make="csv_table",
        records=6_000_000,
        quick=20_000,
        contenders=(
            job(_CSV, {"shards": {"count": 8}}, workers=2),
            job(_CSV, {"shards": {"count": 8}}, name="ours, 1 process"),
            job(_CSV, {"shards": {"count": 8}}, name="ours, 1 process, 1 core", cores=1),
            *libraries("rows", str(_ROW_BYTES)),
        ),
        goals={"ours, 1 process": 1.8, "ours, 1 process, 1 core": 1.8},
        gains=dict.fromkeys(("ours, 1 process", "ours, 1 process, 1 core"), (TWO_CORES, ONE_CORE)),
        check="raw",
        against=Against("columns", "columns"),
    ),
    Workload(
        "overlap",
        "Overlap: files that arrive 2 ms late, and 18 ms of computing for each file (a ratio of 1 means that computing never pauses)",
        make="images",
        records=200,
        quick=50,
        contenders=(ours("overlap", {"spec": _SLOW}), limit("computing alone", "compute")),
        goals={"computing alone": 0.98},
        against=Against("contents", "files"),
    ),
    Workload(
        "small-job",
        "Start: the command `dataprep run` on MNIST's 70,000 records, compared with an empty Python",
        make="idx",
        records=70_000,
        quick=70_000,
        contenders=(command("ours", *_SMALL_JOB), command("an empty Python", "-c", "pass")),
        bounds={"ours": ("s", 1.5)},
        limit="an empty Python",
        against=Against("digits", "idx"),
    ),
    Workload(
        "start",
        "Start: `dataprep --help` and a converter pod's imports, compared with an empty Python",
        make="nothing",
        records=1,
        quick=1,
        contenders=(
            command("ours", "-m", "dataprep_converter", "--help"),
            command("a converter pod's imports", "-c", _IMPORTS),
            command("an empty Python", "-c", "pass"),
        ),
        bounds={"ours": ("s", 0.15), "a converter pod's imports": ("s", 0.6)},
        limit="an empty Python",
    ),
)
