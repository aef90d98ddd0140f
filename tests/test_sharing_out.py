"""Which test file a process takes next."""

import re
from pathlib import Path

import pytest
from tests.sharing_out import ON_STORES, next_file, on_hdfs

TESTS = Path(__file__).parent
FILES = [
    "tests/api/test_names.py",
    "tests/converter/stores/test_s3.py",
    "tests/converter/steps/test_run.py",
    "tests/converter/stores/test_hdfs.py",
    "tests/interop/test_dali.py",
    "tests/converter/steps/test_preflight.py",
]


def taken(process: int) -> list[str]:
    """Return the files in the order in which one process takes them all."""
    left, found = list(FILES), []
    while left:
        found.append(next_file(left, process))
        left.remove(found[-1])
    return found


def test_one_process_takes_the_stores_and_one_the_third_party_readers() -> None:
    names, s3, run, hdfs, dali, preflight = FILES
    assert taken(0) == [hdfs, preflight, s3, names, run, dali]
    assert taken(1) == [dali, names, run, s3, hdfs, preflight]


def test_the_others_take_what_starts_nothing_and_then_the_rest() -> None:
    names, s3, run, hdfs, dali, preflight = FILES
    assert taken(2) == taken(7) == [names, run, s3, dali, hdfs, preflight]


def test_every_file_of_tests_on_stores_is_known() -> None:
    using = re.compile(r"mark\.store\b|\b(?:hdfs_cluster|s3_server|oss_fake|azure_server|gcs_fake)\b")
    found = {
        f"tests/{file.relative_to(TESTS)}"
        for file in (TESTS / "converter").rglob("test_*.py")
        if using.search(file.read_text(encoding="utf-8"))
    }
    assert {file for file in found if not file.startswith(ON_STORES)} == set()
    assert {file for file in ON_STORES if file.endswith(".py")} <= found


@pytest.mark.parametrize("text", ["with webhdfs_lane(request)", "from tests.converter.stores.places import (\n    Place,\n    hdfs,\n)"])
def test_hdfs_is_recognised_by_each_name(tmp_path: Path, text: str) -> None:
    (tmp_path / "test_some.py").write_text(text)
    assert on_hdfs(str(tmp_path / "test_some.py"))


def test_files_on_hdfs_are_recognised() -> None:
    stores = "tests/converter/stores/test_"
    assert all(on_hdfs(f"{stores}{name}.py") for name in ("hdfs", "webhdfs", "store_contract", "fencing", "secrets", "faults", "pairs"))
    assert not any(on_hdfs(f"{stores}{name}.py") for name in ("s3", "oss_fake", "hub_output", "files", "hdfs_pair", "hdfs_kerberos"))
