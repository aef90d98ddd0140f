"""The stored listing of a scan.

With a constant number of requests, each part reads its own pieces of the listing and a few neighbouring pieces. If the listing is damaged,
the part lists the source itself.
"""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.builders.examples import examples

from dataprep_converter.dataset import stored_folder
from dataprep_converter.dataset.stored_folder import StoredFolder
from dataprep_converter.inputs.access import Access
from dataprep_converter.planning import scan_listing
from dataprep_converter.planning.scan_listing import ListingOfPart, NewListing, read_listing
from dataprep_converter.runtime.scans import Division, Piece, ScanOfPart, results_in
from dataprep_converter.stores.files import FileInput, FileStore

LISTING = "_dataprep/scan-0/listing-1"


def pieces(sizes: list[int]) -> list[Piece]:
    return [
        Piece(f"/in/é{number}\n", f"pin {number}", size, number % 3 or None, size, "rule", root=number % 2, path=f"é{number}\n")
        for number, size in enumerate(sizes)
    ]


def whole(piece: Piece) -> list[Any]:
    return [*piece.values(), piece.root, piece.path]


def put(folder: StoredFolder, listed: list[Piece], *, most: int = 1) -> Division:
    """Stores the listing, and returns the division into at most this number of parts."""
    with NewListing() as listing:
        division = Division(keep=listing.add)
        for piece in listed:
            division.takes(piece)
        listing.put(folder, LISTING)
    division.divide_into(most)
    return division


def a_folder(path: Path) -> StoredFolder:
    return StoredFolder(str(path), Access())


def taken(listing: ListingOfPart, part: int) -> list[list[Any]]:
    """The pieces of the part, with all their fields."""
    scan = ScanOfPart(part, division=listing.division, stored_listing=listing.pieces)
    return [whole(piece) for piece in scan.listed() or () if scan.takes(piece)]


def noted_requests(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Returns a list that collects the names of all store methods that are called from now on."""
    requests: list[str] = []

    def note(owner: type, name: str) -> None:
        really: Callable[..., Any] = getattr(owner, name)

        def noted(*arguments: Any, **more: Any) -> Any:
            requests.append(name)
            return really(*arguments, **more)

        monkeypatch.setattr(owner, name, noted)

    for name in ("get", "open", "stat", "list", "list_folders"):
        note(FileStore, name)
    note(FileInput, "stream")
    return requests


@pytest.fixture
def blocks_of_three(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(scan_listing, "_PIECES", 3)


@pytest.mark.slow
@settings(max_examples=examples(60), deadline=None)
@given(
    sizes=st.lists(st.integers(0, 300 << 20) | st.just(2 << 30), min_size=1, max_size=40), most=st.integers(1, 50), block=st.integers(1, 9)
)
def test_each_part_finds_its_pieces(tmp_path_factory: pytest.TempPathFactory, sizes: list[int], most: int, block: int) -> None:
    folder, listed = a_folder(tmp_path_factory.mktemp("listing")), pieces(sizes)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(scan_listing, "_PIECES", block)
        division = put(folder, listed, most=most)
    again = Division(division.part_bytes)
    expected: list[list[list[Any]]] = [[] for _ in range(division.parts)]
    for piece in listed:
        expected[again.part_of(piece)].append(whole(piece))
    for part in range(division.parts):
        with read_listing(folder, LISTING, part, part_bytes=division.part_bytes) as listing:
            assert taken(listing, part) == expected[part]
    with read_listing(folder, LISTING, division.parts, part_bytes=division.part_bytes) as listing:
        assert taken(listing, division.parts) == []


@pytest.mark.usefixtures("blocks_of_three")
def test_a_part_reads_only_the_blocks_near_its_pieces(tmp_path: Path) -> None:
    folder, listed = a_folder(tmp_path), pieces([1] * 20)
    put(folder, listed)
    with read_listing(folder, LISTING, 2, part_bytes=4) as listing:  # the pieces 8 to 11 belong to this part
        assert listing.pieces is not None
        assert list(listing.pieces()) == listed[6:12]


@pytest.mark.parametrize("count", [8, 800])
def test_the_number_of_requests_does_not_depend_on_the_number_of_files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, count: int) -> None:
    monkeypatch.setattr(scan_listing, "_PIECES", 2)
    folder = a_folder(tmp_path)
    put(folder, pieces([1] * count))
    requests = noted_requests(monkeypatch)
    with read_listing(folder, LISTING, 1, part_bytes=4) as listing:
        assert len(taken(listing, 1)) == 4
    assert requests == ["get", "open", "stream"]


@pytest.mark.parametrize("most", [1 << 20, 0], ids=["in one call", "as an upload"])
def test_a_listing_that_is_stored_is_not_written_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, most: int) -> None:
    monkeypatch.setattr(stored_folder, "_AT_ONCE", most)
    folder, listed = a_folder(tmp_path), pieces([5] * 20)
    put(folder, listed)
    before = {file.name: file.stat().st_mtime_ns for file in (tmp_path / LISTING).parent.iterdir()}
    assert before.keys() == {"listing-1.zst", "listing-1.index"}
    put(folder, listed)
    assert {file.name: file.stat().st_mtime_ns for file in (tmp_path / LISTING).parent.iterdir()} == before
    put(folder, listed[1:])
    with read_listing(folder, LISTING, 0, part_bytes=1000) as listing:
        assert taken(listing, 0) == [whole(piece) for piece in listed[1:]]


@pytest.mark.usefixtures("blocks_of_three")
@pytest.mark.parametrize("name", ["listing-1.index", "listing-1.zst"])
@pytest.mark.parametrize("damage", [None, lambda _: b"", lambda content: content[:-1], lambda content: content[:-3] + b"abc"])
def test_a_part_whose_listing_is_damaged_lists_the_source(tmp_path: Path, name: str, damage: Callable[[bytes], bytes] | None) -> None:
    folder = a_folder(tmp_path)
    put(folder, pieces([5] * 20))
    file = (tmp_path / LISTING).parent / name
    if damage is None:
        file.unlink()
    else:
        file.write_bytes(damage(file.read_bytes()))
    with read_listing(folder, LISTING, 4, part_bytes=20) as listing:
        assert listing.pieces is None
        assert listing.division.length == 0


@pytest.mark.usefixtures("blocks_of_three")
def test_damage_elsewhere_in_the_listing_does_no_harm(tmp_path: Path) -> None:
    folder, listed = a_folder(tmp_path), pieces([5] * 20)
    put(folder, listed)
    file = (tmp_path / LISTING).parent / "listing-1.zst"
    file.write_bytes(file.read_bytes()[:-3] + b"abc")
    with read_listing(folder, LISTING, 0, part_bytes=20) as listing:
        assert taken(listing, 0) == [whole(piece) for piece in listed[:4]]


def test_earlier_releases_find_no_results_in_the_listing(tmp_path: Path) -> None:
    """Earlier releases read every file in the folder of a scan, including the listing."""
    put(a_folder(tmp_path), pieces([5] * 20))
    contents = [file.read_bytes() for file in (tmp_path / LISTING).parent.iterdir()]
    assert [results_in(content) for content in contents] == [{}, {}]


def test_the_pieces_can_be_read_more_than_once(tmp_path: Path) -> None:
    folder, listed = a_folder(tmp_path), pieces([5] * 20)
    put(folder, listed)
    with read_listing(folder, LISTING, 0, part_bytes=1000) as listing:
        assert listing.pieces is not None
        assert list(listing.pieces()) == list(listing.pieces()) == listed
