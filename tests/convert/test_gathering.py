"""Gathering: a scattered order gives the same batches, and decodes each unit once a window."""

import gzip
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tests.convert.reader_contract import batches, faults, rows

from dataprep_api.spec import Source
from dataprep_converter.readers import blocks, gathering, stretches
from dataprep_converter.readers.delimited import CsvReader

COLUMNS = [{"name": "x", "type": "Int64"}, {"name": "s", "type": "String"}]
ROWS = 400


def a_source(folder: Path, *, zipped: bool = False) -> Source:
    text = "".join(f"{n},t{n}\n" if n % 37 else f"bad {n},t\n" for n in range(ROWS)).encode()
    (folder / "a.csv").write_bytes(gzip.compress(text, mtime=0) if zipped else text)
    return Source.model_validate({"csv": {"uris": [str(folder / "a.csv")], "columns": COLUMNS}})


@pytest.fixture
def decoded(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """Lines of the stretches that are parsed, from now on; nothing but the latest is kept."""
    monkeypatch.setattr(stretches, "UNIT_BYTES", 256)
    monkeypatch.setattr(blocks, "KEPT_BYTES", 0)
    seen: list[int] = []
    parse = CsvReader.parse

    def counted(self: CsvReader, data: bytes, **more: Any) -> blocks.Block:
        seen.append(more["line"])
        return parse(self, data, **more)

    monkeypatch.setattr(CsvReader, "parse", counted)
    return seen


@pytest.mark.parametrize("zipped", [False, True], ids=["plain", "gzip"])
@pytest.mark.parametrize("window", [1, 50, 10_000])
@pytest.mark.usefixtures("decoded")
def test_a_scattered_order_gives_the_same_batches(tmp_path: Path, window: int, zipped: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    source = a_source(tmp_path, zipped=zipped)
    in_order = {row["_sample"]: row for row in rows(batches(CsvReader, source))}
    order = np.random.default_rng(1).permutation(ROWS).astype(np.int64)
    monkeypatch.setattr(gathering, "MOST_BYTES", window * 20)
    found = batches(CsvReader, source, size=17, order=order)
    assert rows(found) == [in_order[sample] for sample in order.tolist() if sample in in_order]
    assert sorted(faults(found)) == [n for n in range(ROWS) if n % 37 == 0]
    for batch, start in zip(found, range(0, ROWS, 17), strict=True):
        asked = order[start : start + 17].tolist()
        assert [bad.sample for bad in batch.bad] == [sample for sample in asked if sample % 37 == 0]
        assert batch.records.num_rows + len(batch.bad) == len(asked)


def test_a_unit_is_decoded_once_for_a_window(tmp_path: Path, decoded: list[int]) -> None:
    source = a_source(tmp_path)
    batches(CsvReader, source)
    units = len(decoded)
    assert units > 10
    decoded.clear()
    order = np.random.default_rng(1).permutation(ROWS).astype(np.int64)
    batches(CsvReader, source, size=17, order=order)
    assert len(decoded) <= units + 1  # and the one by which the rows are weighed


def test_what_is_kept_anyway_is_not_gathered(tmp_path: Path, decoded: list[int], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(blocks, "KEPT_BYTES", 1 << 20)
    monkeypatch.setattr(gathering, "windows", lambda *_, **__: pytest.fail("gathered"))
    order = np.arange(ROWS, dtype=np.int64)[::-1]
    source = a_source(tmp_path)
    batches(CsvReader, source, size=17, order=order)
    assert len(decoded) == len(set(decoded))


def test_windows_hold_whole_batches() -> None:
    arrays = [np.arange(n, dtype=np.int64) for n in (3, 3, 5, 1)]
    found = [[len(wanted) for wanted in window] for window in gathering.windows(iter(arrays), rows=6)]
    assert found == [[3, 3], [5, 1]]
