"""Hadoop's readers and `hadoop fs -text` read sequenceFile and mapFile, and DL4J reads the records; Hadoop's writers make the same
files."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Final

import numpy as np
import pyarrow as pa
import pytest
from tests.availability import unavailable
from tests.converter.formats.hadoop_files import Made
from tests.interop import data_sets
from tests.interop.comparisons import compared

import javareaders
from dataprep_converter.formats.hadoop.sequence_file_encoder import MARKER, header
from dataprep_converter.formats.tfrecord.records import parse_example
from storeservers import cache

pytestmark = pytest.mark.interop

PROGRAM: Final = Path(__file__).parent / "readers" / "HadoopFiles.java"
VERSIONS: Final = {"hadoop-common": "3.4.1", "datavec-hadoop": "1.0.0-beta6"}
COMPRESSIONS: Final = ("None", "Record", "Block")
CSV: Final = ["Float"] * 5 + ["Double", "Long", "Text", "Text", "Text", "Long"]
"""DL4J's types for the fields of `csv`."""
SETS: Final[Mapping[str, tuple[str, str, dict[str, Any]]]] = {
    "idx features": ("idx", "sequenceFile", {"key": "label", "value": "Feature"}),
    "idx examples": ("idx", "sequenceFile", {"compression": "Block"}),
    "idx records": ("idx", "mapFile", {"compression": "Block"}),
    "csv keyed": ("csv", "sequenceFile", {"key": "name", "value": "Record", "compression": "Record"}),
    "csv examples": ("csv", "mapFile", {"value": "Example", "indexInterval": 7}),
    "csv records": ("csv", "mapFile", {}),
    "libsvm mapped examples": ("libsvm", "mapFile", {"value": "Example"}),
    "libsvm examples": ("libsvm", "sequenceFile", {"compression": "Record"}),
    "libsvm features": ("libsvm", "sequenceFile", {"key": "label", "value": "Feature", "compression": "Block"}),
}
"""The (source, format, options) of each data set."""
INTERVALS: Final = {"idx records": 1, "csv examples": 7, "csv records": 1, "libsvm mapped examples": 1}
"""The interval of each data set's index."""
RECORDS: Final = ("csv records", "idx records")
"""The data sets that DL4J's readers can read."""
STEPS: Final = [[(number * 10 + step, -step / 4) for step in range(number % 4 + 1)] for number in range(1, 12)]
"""Walks with two values per step. A walk's class is its number modulo 2."""
SIZES: Final = [number * 7 % 2000 for number in range(1100)]
BIG: Final = {
    "k": pa.array([f"{number:07d}" for number in range(len(SIZES))]),
    "v": pa.array([np.random.default_rng(size).bytes(size) for size in SIZES]),
}
"""Enough records for several sync markers and more than one block."""


def walks(folder: Path) -> Path:
    """Sequences in two shards."""
    (folder / "input").mkdir(parents=True)
    for number, steps in enumerate(STEPS):
        (folder / "input" / f"{number:02d}.csv").write_text("".join(f"{a},{b},{number % 2}\n" for a, b in steps))
    types = {"a": "Int64", "b": "Float64", "kind": "Int64"}
    columns = [{"name": name, "type": kind} for name, kind in types.items()]
    data_sets.convert(
        {
            "source": {"csvSequences": {"uris": [str(folder / "input")], "columns": columns, "perSequence": ["kind"]}},
            "features": [{"name": "a"}, {"name": "b"}],
            "labels": [{"name": "kind"}],
            "output": {"uri": str(folder / "output"), "format": "mapFile", "shards": {"count": 2}},
        }
    )
    return folder / "output"


def ragged(folder: Path, inputs: Path, output: Mapping[str, Any]) -> Path:
    """Records with a list of any length and an integer."""
    data_sets.convert(
        {
            "source": {"libsvm": {"uris": [str(inputs)]}},
            "features": [{"name": "values"}],
            "labels": [{"name": "label", "dtype": "int64"}],
            "output": {"shards": {"count": data_sets.SHARDS}, **output, "uri": str(folder / "output")},
        }
    )
    return folder / "output"


