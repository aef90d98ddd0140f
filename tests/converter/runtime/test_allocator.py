"""The memory settings of processes that convert data."""

import subprocess
import sys

import pytest

from dataprep_converter.runtime import allocator


@pytest.mark.parametrize(("memory_bytes", "stay"), [(512 << 20, False), ((2 << 30) - 1, False), (2 << 30, True)])
def test_blocks_stay_only_where_there_is_memory_for_it(memory_bytes: int, stay: bool) -> None:
    assert bool(allocator.options(memory_bytes)) == stay


def test_the_collector_leaves_out_what_is_there_when_a_process_settles() -> None:
    script = "import gc; from dataprep_converter.runtime import allocator; before = len(gc.get_objects()); allocator.tune_allocator(); print(gc.get_freeze_count() >= before)"
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert done.stdout == "True\n"
