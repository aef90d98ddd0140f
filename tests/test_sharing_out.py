"""Which file of tests a process takes next."""

from tests.sharing_out import next_file

FILES = [
    "tests/api/test_names.py",
    "tests/converter/stores/test_s3.py",
    "tests/converter/steps/test_run.py",
    "tests/converter/stores/test_oss.py",
    "tests/interop/test_dali.py",
]


def taken(process: int) -> list[str]:
    """Return the files in the order in which one process takes them all."""
    left, found = list(FILES), []
    while left:
        found.append(next_file(left, process))
        left.remove(found[-1])
    return found


def test_one_process_takes_the_stores_and_one_the_third_party_readers() -> None:
    names, s3, run, oss, dali = FILES
    assert taken(0) == [s3, oss, names, run, dali]
    assert taken(1) == [dali, names, run, s3, oss]


def test_the_others_take_what_starts_nothing_and_then_the_rest() -> None:
    names, s3, run, oss, dali = FILES
    assert taken(2) == taken(7) == [names, run, s3, oss, dali]