class Hadoop:
    """Collects all requests to the Java program, so that a single run can handle them."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.outputs: dict[str, Path] = {}
        self._asked: list[list[str]] = []
        self._found: list[list[list[str]]] = []
        self._names: dict[tuple[str, ...], int] = {}

    def ask(self, name: tuple[str, ...], what: str, file: Path, copy: str = "-") -> None:
        self._names[name] = len(self._asked)
        self._asked.append([what, str(file), copy])

    def run(self) -> None:
        # Without a core-site.xml on the class path, `hadoop fs` warns that it can't find one.
        (self.folder / "conf").mkdir()
        (self.folder / "conf" / "core-site.xml").write_text("<configuration/>")
        try:
            jars = javareaders.classpath("datavec")
            said = javareaders.run(
                [PROGRAM], "HadoopFiles", f"{self.folder / 'conf'}:{jars}", [word for ask in self._asked for word in ask]
            )
        except cache.BuildFailed as exc:
            unavailable(f"Hadoop's and DL4J's readers need a JDK and Maven: {exc}")
        self._found = [[] for _ in self._asked]
        for line in said.splitlines():
            number, *fields = line.split("\t")
            self._found[int(number)].append(fields)

    def lines(self, *name: str, kind: str | None = None) -> list[list[str]]:
        """All output lines, or only those of one kind."""
        found = self._found[self._names[name]]
        return [fields[1:] if kind else fields for fields in found if kind in (None, fields[0])]


@pytest.fixture(scope="module")
def hadoop(tmp_path_factory: pytest.TempPathFactory) -> Hadoop:
    hadoop = Hadoop(tmp_path_factory.mktemp("hadoop"))
    copies = hadoop.folder / "copies"
    for name, (source, format_, options) in SETS.items():
        place = hadoop.folder / name.replace(" ", "-")
        written = {"format": format_, format_: options}
        lists = hadoop.folder / "libsvm-examples" / "input"
        output = ragged(place, lists, written) if name == "libsvm features" else data_sets.made(source, place, output=written)
        hadoop.outputs[name] = output
        for part in data_sets.shards(output):
            interval = f"{INTERVALS[name]}:" if name in INTERVALS else ""
            what = "map" if name in INTERVALS else "sequence"
            hadoop.ask((name, part.name), what, part, f"{interval}{copies / output.parent.name / part.name}")
    hadoop.outputs["walks"] = walks(hadoop.folder / "walks")
    hadoop.ask(("text",), "text", hadoop.outputs["csv keyed"] / "part-r-00001")
    for name in RECORDS:
        hadoop.ask(("records", name), "records", hadoop.outputs[name])
    hadoop.ask(("sequences",), "sequences", hadoop.outputs["walks"])
    for compression in COMPRESSIONS:
        for format_, what in (("sequenceFile", "sequence"), ("mapFile", "map")):
            made = big(format_, compression)
            place = hadoop.folder / f"{format_}-{compression}"
            if what == "map":
                place.mkdir()
                (place / "index").write_bytes(made.index)
            (place / "data" if what == "map" else place).write_bytes(made.data)
            hadoop.ask((format_, compression), what, place, f"{'128:' if what == 'map' else ''}{copies / place.name}")
    hadoop.run()
    return hadoop


def big(format_: Any, compression: str) -> Made:
    return Made(BIG, format_=format_, key="k", value="Feature", compression=compression)


# --- expected values -------------------------------------------------------------------------------------------


def values(shown: str) -> list[Any]:
    """Parses the Java program's notation. 32-bit floats become numpy float32 values."""
    kind, _, rest = shown.partition(" ")
    if kind in ("Text", "Bytes"):
        return [bytes.fromhex(rest)]
    if kind.lower().startswith("float"):
        return [np.float32(word) for word in rest.split()]
    return [(float if kind.lower().startswith("double") else int)(word) for word in rest.split()]


def record(shown: str) -> list[tuple[str, Any]]:
    """(type, value) of each value in a DL4J record."""
    return [(each.partition(" ")[0], *(values(each) or [b""])) for each in shown.split("|")]


def expected_record(row: data_sets.Row, *, without: Sequence[str] = ()) -> list[tuple[str, Any]]:
    places = [(name, value) for name, found in row.items() for value in found]
    kinds = CSV if "measures" in row else ["Int"] * 784 + ["Long"]
    typed = []
    for kind, (name, value) in zip(kinds, places, strict=True):
        if name not in without:
            typed.append((kind, np.float32(value) if kind == "Float" else value.encode() if kind == "Text" else value))
    return typed


def expected_example(row: data_sets.Row, *, source: str) -> dict[str, list[Any]]:
    """The values as a tf.train.Example stores them: all floats as float32, and pixels and text as bytes."""
    if source == "idx":
        return {"image": [bytes(row["image"])], "label": row["label"]}
    made = {}
    for name, found in row.items():
        floats = name in ("measures", "exact", "values")
        made[name] = [np.float32(value) if floats else value.encode() if isinstance(value, str) else value for value in found]
    return made


def example(shown: str) -> dict[str, list[Any]]:
    return {
        name: [np.float32(value) if isinstance(value, float) else value for value in found]
        for name, found in parse_example(*values(shown)).items()
    }


def pairs(hadoop: Hadoop, name: str) -> list[list[str]]:
    """Key and value of each record in a data set."""
    return [pair for part in data_sets.shards(hadoop.outputs[name]) for pair in hadoop.lines(name, part.name, kind="pair")]


def agree(name: str, reader: str) -> None:
    source, format_, _ = SETS[name]
    fields = ("values", "label") if name == "libsvm features" else data_sets.rows(source)[0]
    compared(format=format_, reader=reader, versions=VERSIONS, source=source, records=data_sets.COUNT, fields=fields)


