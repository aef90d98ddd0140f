"""Each text file is examined on its own. The results don't depend on the order in which the files are read."""

import gzip
import json
import threading
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from dataprep_api.spec import Source
from dataprep_converter.core import native
from dataprep_converter.core.errors import BadData, BadSpec
from dataprep_converter.inputs.access import Access
from dataprep_converter.readers import reader_class
from dataprep_converter.readers.base import examined
from dataprep_converter.readers.text import stretches
from dataprep_converter.readers.text.lines import LIMIT, scan
from dataprep_converter.readers.text_scan import files as text_files
from dataprep_converter.readers.text_scan.files import examined_texts
from dataprep_converter.readers.text_scan.line_rule import LineRule
from dataprep_converter.readers.text_scan.text_file import TextFile
from dataprep_converter.runtime import limits
from dataprep_converter.sampling.units import Unit
from dataprep_converter.stores import Entry, Input

TEXTS: dict[str, Callable[[int], str]] = {
    "csv": lambda number: "".join(f'{number},"a\n{row}"\n' for row in range(40)),
    "jsonl": lambda number: "".join(json.dumps({"x": number, "y": row}) + "\n" for row in range(40)),
    "text": lambda number: "".join(f"line {row} of {number}\n" for row in range(40)),
    "libsvm": lambda number: "".join(f"{number} 1:{row + 1}\n" for row in range(40)),
}
LINES = LineRule(partial(scan, skip_blank=False), "Utf8", LIMIT)


def source_of(kind: str, folder: Path, **options: Any) -> Source:
    more = {"numFeatures": 1} if kind == "libsvm" else {}
    return Source.model_validate({kind: {"uris": [str(folder)], **more, **options}})


def discovered(source: Source) -> tuple[list[dict[str, Any]], dict[str, Any]]:
    units, state = reader_class(source.kind).discover(source.member, Access()).collect()
    return [vars(units.unit(number)) for number in range(len(units))], state


def as_remote(monkeypatch: pytest.MonkeyPatch) -> None:
    """Treat files on the local disk like files of a remote store."""
    monkeypatch.setattr(examined, "ReadsFiles", type("Never", (), {}))


@pytest.mark.parametrize("cell", [256, 1 << 20])
@pytest.mark.parametrize("kind", TEXTS)
def test_the_plan_of_files_that_are_read_at_the_same_time_is_the_same(
    kind: str, cell: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(stretches, "UNIT_BYTES", 128)
    monkeypatch.setattr(text_files, "CELL_BYTES", cell)
    monkeypatch.setattr(examined, "_SMALL_BYTES", 0)
    for number in range(20):
        content = TEXTS[kind](number).encode()
        (tmp_path / f"{number:02}").write_bytes(gzip.compress(content, mtime=0) if number % 3 == 1 else content)
    in_order = discovered(source_of(kind, tmp_path))
    as_remote(monkeypatch)
    assert discovered(source_of(kind, tmp_path)) == in_order
    assert len(in_order[0]) > 40


@pytest.mark.parametrize("is_remote", [False, True])
def test_the_first_fault_is_that_of_the_first_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, is_remote: bool) -> None:
    if is_remote:
        as_remote(monkeypatch)
    for name, text in {"a": "x,y\n1,2\n", "b": 'x,y\n3,4\n5,"', "c": "x,z\n5,6\n"}.items():
        (tmp_path / name).write_text(text)
    with pytest.raises(BadData, match=r"b, line 3: a quote is never closed\."):
        discovered(source_of("csv", tmp_path, header=True))
    (tmp_path / "b").write_text("x,y\n3,4\n")
    with pytest.raises(BadSpec, match=r"c: its header has the columns x, z; .*a has x, y\."):
        discovered(source_of("csv", tmp_path, header=True))


