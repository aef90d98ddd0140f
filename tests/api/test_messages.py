"""Messages from pods never exceed the limit, and the operator refuses all texts that aren't valid messages."""

import base64
import json
import zlib
from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dataprep_api.dataset import messages
from dataprep_api.errors import MessageError
from dataprep_api.reasons import Reason
from dataprep_api.redaction import printable
from dataprep_api.resources.status import LabelStatus, OutputFile, RecordProgress, SplitStatus

SHA = "f" * 64
NUMBER = 2**53
FILLS = pytest.mark.parametrize("fill", ["x", "漢", '"', "\x01"], ids=["ascii", "three bytes", "escaped", "control"])
Result = messages.PlanResult | messages.CommitResult | messages.WorkResult | messages.FailureResult


def a_commit(fill: str = "x", uri: str = "hdfs://nn:9000/out") -> messages.CommitResult:
    """The largest commit result, in which every list and text has its maximum length."""
    counts = RecordProgress(total=NUMBER, in_=NUMBER, out=NUMBER, bad=NUMBER, filtered=NUMBER)
    return messages.CommitResult(
        run_id="f" * 16,
        manifest_uri=f"{uri}/_dataprep/ffffffffffffffff/manifest.json",
        manifest_sha256=SHA,
        files=NUMBER,
        records=counts,
        bytes_in=NUMBER,
        bytes_out=NUMBER,
        splits=[SplitStatus(name=f"{number:02}{fill * 254}", records=NUMBER, shards=NUMBER, bytes=NUMBER) for number in range(16)],
        outputs=[OutputFile(uri=fill * 2048, split=fill * 256, bytes=NUMBER, records=NUMBER, sha256=SHA, replication=NUMBER)] * 50,
        bad=[messages.BadRecord(uri=fill * 2048, row=NUMBER, reason=fill * 512)] * 20,
        warnings=[fill * 512] * 10,
    )


def a_plan(fill: str = "x", uri: str = "hdfs://nn:9000/out", *, reused: bool = False) -> messages.PlanResult:
    """The largest plan result."""
    return messages.PlanResult(
        run_id="f" * 16,
        plan_sha256=SHA,
        plan_uri=f"{uri}/_dataprep/ffffffffffffffff/plan.json",
        tasks=messages.MOST_TASKS,
        shards=NUMBER,
        records=NUMBER,
        bytes_in=NUMBER,
        splits=a_commit(fill).splits,
        labels=[LabelStatus(feature=fill * 256, num_classes=NUMBER, classes=[fill * 256] * 1000)] * 8,
        reused=reused,
        commit=a_commit(fill, uri) if reused else None,
        warnings=[fill * 512] * 10,
    )


def a_failure(fill: str = "x") -> messages.FailureResult:
    """The largest failure."""
    return messages.FailureResult(
        reason=Reason.START_DEADLINE_EXCEEDED, message=fill * 2048, exit_code=143, index=NUMBER, shard=fill * 256, input=fill * 2048
    )


LARGEST = pytest.mark.parametrize(
    "build",
    [a_plan, lambda fill: a_plan(fill, reused=True), a_commit, a_failure],
    ids=["plan", "reused plan", "commit", "failure"],
)


@FILLS
@LARGEST
def test_the_largest_message_fits(build: Callable[[str], Result], fill: str) -> None:
    text = messages.dump(build(fill))

    assert len(text.encode()) <= messages.TERMINATION_LIMIT
    assert messages.parse(text).kind == build(fill).kind


@pytest.mark.parametrize("uri", ["x" * 1024, "漢" * 300], ids=["ascii", "three bytes"])
@pytest.mark.parametrize("build", [lambda uri: a_plan("漢", uri), lambda uri: a_commit("漢", uri)], ids=["plan", "commit"])
def test_the_longest_uri_is_never_cut(build: Callable[[str], Result], uri: str) -> None:
    assert uri in messages.dump(build(uri))


def test_a_cut_message_keeps_what_the_operator_decides_by() -> None:
    commit = messages.parse(messages.dump(a_commit("漢")))

    assert isinstance(commit, messages.CommitResult)
    assert commit.manifest_sha256 == SHA
    assert commit.files == commit.records.out == NUMBER
    assert commit.outputs == [], "all of them or none"


