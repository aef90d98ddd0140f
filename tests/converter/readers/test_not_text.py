"""If a job reads a binary file as text, the error names the file and the source that can read it."""

import sqlite3
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.feather
import pyarrow.orc
import pyarrow.parquet
import pytest
from PIL import Image
from tests.builders.archives import a_zip
from tests.converter.readers.reader_contract import plan

from dataprep_api.spec import Source
from dataprep_converter.core.errors import BadSpec
from dataprep_converter.readers import reader_class

_parquet: Any = pyarrow.parquet  # these modules have no type stubs
_feather: Any = pyarrow.feather
TABLE = pa.table({"x": [1, 2]})


def sqlite(path: Path) -> None:
    with closing(sqlite3.connect(path)) as database:
        database.execute("create table a (b)")


def an_array(path: Path) -> None:
    with path.open("wb") as file:
        np.save(file, np.zeros(3))


BINARIES: dict[str, tuple[Callable[[Path], Any], str]] = {
    "Parquet": (lambda path: _parquet.write_table(TABLE, path), "is a Parquet file: use source.parquet."),
    "Arrow": (lambda path: _feather.write_feather(TABLE, str(path)), "is an Arrow file: use source.arrow."),
    "ORC": (lambda path: pyarrow.orc.write_table(TABLE, str(path)), "is an ORC file: use source.orc."),
    "Avro": (lambda path: path.write_bytes(b"Obj\x01\x02"), "is an Avro file: use source.avro."),
    "Excel": (
        lambda path: path.write_bytes(a_zip({"[Content_Types].xml": b"<Types/>", "xl/workbook.xml": b"<workbook/>"})),
        "is an Excel workbook: save each sheet as CSV, or convert it to Parquet.",
    ),
    "zip": (lambda path: path.write_bytes(a_zip({"a.txt": b"x\n"})), "is a zip archive: end its URI with !/ to read the files within it."),
    "SQLite": (sqlite, "is a SQLite database: use source.sql."),
    "PNG": (lambda path: Image.new("RGB", (2, 2)).save(path, "PNG"), "is a PNG picture: use source.images."),
    "numpy": (an_array, "is a numpy array: use source.numpy."),
}


@pytest.mark.parametrize("kind", ["csv", "jsonl"])
@pytest.mark.parametrize(("make", "message"), BINARIES.values(), ids=BINARIES.keys())
def test_a_binary_file_is_named(make: Callable[[Path], Any], message: str, kind: str, tmp_path: Path) -> None:
    make(tmp_path / "a.csv")
    source = Source.model_validate({kind: {"uris": [str(tmp_path / "a.csv")]}})
    with pytest.raises(BadSpec) as refused:
        plan(reader_class(kind), source)
    assert str(refused.value) == f"{tmp_path}/a.csv {message}"


@pytest.mark.parametrize("header", ["PAR,PK", "PAR1,PAR2", "ORCID,name"])
def test_text_that_begins_like_a_magic_number_is_text(header: str, tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_text(f"{header}\n1,2\n")
    units, _ = plan(reader_class("csv"), Source.model_validate({"csv": {"uris": [str(tmp_path / "a.csv")], "header": True}}))
    assert units.samples == 1