def test_columns_come_from_the_first_file_that_has_any(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    as_remote(monkeypatch)
    for name, text in {"a": "", "b": "", "c": "x,y\n1,2\n", "d": "x,y\na,b\n"}.items():
        (tmp_path / name).write_text(text)
    _, state = discovered(source_of("csv", tmp_path, header=True))
    assert [(column["name"], column["type"]) for column in state["columns"]] == [("x", "Int64"), ("y", "Int64")]


def test_stretches_before_a_fault_are_listed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(stretches, "UNIT_BYTES", 16)
    monkeypatch.setattr(stretches, "LONGEST_RECORD", 64)
    (tmp_path / "a").write_bytes(b"0123456\n" * 4 + b"x" * 100)
    (entry,) = Access().store(str(tmp_path)).list(str(tmp_path))
    (file,) = examined_texts(Access(), [(0, "a", entry)], LINES)
    listed: list[Unit] = []
    with pytest.raises(BadData, match=r"a, line 5: a line of more than .* MiB"):
        listed += file.result.units(0, "a", entry)
    assert [(stretch.offset, stretch.records) for stretch in file.result.stretches] == [(0, 2), (16, 2)]


def test_only_some_of_the_files_are_read_ahead(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Eight files are examined at a time. To limit the memory, only two of them are read over several connections."""
    as_remote(monkeypatch)
    monkeypatch.setattr(stretches, "UNIT_BYTES", 16)
    for number in range(8):
        (tmp_path / str(number)).write_bytes(b"0123456\n" * 4)
    meeting = threading.Barrier(8, timeout=60)
    read_ahead: list[bool] = []

    def examine(self: LineRule, source: Input, entry: Entry, *, ahead: bool) -> TextFile:
        meeting.wait()
        read_ahead.append(ahead)
        meeting.wait()
        return really(self, source, entry, ahead=ahead)

    really = LineRule.examine
    monkeypatch.setattr(LineRule, "examine", examine)
    files = [(0, str(number), entry) for number, entry in enumerate(Access().store(str(tmp_path)).list(str(tmp_path)))]
    assert len([*examined_texts(Access(), files, LINES)]) == 8
    assert sum(read_ahead) == text_files._AHEAD_AT_ONCE


@pytest.mark.parametrize(
    ("mebibytes", "processes", "expected"), [(64, 1, 1), (512, 1, 4), (1024, 1, 8), (1 << 20, 1, 8), (1024, 2, 4), (1024, 16, 1)]
)
def test_fewer_files_are_examined_at_a_time_in_little_memory(
    monkeypatch: pytest.MonkeyPatch, mebibytes: int, processes: int, expected: int
) -> None:
    monkeypatch.setattr(limits, "memory_bytes", lambda: mebibytes << 20)
    access = Access()
    access.processes_here = processes
    assert text_files._files_at_once(access) == expected


@pytest.mark.parametrize("cell_bytes", [1 << 20, 256])
@pytest.mark.parametrize("kind", ["csv", "text"])
def test_a_large_record_is_read_by_the_main_thread_alone(
    kind: str, cell_bytes: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(stretches, "UNIT_BYTES", 64)
    monkeypatch.setattr(stretches, "LARGE_RECORD", 128)
    monkeypatch.setattr(text_files, "CELL_BYTES", cell_bytes)
    for number in range(4):
        long = b"x" * 400 if kind == "text" else b'"' + b"x\n" * 200 + b'"'
        (tmp_path / f"{number}").write_bytes(b"a\n" * 50 + long + b"\n" + b"b\n" * 200)
    source = source_of(kind, tmp_path)
    in_order = discovered(source)
    as_remote(monkeypatch)
    scanned: list[tuple[str, int]] = []
    really = native.places_of

    def places_of(data: bytes, byte: int) -> Any:
        scanned.append((threading.current_thread().name, len(data)))
        return really(data, byte)

    monkeypatch.setattr(native, "places_of", places_of)
    assert discovered(source) == in_order
    assert max(size for name, size in scanned if name.startswith("ahead")) <= 128 + 2 * 64
    assert max(size for name, size in scanned if not name.startswith("ahead")) >= 400