@pytest.mark.parametrize("name", SETS)
def test_hadoop_reads_every_field_of_every_record(hadoop: Hadoop, name: str) -> None:
    source, format_, options = SETS[name]
    rows = data_sets.rows(source)
    found = pairs(hadoop, name)
    keys, objects = [values(key)[0] for key, _ in found], [value for _, value in found]
    if "key" in options:
        wanted = [row[options["key"]][0] for row in rows]
        assert keys == [value.encode() if isinstance(value, str) else value for value in wanted]
    else:
        assert keys == list(range(data_sets.COUNT))
    match name.split()[-1]:
        case "features" if source == "idx":
            assert [values(each) for each in objects] == [[bytes(row["image"])] for row in rows]
        case "features":
            assert [values(each) for each in objects] == [[np.float32(value) for value in row["values"]] for row in rows]
        case "examples":
            assert [example(each) for each in objects] == [expected_example(row, source=source) for row in rows]
        case "keyed":
            assert [record(each) for each in objects] == [expected_record(row, without=["name"]) for row in rows]
        case _:
            assert [record(each) for each in objects] == [expected_record(row) for row in rows]
    agree(name, "`MapFile.Reader`" if format_ == "mapFile" else "`SequenceFile.Reader`")


@pytest.mark.parametrize("name", INTERVALS)
def test_a_map_file_gives_the_value_of_each_key(hadoop: Hadoop, name: str) -> None:
    for part in data_sets.shards(hadoop.outputs[name]):
        assert hadoop.lines(name, part.name, kind="got") == hadoop.lines(name, part.name, kind="pair")[::-1]


def test_hadoop_fs_text_shows_a_line_for_each_record(hadoop: Hadoop) -> None:
    found = hadoop.lines("text")
    rows = data_sets.rows("csv")[40:80]
    assert [fields[:2] for fields in found] == [["0", row["name"][0]] for row in rows]
    assert all(
        "RecordWritable(record=[" in fields[2] and f", {row['id'][0]}, " in fields[2] for fields, row in zip(found, rows, strict=True)
    )


@pytest.mark.parametrize("name", RECORDS)
def test_dl4j_reads_every_value_of_every_record_in_order_and_by_number(hadoop: Hadoop, name: str) -> None:
    expected = [expected_record(row) for row in data_sets.rows(SETS[name][0])]
    assert [record(*fields) for fields in hadoop.lines("records", name, kind="record")] == expected
    got = {int(number): record(shown) for number, shown in hadoop.lines("records", name, kind="got")}
    assert got == dict(enumerate(expected))
    agree(name, "DL4J's `MapFileRecordReader` and `MapFileReader`")


def test_dl4j_reads_sequences_with_the_label_in_each_step(hadoop: Hadoop) -> None:
    found = [[record(step) for step in shown.split(";")] for (shown,) in hadoop.lines("sequences", kind="record")]
    assert found == [[[("Long", a), ("Double", b), ("Long", number % 2)] for a, b in steps] for number, steps in enumerate(STEPS)]
    compared(
        format="mapFile",
        reader="DL4J's `MapFileSequenceRecordReader`",
        versions=VERSIONS,
        source="csvSequences",
        records=len(STEPS),
        fields=["a", "b", "kind"],
    )


# --- Hadoop's writers ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize("format_", ["sequenceFile", "mapFile"])
def test_hadoop_s_own_writer_makes_the_same_uncompressed_file(hadoop: Hadoop, format_: str) -> None:
    ours = big(format_, "None")
    theirs = (hadoop.folder / "copies" / f"{format_}-None" / ("data" if format_ == "mapFile" else "")).read_bytes()
    key, value, _ = hadoop.lines(format_, "None", kind="classes")[0]
    # The file's sync marker is random, so read it from the file.
    begin = len(header(key, value, "None", b""))
    assert theirs.count(theirs[begin : begin + MARKER]) > 5
    assert theirs.replace(theirs[begin : begin + MARKER], ours.data[begin : begin + MARKER]) == ours.data


@pytest.mark.parametrize("compression", COMPRESSIONS)
@pytest.mark.parametrize("format_", ["sequenceFile", "mapFile"])
def test_our_decoder_reads_what_hadoop_s_own_writer_makes(hadoop: Hadoop, format_: str, compression: str) -> None:
    ours = big(format_, compression)
    theirs = (hadoop.folder / "copies" / f"{format_}-{compression}" / ("data" if format_ == "mapFile" else "")).read_bytes()
    assert [pair for _, pair in ours.pairs(theirs)] == [pair for _, pair in ours.pairs()]
    assert [len(shown) > 6 for _, shown in hadoop.lines(format_, compression, kind="pair")] == [size > 0 for size in SIZES]


@pytest.mark.parametrize("compression", COMPRESSIONS)
def test_hadoop_s_own_writer_makes_the_same_index(hadoop: Hadoop, compression: str) -> None:
    ours = big("mapFile", compression)
    theirs = ours.entries((hadoop.folder / "copies" / f"mapFile-{compression}" / "index").read_bytes())
    # Offsets in a compressed file depend on the zlib version.
    parts = slice(0, 2 if compression == "None" else 1)
    assert [entry[parts] for entry in theirs] == [entry[parts] for entry in ours.entries()]
    assert len(theirs) == (2 if compression == "Block" else 9)