def test_the_result_of_a_small_job_keeps_its_files_if_they_fit() -> None:
    outputs = [OutputFile(uri=f"s3://bucket/mnist/train-{number}", split="train", bytes=1, records=1, sha256=SHA) for number in range(8)]
    commit = a_commit("x").model_copy(update={"outputs": outputs, "splits": [SplitStatus(name="train", records=8, shards=8, bytes=8)]})
    plan = a_labelled_plan(["a", "b"]).model_copy(update={"commit": commit, "work_seconds": 2.5, "commit_seconds": 0.5})
    said = messages.parse(messages.dump(plan))

    assert isinstance(said, messages.PlanResult)
    assert said.commit is not None
    assert said.commit.outputs == []
    few_bad = plan.model_copy(update={"commit": commit.model_copy(update={"bad": []})})
    assert len(few_bad.model_dump_json().encode()) > messages.TERMINATION_LIMIT, "the test would show nothing"
    said = messages.parse(messages.dump(few_bad))
    assert isinstance(said, messages.PlanResult)
    assert said.commit is not None
    assert (said.commit.outputs, said.commit.splits, said.labels) == (outputs, commit.splits, plan.labels)
    assert (said.reused, said.work_seconds, said.commit_seconds) == (False, 2.5, 0.5)


def test_the_result_of_a_small_job_names_its_splits_once_rather_than_never() -> None:
    splits = [SplitStatus(name=f"split-{number:02}", records=NUMBER, shards=NUMBER, bytes=NUMBER) for number in range(16)]
    commit = a_commit("x").model_copy(update={"splits": splits})
    labels = [LabelStatus(feature=f"label-{number}", num_classes=2, classes=["no", "yes"]) for number in range(8)]
    plan = a_plan("x").model_copy(update={"splits": splits, "labels": labels, "commit": commit})
    said = messages.parse(messages.dump(plan))

    assert isinstance(said, messages.PlanResult)
    assert said.commit is not None
    assert (said.commit.splits, said.labels) == (splits, labels)


def test_the_commit_of_a_small_job_is_left_out_if_its_uris_are_too_long() -> None:
    uri = "x" * 1900
    said = messages.parse(messages.dump(a_plan("x", uri).model_copy(update={"commit": a_commit("x", uri), "work_seconds": 2.5})))

    assert isinstance(said, messages.PlanResult)
    assert (said.commit, said.work_seconds, said.plan_uri) == (None, None, a_plan("x", uri).plan_uri)


def test_a_small_message_is_whole() -> None:
    small = messages.WorkResult(index=1, shards_done=2, shards_skipped=3, records=RecordProgress(in_=5, out=4, bad=1), bytes_out=6)

    assert messages.parse(messages.dump(small)) == small


def test_a_message_holds_nothing_that_a_terminal_obeys_and_means_the_same() -> None:
    said = messages.PlanResult(
        run_id="r",
        plan_sha256="0" * 64,
        plan_uri="s3://out/\u200f/plan",
        tasks=1,
        shards=1,
        records=1,
        bytes_in=1,
        warnings=["\x9b31m \u202egpj.exe \x1b"],
    )
    text = messages.dump(said)
    assert printable(text) == text
    assert messages.parse(text) == said


def test_a_failure_keeps_the_beginning_of_its_message() -> None:
    failure = messages.parse(messages.dump(a_failure("漢")))

    assert isinstance(failure, messages.FailureResult)
    assert failure.message.startswith("漢" * 100)
    assert (failure.reason, failure.exit_code) == (Reason.START_DEADLINE_EXCEEDED, 143)


def a_labelled_plan(classes: list[str]) -> messages.PlanResult:
    """A typical result with one label."""
    return messages.PlanResult(
        run_id="f" * 16,
        plan_sha256=SHA,
        plan_uri="hdfs://nn:9000/imagenet-tfrecord/_dataprep/ffffffffffffffff/plan.json",
        tasks=4,
        shards=4,
        records=456_567,
        bytes_in=50_000_000_000,
        splits=[SplitStatus(name=name, records=NUMBER, shards=8) for name in ("train", "val")],
        labels=[LabelStatus(feature="image/class/label", num_classes=len(classes), classes=classes)],
        warnings=["24 of 456,567 records say the same as an earlier one and are left out"],
    )


