"""Workloads with rows of numbers and texts: W3 to W6 and W8."""

from collections.abc import Sequence
from typing import Final

from benchmarks.contenders import Contender, digest, limit, ray, sagemaker, spark, tensorflow, tfds, vahidk, write
from benchmarks.workload import IDX, PARQUET, Against, Workload, encode, job

_IMAGE_BYTES: Final = 838
_ROW_BYTES: Final = 363
_DENSE_BYTES: Final = 3184
_SPARSE_BYTES: Final = 356
_MATRIX_BYTES: Final = 3140
"""Average sizes in bytes of records with 28 x 28 bytes, with 22 numbers, with 784 floats as RecordIO, with 50 of 10,000 floats as RecordIO,
and with 784 floats as npz."""


def _reading(kind: str, threads: int) -> Contender:
    name = f"pyarrow reading, {threads} thread{'s' * (threads > 1)}"
    return limit(name, kind, "arrow_reading.py", options=(str(threads),))


WORKLOADS: Final[Sequence[Workload]] = (
    Workload(
        "idx",
        "W3: MNIST's IDX files to TFRecord, file to file",
        make="idx",
        records=300_000,
        quick=20_000,
        contenders=(job({"source": IDX, "features": [{"name": "image"}]}), tensorflow("idx", 0.2), write(_IMAGE_BYTES), digest(_IMAGE_BYTES)),
        goals={"TensorFlow": 25},
        limit="SHA-256 and write alone",
        check="tfrecord",
        against=Against("digits", "idx"),
    ),
    Workload(
        "table",
        "W3: a table of 22 columns in memory to TFRecord",
        make="table",
        records=1_000_000,
        quick=40_000,
        twice=True,
        contenders=(encode(), tensorflow("table", 0.05), vahidk("table", 0.05), tfds("table", 0.02)),
        goals={"TensorFlow": 80},
        check="tfrecord",
        against=Against("columns", "columns"),
    ),
    Workload(
        "arrayrecord",
        "W3: a table of 22 columns in memory to ArrayRecord",
        make="table",
        records=300_000,
        quick=40_000,
        twice=True,
        contenders=(
            encode({"format": "arrayRecord"}),
            Contender("TensorFlow and array_record", "peer", "array_records.py", "table", peer="array_record", share=0.1),
        ),
        check="arrayrecord",
    ),
    Workload(
        "csv",
        "W3b: CSV of 22 columns to TFRecord, file to file",
        make="csv_table",
        records=1_000_000,
        quick=40_000,
        contenders=(
            job({"source": {"csv": {"uris": ["INPUT/table.csv"], "header": True}}}),
            tensorflow("csv", 0.05, name="csv module and TensorFlow"),
            _reading("csv", 1),
            _reading("csv", 2),
        ),
        goals={"csv module and TensorFlow": 30, "pyarrow reading, 1 thread": 0.65},
        limit="pyarrow reading, 2 threads",
        check="tfrecord",
        against=Against("columns", "columns"),
    ),
    Workload(
        "parquet",
        "W3c: Parquet of 22 columns to TFRecord, file to file",
        make="parquet_table",
        records=1_000_000,
        quick=40_000,
        contenders=(
            job({"source": PARQUET}),
            tensorflow("parquet", 0.05, name="pyarrow and TensorFlow"),
            spark("parquet", 0.05),
            ray("parquet", 0.02),
            _reading("parquet", 1),
            _reading("parquet", 2),
            digest(_ROW_BYTES),
        ),
        goals={"pyarrow and TensorFlow": 30, "pyarrow reading, 1 thread": 0.65},
        limit="SHA-256 and write alone",
        check="tfrecord",
        against=Against("columns", "columns"),
    ),
    Workload(
        "ragged",
        "W4: texts and lists of numbers of any length, in memory, to TFRecord",
        make="ragged",
        records=500_000,
        quick=20_000,
        twice=True,
        contenders=(encode(), tensorflow("ragged", 0.1)),
        goals={"TensorFlow": 40},
        check="tfrecord",
    ),
    Workload(
        "sequences",
        "W5: SequenceExamples of 50 steps of 20 floats, in memory, to TFRecord",
        make="sequences",
        records=60_000,
        quick=4_000,
        twice=True,
        contenders=(encode(), tensorflow("sequences", 0.15)),
        goals={"TensorFlow": 18},
        check="sequences",
    ),
    Workload(
        "recordio",
        "W6: 784 floats and a label, in memory, to SageMaker's RecordIO",
        make="dense",
        records=100_000,
        quick=10_000,
        twice=True,
        contenders=(
            encode({"format": "recordioProtobuf"}, labels=["label"]),
            sagemaker("dense", 0.1),
            write(_DENSE_BYTES),
        ),
        goals={"SageMaker's SDK 2": 60},
        limit="write alone",
        check="recordio",
    ),
    Workload(
        "recordio-sparse",
        "W6: sparse vectors with 50 of 10,000 floats, and a label, in memory, to SageMaker's RecordIO",
        make="sparse",
        records=200_000,
        quick=10_000,
        twice=True,
        contenders=(
            encode(
                {"format": "recordioProtobuf", "recordioProtobuf": {"sparse": [{"name": "values", "keys": "keys", "values": "values", "shape": [10_000]}]}},
                labels=["label"],
            ),
            sagemaker("sparse", 0.05),
            write(_SPARSE_BYTES),
        ),
        goals={"SageMaker's SDK 2": 60},
        limit="write alone",
        check="recordio",
    ),
    Workload(
        "npz",
        "W8: 784 floats and a label, in memory, to npz",
        make="dense",
        records=50_000,
        quick=10_000,
        twice=True,
        contenders=(
            encode({"format": "npz"}),
            Contender("numpy.savez", "peer", "numpy_npz.py", "savez", peer="numpy"),
            write(_MATRIX_BYTES),
            limit("CRC-32 and write alone", "sum", options=(str(_MATRIX_BYTES),)),
        ),
        goals={"numpy.savez": 1.7, "write alone": 0.9},
        limit="CRC-32 and write alone",
        check="npz",
    ),
)  # fmt: skip
