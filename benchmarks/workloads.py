"""The workloads: their data, who takes part, and the goals. A goal is the least speed of ours as a multiple of a contender's."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from benchmarks.contenders import Command, Contender, Role, limit, ours, tensorflow
from benchmarks.measuring import ROOT

_ONE_FILE: Final[Mapping[str, Any]] = {"uri": "OUTPUT", "shards": {"count": 1}}
_IMAGES: Final[Mapping[str, Any]] = {"images": {"uris": ["INPUT"]}}
_THREE: Final = [{"name": "image/encoded"}, {"name": "image/class/text"}]
_DECODED: Final[Mapping[str, Any]] = {
    "source": {"images": {"uris": ["INPUT"], "labelFrom": "None"}},
    "transforms": [{"decode": {"channels": 3}}, {"cropOrPad": {"height": 482, "width": 415}}, {"standardize": {"dtype": "float16"}}],
    "features": [{"name": "image"}],
}
_RESIZED: Final = [{"resize": {"shortestSide": 256}}, {"encode": {"format": "Jpeg", "quality": 95}}]
_JOINED: Final[Mapping[str, Any]] = {
    "source": {
        "join": {
            "keys": ["id"],
            "tables": [{"name": name, "source": {"parquet": {"uris": [f"INPUT/{name}.parquet"]}}} for name in ("left", "right")],
        }
    }
}
_VAHIDK: Final = {"peer": "vahidk", "environment": "tfrecord"}


@dataclass(frozen=True)
class Workload:
    """One table of the report."""

    name: str
    title: str
    make: str
    """Which of `inputs` makes the data."""
    records: int
    quick: int
    """Records in quick mode."""
    contenders: Sequence[Contender]
    goals: Mapping[str, float] = field(default_factory=dict)
    check: str = ""
    """How the outputs are read back; empty where nothing is written, or where nothing but ours could read it."""
    prepare: Contender | None = None
    """What makes the input of the data, when that is not the data itself."""
    server: str = ""
    """Which of `servers` it goes to."""


def _job(
    spec: Mapping[str, Any],
    output: Mapping[str, Any] | None = None,
    *,
    workers: int = 1,
    name: str = "ours",
    memory_bytes: int | None = None,
) -> Contender:
    options: dict[str, Any] = {"spec": {**spec, "output": {**_ONE_FILE, **(output or {})}}, "workers": workers}
    return ours("job", options | ({"memory_bytes": memory_bytes} if memory_bytes is not None else {}), name=name)


def _encode(output: Mapping[str, Any] | None = None, *, labels: Sequence[str] = (), place: str | None = None) -> Contender:
    options: dict[str, Any] = {"output": output or {}, "labels": labels}
    return ours("encode", options | ({"place": place} if place else {}), writes=place is None)


def _uploads(client: str, name: str = "", *, peer: str = "", environment: str | None = None) -> Contender:
    role: Role = "ours" if client == "ours" else "peer"
    return Contender(name or client, role, "uploads.py", client, peer=peer or client, environment=environment)


def _started(name: str, *words: str) -> Command:
    return Command(name, "ours" if name == "ours" else "limit", "", "", options=words, writes=False)


def _files(to: Mapping[str, Any], spec: Mapping[str, Any] | None = None) -> Contender:
    return _job({"source": _IMAGES, "features": _THREE[:1], **(spec or {})}, to)


WORKLOADS: Final[Sequence[Workload]] = (
    Workload(
        "images",
        "W1: JPEG files to TFRecord, their bytes as they are, file to file",
        make="images",
        records=6000,
        quick=600,
        contenders=(
            _job({"source": _IMAGES, "features": _THREE}),
            tensorflow("images", 1.0),
            Contender("vahidk tfrecord", "peer", "vahidk_records.py", "images", share=0.5, **_VAHIDK),  # type: ignore[arg-type]
            limit("cat FILES > file", "cat"),
            limit("write alone", "write"),
            limit("CRC-32C alone", "crc"),
        ),
        goals={"TensorFlow": 1.4, "cat FILES > file": 0.9},
        check="tfrecord",
    ),
    Workload(
        "idx",
        "W3: MNIST's IDX files to TFRecord, file to file",
        make="idx",
        records=300_000,
        quick=60_000,
        contenders=(
            _job({"source": {"idx": {"subsets": [{"name": "all", "images": "INPUT/images.idx", "labels": "INPUT/labels.idx"}]}}, "features": [{"name": "image"}]}),
            tensorflow("idx", 0.2),
            limit("write alone", "write"),
        ),
        goals={"TensorFlow": 25},
        check="tfrecord",
    ),
    Workload(
        "table",
        "W3: a table of 22 columns in memory to TFRecord",
        make="table",
        records=1_000_000,
        quick=100_000,
        contenders=(
            _encode(),
            tensorflow("table", 0.05),
            Contender("vahidk tfrecord", "peer", "vahidk_records.py", "table", share=0.05, **_VAHIDK),  # type: ignore[arg-type]
        ),
        goals={"TensorFlow": 80},
        check="tfrecord",
    ),
    Workload(
        "csv",
        "W3b: CSV of 22 columns to TFRecord, file to file",
        make="csv_table",
        records=1_000_000,
        quick=100_000,
        contenders=(
            _job({"source": {"csv": {"uris": ["INPUT/table.csv"], "header": True}}}),
            tensorflow("csv", 0.05, name="csv module and TensorFlow"),
            limit("pyarrow reading, 1 thread", "csv", "arrow_reading.py", options=("1",)),
            limit("pyarrow reading, 2 threads", "csv", "arrow_reading.py", options=("2",)),
        ),
        goals={"csv module and TensorFlow": 30, "pyarrow reading, 1 thread": 0.65},
        check="tfrecord",
    ),
    Workload(
        "parquet",
        "W3c: Parquet of 22 columns to TFRecord, file to file",
        make="parquet_table",
        records=1_000_000,
        quick=100_000,
        contenders=(
            _job({"source": {"parquet": {"uris": ["INPUT/table.parquet"]}}}),
            tensorflow("parquet", 0.05, name="pyarrow and TensorFlow"),
            limit("pyarrow reading, 1 thread", "parquet", "arrow_reading.py", options=("1",)),
            limit("pyarrow reading, 2 threads", "parquet", "arrow_reading.py", options=("2",)),
        ),
        goals={"pyarrow and TensorFlow": 30, "pyarrow reading, 1 thread": 0.65},
        check="tfrecord",
    ),
    Workload(
        "ragged",
        "W4: texts and lists of numbers of any length, in memory, to TFRecord",
        make="ragged",
        records=500_000,
        quick=60_000,
        contenders=(_encode(), tensorflow("ragged", 0.1)),
        goals={"TensorFlow": 40},
        check="tfrecord",
    ),
    Workload(
        "sequences",
        "W5: SequenceExamples of 50 steps of 20 floats, in memory, to TFRecord",
        make="sequences",
        records=60_000,
        quick=8_000,
        contenders=(_encode(), tensorflow("sequences", 0.15)),
        goals={"TensorFlow": 18},
        check="sequences",
    ),
    Workload(
        "recordio",
        "W6: 784 floats and a label, in memory, to SageMaker's RecordIO",
        make="dense",
        records=100_000,
        quick=20_000,
        contenders=(
            _encode({"format": "recordioProtobuf"}, labels=["label"]),
            Contender(
                "SageMaker's SDK 2", "peer", "sagemaker_recordio.py", "dense", peer="sagemaker", environment="sagemaker", share=0.1
            ),
            limit("write alone", "write"),
        ),
        goals={"SageMaker's SDK 2": 60},
        check="recordio",
    ),
    Workload(
        "decode",
        "W2: JPEG decoded, cropped or padded to 482 x 415, standardized, as float16, to TFRecord",
        make="images",
        records=1000,
        quick=150,
        contenders=(
            _job(_DECODED),
            _job(_DECODED, {"shards": {"count": 4}}, workers=2, name="ours, 2 processes"),
            *(
                Contender(
                    f"tf.data, {name}, {threads} thread{'s' * (threads > 1)}",
                    "peer",
                    "tensorflow_decoding.py",
                    kind,
                    peer="tf",
                    options=(str(threads),),
                )
                for kind, name, threads in (("whole", "decode_jpeg", 2), ("cropped", "decode_and_crop_jpeg", 2), ("cropped", "decode_and_crop_jpeg", 1))
            ),
            limit("decoding alone", "decode"),
        ),
        goals={"tf.data, decode_and_crop_jpeg, 1 thread": 2.0, "tf.data, decode_and_crop_jpeg, 2 threads": 2.0},
        check="decoded",
    ),
    Workload(
        "resize",
        "W2b: JPEG decoded, shortest side to 256, encoded again, to TFRecord",
        make="images",
        records=1000,
        quick=150,
        contenders=(
            _job({**_DECODED, "source": _IMAGES, "transforms": [{"decode": {"channels": 3}}, *_RESIZED], "features": [{"name": "image/encoded"}]}),
            limit("decoding alone", "decode"),
        ),
    ),
    Workload(
        "sequencefile",
        "W7: JPEG files to Hadoop's SequenceFile, file to file",
        make="images",
        records=6000,
        quick=600,
        contenders=(
            _job({"source": {"images": {"uris": ["INPUT"], "labelFrom": "None"}}, "transforms": [{"select": {"columns": ["image/filename", "image/encoded"]}}], "features": [{"name": "image/filename"}, {"name": "image/encoded"}]}, {"format": "sequenceFile", "sequenceFile": {"key": "image/filename", "value": "Feature"}}),
            limit("cat FILES > file", "cat"),
            limit("write alone", "write"),
        ),
        goals={"cat FILES > file": 0.9},
    ),
    Workload(
        "npz",
        "W8: 784 floats and a label, in memory, to npz",
        make="dense",
        records=50_000,
        quick=20_000,
        contenders=(
            _encode({"format": "npz"}),
            Contender("numpy.savez", "peer", "numpy_npz.py", "savez", peer="numpy"),
            limit("write alone", "write"),
        ),
        goals={"numpy.savez": 1.7},
        check="npz",
    ),
    Workload(
        "webdataset",
        "W9: JPEG files to WebDataset, file to file",
        make="images",
        records=6000,
        quick=600,
        contenders=(
            _files({"format": "webdataset"}),
            Contender("webdataset", "peer", "webdataset_tar.py", "images", peer="webdataset", environment="webdataset"),
            limit("cat FILES > file", "cat"),
            limit("write alone", "write"),
        ),
        goals={"cat FILES > file": 0.9},
        check="webdataset",
    ),
    Workload(
        "webdataset-small",
        "W9: pictures of 600 bytes and a class, in memory, to WebDataset",
        make="small_samples",
        records=200_000,
        quick=20_000,
        contenders=(
            _encode({"format": "webdataset", "webdataset": {"extensions": {"jpg": "jpg"}}}),
            Contender("webdataset", "peer", "webdataset_tar.py", "samples", peer="webdataset", environment="webdataset", share=0.2),
            limit("write alone", "write"),
        ),
        goals={"webdataset": 8},
        check="webdataset",
    ),
    Workload(
        "shuffle",
        "W10: MNIST's IDX files to TFRecord in random order",
        make="idx",
        records=300_000,
        quick=60_000,
        contenders=(
            _job({"source": {"idx": {"subsets": [{"name": "all", "images": "INPUT/images.idx", "labels": "INPUT/labels.idx"}]}}, "shuffle": {"seed": 1}}),
            _job({"source": {"idx": {"subsets": [{"name": "all", "images": "INPUT/images.idx", "labels": "INPUT/labels.idx"}]}}}, name="ours, in order"),
        ),
        goals={"ours, in order": 0.9},
    ),
    Workload(
        "join",
        "W11: two Parquet tables by key, in other orders, to TFRecord in the order of the keys",
        make="two_tables",
        records=5_000_000,
        quick=100_000,
        contenders=(
            _job(_JOINED),
            _job(_JOINED, name="ours, 512 MiB", memory_bytes=512 << 20),
            Contender("DuckDB to Parquet", "peer", "duckdb_join.py", "join", peer="duckdb"),
        ),
        goals={"DuckDB to Parquet": 0.7},
    ),
    Workload(
        "verify",
        "W12: every byte of a TFRecord data set of JPEG files verified",
        make="images",
        records=6000,
        quick=600,
        contenders=(ours("verify", {}, writes=False), limit("read alone", "read"), limit("CRC-32C alone", "crc")),
        goals={"read alone": 0.85},
        prepare=_job({"source": _IMAGES, "features": _THREE}, {"shards": {"count": 8}}),
    ),
    Workload(
        "upload-s3",
        "W13: a file to an S3 server (versitygw) on loopback",
        make="one_object",
        records=512,
        quick=64,
        contenders=(_uploads("ours"), _uploads("obstore"), _uploads("boto3", environment="sagemaker")),
        goals={"obstore": 0.8, "boto3": 0.8},
        check="uploaded",
        server="s3",
    ),
    Workload(
        "upload-oss",
        "W13: a file to the OSS fake on loopback",
        make="one_object",
        records=512,
        quick=64,
        contenders=(
            _uploads("ours"),
            _uploads("oss-parts", "the SDK's parts, one at a time", peer="oss"),
            _uploads("oss-uploader", "the SDK's parts, three at a time", peer="oss"),
            _uploads("oss-put", "the SDK's put in one request", peer="oss"),
        ),
        goals={"the SDK's parts, one at a time": 1.0, "the SDK's parts, three at a time": 0.8, "the SDK's put in one request": 0.8},
        check="uploaded",
        server="oss",
    ),
    Workload(
        "upload-hdfs",
        "W13: a file to HDFS (a NameNode and a DataNode) on loopback",
        make="one_object",
        records=512,
        quick=64,
        contenders=(_uploads("ours"), _uploads("hdfs-native", peer="hdfs"), _uploads("dfs-put", "hdfs dfs -put", peer="hdfs")),
        goals={"hdfs-native": 0.8, "hdfs dfs -put": 0.8},
        check="uploaded",
        server="hdfs",
    ),
    Workload(
        "extras",
        "W14: indexes and statistics, of a Parquet table of 22 columns",
        make="parquet_table",
        records=1_000_000,
        quick=100_000,
        contenders=(
            _job({"source": {"parquet": {"uris": ["INPUT/table.parquet"]}}}),
            _job({"source": {"parquet": {"uris": ["INPUT/table.parquet"]}}}, {"index": False, "statistics": "ClassCounts"}, name="ours, without"),
            _job({"source": {"parquet": {"uris": ["INPUT/table.parquet"]}}}, {"index": False}, name="ours, without indexes"),
        ),
        goals={"ours, without": 0.92},
    ),
    Workload(
        "plan",
        "W15: the plan of a listing of files (simulated)",
        make="nothing",
        records=1_000_000,
        quick=100_000,
        contenders=(ours("plan", {"spec": {"source": {"images": {"uris": ["/simulated"]}}, "output": {"uri": "/nowhere"}}}, writes=False),),
    ),
    Workload(
        "small-job",
        "Start: `dataprep run` of MNIST's 70,000 records as a command, beside an empty Python",
        make="idx",
        records=70_000,
        quick=70_000,
        contenders=(
            _started("ours", "-m", "dataprep_converter", "run", str(ROOT / "benchmarks/small_job.yaml"), "--set", "params.input=INPUT", "--set", "output.uri=OUTPUT", "--quiet"),
            _started("an empty Python", "-c", "pass"),
        ),
    ),
    Workload(
        "start",
        "Start: `dataprep --help` beside an empty Python",
        make="nothing",
        records=1,
        quick=1,
        contenders=(
            _started("ours", "-m", "dataprep_converter", "--help"),
            _started("an empty Python", "-c", "pass"),
            _started("what a converter pod imports", "-c", "from dataprep_converter import without_pandas; without_pandas.hide(); import dataprep_converter.working, dataprep_converter.readers.idx, dataprep_converter.encoders.tfrecord"),
        ),
    ),
)  # fmt: skip