def long_names(count: int) -> list[str]:
    """Names like those of WordNet, which are hard to compress."""
    return [f"n{(number * 2654435761) % 10**8:08} {('cat', 'hound', 'beetle')[number % 3]}, domesticated" for number in range(count)]


def test_the_201_classes_of_imagenets_detection_set_reach_the_operator_whole() -> None:
    plan = a_labelled_plan([*long_names(200), "background"])

    assert len(plan.model_dump_json().encode()) > messages.TERMINATION_LIMIT, "the test would show nothing"
    assert messages.parse(messages.dump(plan)) == plan


def test_of_many_classes_as_many_as_fit_reach_the_operator_and_their_number() -> None:
    names = long_names(1000)
    text = messages.dump(a_labelled_plan(names))
    sent = messages.parse(text)

    assert isinstance(sent, messages.PlanResult)
    [label] = sent.labels
    assert label.num_classes == 1000
    assert label.classes == names[: len(label.classes)]
    assert 300 < len(label.classes) < 1000
    assert messages.TERMINATION_LIMIT - 32 <= len(text.encode()) <= messages.TERMINATION_LIMIT
    assert sent.warnings, "nothing else was cut"


@pytest.mark.parametrize(
    "packed",
    [
        pytest.param("~", id="not base 85"),
        pytest.param(base64.b85encode(b"[[]]").decode(), id="not compressed"),
        pytest.param(base64.b85encode(zlib.compress(b"[[]")).decode(), id="not JSON"),
        pytest.param(base64.b85encode(zlib.compress(b"[]")).decode(), id="a list less than labels"),
        pytest.param(base64.b85encode(zlib.compress(b'[["a"],["b"]]')).decode(), id="a list more"),
        pytest.param(base64.b85encode(zlib.compress(b"[[5]]")).decode(), id="a number"),
        pytest.param(base64.b85encode(zlib.compress(b'[["' + b"x" * 257 + b'"]]')).decode(), id="too long a name"),
        pytest.param(base64.b85encode(zlib.compress(b'[["' + b'","' * 1000 + b'"]]')).decode(), id="too many names"),
        pytest.param(base64.b85encode(zlib.compress(b"[[" + b" " * 2_000_000 + b"]]")).decode(), id="a bomb"),
    ],
)
def test_packed_classes_that_are_not_ours_are_refused(packed: str) -> None:
    plan = a_labelled_plan([]).model_copy(update={"packed_classes": packed})

    with pytest.raises(MessageError, match="the packed classes can't be unpacked"):
        messages.parse(plan.model_dump_json(by_alias=True, exclude_none=True))


# --- untrusted input ------------------------------------------------------------------------------------------------------


GOOD = json.loads(messages.dump(messages.FailureResult(reason=Reason.NO_INPUT, message="a", exit_code=5)))
A_COMMIT = json.loads(
    messages.dump(
        messages.CommitResult(
            run_id="f" * 16, manifest_uri="/m", manifest_sha256=SHA, files=1, records=RecordProgress(), bytes_in=1, bytes_out=1
        )
    )
)
A_PLAN = json.loads(
    messages.dump(messages.PlanResult(run_id="f" * 16, plan_sha256=SHA, plan_uri="/p", tasks=1, shards=1, records=1, bytes_in=1))
)


A_SCAN = json.loads(messages.dump(messages.ScanRequest(scan="f" * 64, parts=2)))


@pytest.mark.parametrize("good", [GOOD, A_COMMIT, A_PLAN, A_SCAN], ids=["failure", "commit", "plan", "scan"])
def test_the_messages_that_the_refusals_vary_are_accepted(good: dict[str, object]) -> None:
    assert messages.dump(messages.parse(json.dumps(good))) == json.dumps(good, separators=(",", ":"))


