"""The fork server and Python's resource tracker are restarted, no matter why they ended."""

import os
import signal
from multiprocessing import resource_tracker

from dataprep_converter.runtime import fork_server


def test_a_dead_resource_tracker_is_replaced_without_a_word() -> None:
    tracker = vars(resource_tracker)["_resource_tracker"]
    fork_server.get_ready()
    first: int = tracker._pid
    os.kill(first, signal.SIGKILL)
    os.waitid(os.P_PID, first, os.WEXITED | os.WNOWAIT)

    fork_server.get_ready()
    assert tracker._pid != first
    os.kill(tracker._pid, 0)
