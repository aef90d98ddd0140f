"""The status stays small, however large the job is."""

from collections.abc import Callable

import pytest

from dataprep_api import canonical
from dataprep_api.reasons import MEANING, ConditionType, Reason
from dataprep_api.resources import status
from dataprep_api.resources.status import DataPrepJobStatus

Full = Callable[[str], DataPrepJobStatus]


def size(written: DataPrepJobStatus) -> int:
    return len(canonical.dumps(written.model_dump(mode="json", by_alias=True, exclude_none=True)))


@pytest.mark.parametrize("fill", ["x", "漢", '"'], ids=["ascii", "three bytes", "escaped"])
def test_the_largest_status_stays_below_64_kib(a_full_status: Full, fill: str) -> None:
    full = a_full_status(fill)
    cut = status.bounded(full)

    assert size(full) > 65_536, "the test would show nothing"
    assert size(cut) <= status.SIZE_LIMIT
    assert DataPrepJobStatus.model_validate(cut.model_dump()) == cut


def test_the_largest_status_has_every_field(a_full_status: Full) -> None:
    assert DataPrepJobStatus.model_fields.keys() - a_full_status("x").model_fields_set == set()


def test_a_cut_status_keeps_phase_counts_and_the_manifest(a_full_status: Full) -> None:
    full = a_full_status("漢")
    cut = status.bounded(full)

    assert (cut.phase, cut.progress, cut.output, cut.splits, cut.failed_indexes) == (
        full.phase,
        full.progress,
        full.output,
        full.splits,
        full.failed_indexes,
    )
    assert len(cut.failures) >= 3
    assert len(cut.conditions) == 8


def test_a_usual_status_is_left_alone() -> None:
    usual = DataPrepJobStatus(
        phase="Succeeded",
        outputs=[
            status.OutputFile(uri=f"hdfs://nn:9000/mnist/train-{number:05}", split="train", bytes=1, records=1, sha256="f" * 64)
            for number in range(50)
        ],
    )

    assert status.bounded(usual) is usual


def test_files_go_before_what_only_the_status_tells() -> None:
    long = DataPrepJobStatus(
        outputs=[status.OutputFile(uri="x" * 2000, split="train", bytes=1, records=1, sha256="f" * 64)] * 50,
        failures=[status.Failure(reason="BadRecords", message="x" * 1000)] * 20,
    )
    cut = status.bounded(long)

    assert cut.outputs == []
    assert cut.failures == long.failures


def test_of_classes_as_many_stay_as_fit_and_their_number() -> None:
    labels = [status.LabelStatus(feature=f"label{number}", num_classes=1000, classes=["x" * 40] * 1000) for number in range(2)]
    cut = status.bounded(DataPrepJobStatus(labels=labels))

    assert [(label.num_classes, len(label.classes)) for label in cut.labels] == [(1000, 500)] * 2


def test_every_reason_is_documented() -> None:
    assert set(MEANING) == set(Reason)


def test_condition_types_fit_the_status() -> None:
    of_a_schedule = {ConditionType.SCHEDULED}
    assert len(set(ConditionType) - of_a_schedule) <= 16
