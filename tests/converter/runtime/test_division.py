"""A scan divides its pieces into parts of about the same size, in the order of the listing."""

from hypothesis import example, given
from hypothesis import strategies as st

from dataprep_converter.runtime import scans
from dataprep_converter.runtime.scans import Division, Piece

MIB = 1 << 20
WHOLE = st.integers(0, 300) | st.integers(0, 3000)
SIZES = st.lists(WHOLE.map(lambda size: size * MIB) | st.integers(0, 300 * MIB) | st.integers(0, 3000 * MIB), min_size=1, max_size=40)
"""Sizes in bytes. Some are multiples of 1 MiB."""


def counted(sizes: list[int]) -> Division:
    division = Division()
    for number, size in enumerate(sizes):
        division.takes(Piece(f"/in/{number}", "pin", size, None, size))
    return division


def parts_of(sizes: list[int], part_bytes: int) -> list[int]:
    """Returns the part number of each piece."""
    division = Division(part_bytes)
    return [division.part_of(Piece(f"/in/{number}", "pin", size, None, size)) for number, size in enumerate(sizes)]


@given(sizes=SIZES, most=st.integers(1, 50))
def test_parts_are_stretches_of_the_listing_and_none_is_empty(sizes: list[int], most: int) -> None:
    division = counted(sizes)
    division.divide_into(most)
    parts = parts_of(sizes, division.part_bytes)
    assert parts == sorted(parts)
    assert set(parts) == set(range(division.parts))
    assert 1 <= division.parts <= most


@given(sizes=SIZES, most=st.integers(1, 50))
@example(sizes=[64 * MIB + 1] * 9, most=4)
def test_no_part_is_longer_than_its_stretch_by_more_than_a_piece(sizes: list[int], most: int) -> None:
    division = counted(sizes)
    division.divide_into(most)
    parts = parts_of(sizes, division.part_bytes)
    counted_sizes = [max(1, min(size, scans.PART_BYTES)) for size in sizes]
    lengths = [0] * division.parts
    for part, size in zip(parts, counted_sizes, strict=True):
        lengths[part] += size
    longest = max(counted_sizes)
    assert division.part_bytes == max(-(-sum(counted_sizes) // most), scans.LEAST_PART_BYTES, longest)
    # Half of a part's first piece and half of its last piece can be outside the part's stretch.
    assert max(lengths) < division.part_bytes + longest


def test_a_single_large_file_does_not_make_all_parts_large() -> None:
    sizes = [50 << 30, *[1 << 30] * 99]
    division = counted(sizes)
    division.divide_into(100)
    assert (division.parts, division.bytes, division.part_bytes) == (100, sum(sizes), 1 << 30)


def test_a_few_more_bytes_do_not_make_another_part() -> None:
    sizes = [256 * MIB] * 16
    division = counted([*sizes, 5])
    division.divide_into(8)
    assert parts_of([*sizes, 5], division.part_bytes) == [*(number // 2 for number in range(16)), 7]


def test_parts_are_no_shorter_than_is_worth_another_process() -> None:
    division = counted([MIB] * 200)
    division.divide_into(100)
    assert (division.parts, division.part_bytes) == (4, scans.LEAST_PART_BYTES)


def test_no_pieces_have_no_parts() -> None:
    division = counted([])
    division.divide_into(3)
    assert division.parts == 0
