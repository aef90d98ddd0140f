"""Results of a scan are looked up in the files of all parts. Only two of these files are in memory at a time."""

import threading
import tracemalloc
from collections.abc import Mapping

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dataprep_converter.runtime import scans
from dataprep_converter.runtime.scan_results import StoredResults
from dataprep_converter.runtime.scans import Document, Piece, ScannedBefore, ScanOfPart, WithCommon, results_in


def piece(number: int, *, pin: str = "pin", rule: str = "") -> Piece:
    return Piece(f"/in/{number}", pin, 100, None, 100, rule)


class Files:
    """The results of the parts, and which files have been read."""

    def __init__(self, *parts: Mapping[Piece, Document]) -> None:
        self.parts = {str(number): part for number, part in enumerate(parts)}
        self.reads: list[str] = []

    def read(self, file: str) -> Mapping[Piece, Document]:
        self.reads.append(file)
        return self.parts[file]

    def results(self) -> StoredResults:
        return StoredResults(list(self.parts), self.read)


@given(parts=st.lists(st.sets(st.integers(0, 30)), max_size=6), asked=st.lists(st.integers(0, 30)))
def test_each_result_is_found_whatever_part_has_it(parts: list[set[int]], asked: list[int]) -> None:
    results = Files(*({piece(number): number for number in part} for part in parts)).results()
    known = set[int]().union(*parts)
    assert [results.get(piece(number)) for number in asked] == [number if number in known else None for number in asked]
    assert len(results) == len(parts)


def test_each_file_is_read_twice_if_the_pieces_come_in_order() -> None:
    files = Files(*({piece(10 * part + number): number for number in range(10)} for part in range(5)))
    results = files.results()
    assert [results.get(piece(number)) for number in range(50)] == 5 * list(range(10))
    assert (sorted(files.reads[:5]), files.reads[5:]) == 2 * (["0", "1", "2", "3", "4"],)


def test_files_whose_pieces_alternate_are_read_twice() -> None:
    files = Files({piece(number): 1 for number in range(0, 20, 2)}, {piece(number): 2 for number in range(1, 20, 2)})
    results = files.results()
    assert [results.get(piece(number)) for number in range(20)] == 10 * [1, 2]
    assert (sorted(files.reads[:2]), files.reads[2:]) == 2 * (["0", "1"],)


def test_eight_files_are_indexed_at_the_same_time() -> None:
    meeting = threading.Barrier(8)

    def read(file: str) -> Mapping[Piece, Document]:
        meeting.wait(60)
        return {piece(int(file)): file}

    assert len(StoredResults([str(number) for number in range(8)], read)) == 8


def test_the_index_takes_few_bytes_for_each_piece() -> None:
    shared = {piece(number): number for number in range(1000)}
    tracemalloc.start()
    try:
        results = StoredResults([str(number) for number in range(20)], lambda _: shared)
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert results.get(piece(999)) == 999
    assert peak < 25 * 20 * 1000


def test_a_result_of_another_version_or_rule_is_not_found() -> None:
    results = Files({piece(1): 1, piece(2, rule="a"): 2}).results()
    assert [results.get(each) for each in (piece(1, pin="other"), piece(2), piece(2, rule="b"), piece(2, rule="a"))] == [
        None,
        None,
        None,
        2,
    ]


def test_a_file_that_is_lost_while_planning_has_no_results() -> None:
    files = Files({piece(1): 1})
    results = files.results()
    files.parts["0"] = {}
    assert results.get(piece(1)) is None


def test_a_result_is_kept_until_a_thread_takes_it() -> None:
    scan = ScannedBefore(Files({piece(1): 1}, {piece(2): 2}, {piece(3): 3}).results)
    assert not scan.has_results
    assert all(scan.takes(piece(number)) for number in (1, 2, 3, 4))
    assert [scan.known(piece(number)) for number in (3, 1, 2, 4)] == [3, 1, 2, None]
    assert scan.has_results


json_values = st.none() | st.integers() | st.text() | st.dictionaries(st.sampled_from(["common", "value", "n"]), st.lists(st.integers()))


@given(st.dictionaries(st.integers(0, 20).map(piece), json_values | st.builds(WithCommon, json_values, st.text())))
def test_results_are_read_back(found: dict[Piece, Document]) -> None:
    scan = ScanOfPart(0)
    for each, document in found.items():
        scan.found(each, document)
    content = scan.to_bytes()
    assert results_in(content) == found
    assert results_in(content[:-1]) == {}


def test_a_common_text_is_stored_once_and_kept_once() -> None:
    scan = ScanOfPart(0)
    for number in range(100):
        scan.found(piece(number), WithCommon(number, "schema " * 10 + str(number % 2)))
    content = scan.to_bytes()
    assert content.count(b"schema schema") == 2 * 5
    assert len({id(document.common) for document in results_in(content).values()}) == 2


@given(
    st.lists(st.integers(0, 40) | st.builds(WithCommon, st.text(max_size=9), st.sampled_from(["a" * 50, "b"])), max_size=30),
    st.integers(1, 200),
)
def test_the_results_are_divided_into_files_of_about_the_same_size(documents: list[Document], size: int) -> None:
    contents: list[bytes] = []
    scan = ScanOfPart(0, store=contents.append)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(scans, "RESULTS_BYTES", size)
        for number, document in enumerate(documents):
            scan.found(piece(number), document)
    contents.append(scan.to_bytes())
    parts = [results_in(content) for content in contents]
    assert [each for part in parts for each in part.items()] == [(piece(number), document) for number, document in enumerate(documents)]
    assert all(parts if documents else parts[:-1])
    without_digest = [len(content.partition(b"\n")[2]) for content in contents]
    assert all(size <= length for length in without_digest[:-1])
    assert all(length < size + 200 for length in without_digest)