@pytest.mark.parametrize(
    "text",
    [
        pytest.param("", id="empty"),
        pytest.param("Traceback (most recent call last):", id="a traceback"),
        pytest.param("null", id="null"),
        pytest.param("[]", id="a list"),
        pytest.param("{}", id="no kind"),
        pytest.param('{"kind": "other"}', id="another kind"),
        pytest.param(json.dumps(GOOD | {"reason": "MadeUp"}), id="an unknown reason"),
        pytest.param(json.dumps(GOOD | {"message": "x" * 3000}), id="too long a text"),
        pytest.param(json.dumps(GOOD | {"message": 5}), id="a wrong type"),
        pytest.param(json.dumps(GOOD | {"index": -1}), id="a negative index"),
        pytest.param(json.dumps(GOOD) + "x", id="something behind"),
        pytest.param('{"kind":"failure","kind":"plan"}', id="a key twice"),
        pytest.param("[" * 2000, id="deep"),
        pytest.param('{"kind":"work","index":1e999}', id="infinite"),
        pytest.param(json.dumps(GOOD | {"index": NUMBER + 1}), id="a number above 2^53"),
        pytest.param(json.dumps(GOOD | {"exitCode": -(10**400)}), id="a number of 400 digits"),
        pytest.param(json.dumps(A_COMMIT | {"seconds": {"readWait": float("inf")}}), id="infinite seconds"),
        pytest.param(json.dumps(A_COMMIT | {"shardSeconds": 1e300}), id="too many seconds"),
        pytest.param(json.dumps(A_COMMIT | {"records": {"out": NUMBER + 1}}), id="too many records"),
        pytest.param(json.dumps(A_PLAN | {"tasks": messages.MOST_TASKS + 1}), id="too many tasks"),
        pytest.param(json.dumps(A_SCAN | {"parts": messages.MOST_TASKS + 1}), id="too many parts"),
        pytest.param(json.dumps(A_SCAN | {"parts": 1}), id="a scan in one part"),
        pytest.param(json.dumps(A_SCAN | {"scan": "../" + "f" * 16}), id="a scan that is no digest"),
        pytest.param(json.dumps(GOOD | {"message": "x" * 5000}), id="above 4,096 bytes"),
        pytest.param("\x00", id="a zero"),
        pytest.param("\ud800", id="half a surrogate pair"),
    ],
)
def test_what_is_not_ours_is_refused(text: str) -> None:
    with pytest.raises(MessageError):
        messages.parse(text)


@pytest.mark.parametrize(
    "build", [a_plan, lambda: a_plan(reused=True), a_commit, a_failure], ids=["plan", "reused plan", "commit", "failure"]
)
def test_what_a_newer_converter_adds_is_passed_over(build: Callable[[], Result]) -> None:
    said = json.loads(messages.dump(build()))
    more = {"aNewOne": {"x": [1]}} | said
    if isinstance(said.get("records"), dict):
        more["records"] = said["records"] | {"aNewCount": 1}
    assert messages.parse(json.dumps(more, ensure_ascii=False)) == messages.parse(json.dumps(said, ensure_ascii=False))


@pytest.mark.slow
@given(st.text() | st.recursive(st.none() | st.integers() | st.text(), lambda inner: st.dictionaries(st.text(), inner)).map(json.dumps))
def test_nothing_but_a_message_error_ever_comes_out(text: str) -> None:
    with pytest.raises(MessageError):
        messages.parse(text)


def test_examples_of_bad_records_are_shortened_before_they_are_dropped() -> None:
    bad = [messages.BadRecord(uri="hdfs://nn:9000/photos/cat/1.jpg", row=row, reason="x" * 512) for row in range(20)]
    message = messages.CommitResult(
        run_id="0" * 16,
        manifest_uri="hdfs://nn:9000/out/manifest.json",
        manifest_sha256="0" * 64,
        files=1,
        records=RecordProgress(),
        bytes_in=0,
        bytes_out=0,
        bad=bad,
    )
    sent = messages.parse(messages.dump(message))
    assert isinstance(sent, messages.CommitResult)
    assert [(record.row, record.reason) for record in sent.bad] == [(row, "x" * 100) for row in range(20)]
