"""The verdict that names the bottleneck of a conversion."""

import pytest

from dataprep_api.stages import verdict


@pytest.mark.parametrize(
    ("seconds", "told"),
    [
        ({"read": 7.1, "transform": 0.4, "encode": 1.8, "statistics": 0.2, "sink": 0.5}, "source-bound (read 71 %, transform 4 %, encode 18 %, statistics 2 %, sink 5 %)"),
        ({"read": 1, "transform": 8, "encode": 1}, "CPU-bound: transforms (read 10 %, transform 80 %, encode 10 %)"),
        ({"read": 2, "encode": 5, "sink": 3}, "CPU-bound: encoding (read 20 %, encode 50 %, sink 30 %)"),
        ({"read": 2, "encode": 3, "sink": 5}, "sink-bound (read 20 %, encode 30 %, sink 50 %)"),
        ({"read": 2, "statistics": 6, "encode": 2}, "CPU-bound: statistics (read 20 %, encode 20 %, statistics 60 %)"),
    ],
    ids=["source", "transforms", "encoding", "sink", "statistics"],
)  # fmt: skip
def test_the_slowest_side_decides_and_the_slowest_stage_has_the_blame(seconds: dict[str, float], told: str) -> None:
    assert verdict(seconds) == told


def test_two_stages_of_one_thread_outweigh_a_longer_one_of_another() -> None:
    """The sink is the slowest single stage.

    But one thread does both the encoding and the statistics, which together take longer than the sink. So this thread limits the speed.
    """
    assert str(verdict({"read": 4, "encode": 3, "statistics": 2.5, "sink": 4.5})).startswith("CPU-bound: encoding")


@pytest.mark.parametrize("seconds", [{}, {"read": 0.9}, {"something": 100.0}])
def test_of_too_little_nothing_is_told(seconds: dict[str, float]) -> None:
    assert verdict(seconds) is None
