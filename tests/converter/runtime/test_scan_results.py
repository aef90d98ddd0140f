"""Results of a scan are looked up in the files of all parts, of which only two are in memory."""

from collections.abc import Mapping

from hypothesis import given
from hypothesis import strategies as st

from dataprep_converter.runtime.scan_results import StoredResults
from dataprep_converter.runtime.scans import COMMON, Document, Piece, ScannedBefore, ScanOfPart, results_in


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
    assert files.reads == 2 * ["0", "1", "2", "3", "4"]


def test_files_whose_pieces_alternate_are_read_twice() -> None:
    files = Files({piece(number): 1 for number in range(0, 20, 2)}, {piece(number): 2 for number in range(1, 20, 2)})
    results = files.results()
    assert [results.get(piece(number)) for number in range(20)] == 10 * [1, 2]
    assert files.reads == ["0", "1", "0", "1"]


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


@given(st.dictionaries(st.integers(0, 20).map(piece), st.builds(lambda text, n: {COMMON: text, "n": n}, st.text(), st.integers())))
def test_results_with_a_common_text_are_read_back(found: dict[Piece, Document]) -> None:
    scan = ScanOfPart(0)
    for each, document in found.items():
        scan.found(each, document)
    content = scan.to_bytes()
    assert results_in(content) == found
    assert results_in(content[:-1]) == {}


def test_a_common_text_is_stored_once_and_kept_once() -> None:
    scan = ScanOfPart(0)
    for number in range(100):
        scan.found(piece(number), {COMMON: "schema " * 10 + str(number % 2)})
    content = scan.to_bytes()
    assert content.count(b"schema schema") == 2 * 5
    for results in (scan.results, results_in(content)):
        assert len({id(document[COMMON]) for document in results.values()}) == 2
