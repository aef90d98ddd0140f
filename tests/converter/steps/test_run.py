"""All steps on this machine.

The bytes are right, files become visible only when they are complete, and a second run makes only missing files.
"""

import json
import os
import shutil
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from tests.builders.digits import EIGHT, commit_result, digits_job, sha256s
from tests.builders.files import flip_bit, visible
from tests.builders.jobs import run_job

from dataprep_api import names
from dataprep_converter.cli.display import Display
from dataprep_converter.core import sha256
from dataprep_converter.core.errors import BadData, InputChanged, NoInput, NotFound, NotWhole, OutputExists, OutputLost
from dataprep_converter.dataset.output_folder import RunFolder
from dataprep_converter.inputs.access import Access
from dataprep_converter.pipeline import shard_samples, shard_sink, shard_writer
from dataprep_converter.pipeline.shard_writer import ShardWriter
from dataprep_converter.stores import mapped_file, publish
from dataprep_converter.tools.verification import verify
from workbench import mnist

RECORD = 891


@pytest.mark.slow
def test_mnist_has_the_golden_sizes_and_hashes(digits: Path, tmp_path: Path) -> None:
    result = commit_result(digits_job(digits, tmp_path / "out", validation=5000))
    assert sha256s(tmp_path / "out") == {name: file.sha256 for name, file in sorted(mnist.FILES.items())}
    assert (result.records.out, result.bytes_out) == (70_000, 62_370_000)
    assert visible(tmp_path / "out") == ["test.tfrecords", "train.tfrecords", "validation.tfrecords"]
    assert verify(str(tmp_path / "out"), Access()).records_out == 70_000


@pytest.mark.parametrize("by_c", [False, True])
def test_a_file_is_digested_and_written_in_pieces(few: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, *, by_c: bool) -> None:
    commit_result(digits_job(few, tmp_path / "whole"))
    monkeypatch.setattr(shard_sink, "_PIECE_BYTES", 1000)
    if not by_c:
        monkeypatch.setattr(sha256, "is_there", lambda: False)
    commit_result(digits_job(few, tmp_path / "pieces"))
    assert sha256s(tmp_path / "pieces") == sha256s(tmp_path / "whole")
    assert verify(str(tmp_path / "pieces"), Access()).records_out == 1200


@pytest.mark.parametrize("sizes", [[], [0], [9], [10], [11, 3], [3, 3, 3, 3], [4, 25, 4, 6, 1, 10]], ids=str)
def test_small_pieces_are_gathered_and_large_ones_cut(sizes: list[int], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(shard_sink, "_PIECE_BYTES", 10)
    pieces = [bytes([number]) * size for number, size in enumerate(sizes)]
    found = [bytes(piece) for piece in shard_sink._gather(pieces)]
    assert b"".join(found) == b"".join(pieces)
    assert all(0 < len(piece) <= 10 for piece in found)


@pytest.fixture(scope="module")
def in_one_shard(few: Path, tmp_path_factory: pytest.TempPathFactory) -> bytes:
    """The records of the split train, in one file."""
    folder = tmp_path_factory.mktemp("whole")
    commit_result(digits_job(few, folder / "out"))
    return (folder / "out" / "train.tfrecords").read_bytes()


@pytest.mark.parametrize("count", [1, 2, 4, 7, 8, 10, 16])
def test_shards_hold_the_same_records_in_the_same_order(few: Path, tmp_path: Path, in_one_shard: bytes, count: int) -> None:
    commit_result(digits_job(few, tmp_path, output={"shards": {"count": count}, "fileName": "{split}-{shard}-of-{shards}.{ext}"}))
    parts = sorted(tmp_path.glob("train-*"))
    assert len(parts) == count
    assert max(p.stat().st_size for p in parts) - min(p.stat().st_size for p in parts) <= RECORD
    assert b"".join(p.read_bytes() for p in parts) == in_one_shard


@pytest.mark.slow
def test_several_processes_make_the_same_bytes(few: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("dataprep_converter.steps.pool.INLINE_BYTES", 0)
    commit_result(digits_job(few, tmp_path / "one", output=EIGHT))
    commit_result(digits_job(few, tmp_path / "three", output=EIGHT), workers=3)
    assert sha256s(tmp_path / "one") == sha256s(tmp_path / "three")
    assert len(sha256s(tmp_path / "one")) == 24


def test_the_batch_size_does_not_change_the_bytes(few: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    commit_result(digits_job(few, tmp_path / "large", shuffle={"seed": 3}))
    monkeypatch.setattr(shard_samples, "MOST_RECORDS", 7)
    commit_result(digits_job(few, tmp_path / "small", shuffle={"seed": 3}))
    assert sha256s(tmp_path / "large") == sha256s(tmp_path / "small")


def test_a_shuffle_moves_records_and_loses_none(few: Path, tmp_path: Path) -> None:
    commit_result(digits_job(few, tmp_path / "plain"))
    commit_result(digits_job(few, tmp_path / "mixed", shuffle={"seed": 3}))
    plain, mixed = ((tmp_path / name / "train.tfrecords").read_bytes() for name in ("plain", "mixed"))
    assert records(plain) != records(mixed)
    assert sorted(records(plain)) == sorted(records(mixed))


def records(content: bytes) -> list[bytes]:
    return [content[i : i + RECORD] for i in range(0, len(content), RECORD)]


def test_gzip_holds_the_same_records(few: Path, tmp_path: Path) -> None:
    import gzip

    commit_result(digits_job(few, tmp_path / "plain"))
    commit_result(digits_job(few, tmp_path / "packed", output={"tfrecord": {"compression": "Gzip"}, "fileName": "{split}.{ext}"}))
    assert visible(tmp_path / "packed") == ["test.tfrecords.gz", "train.tfrecords.gz", "validation.tfrecords.gz"]
    for name in ("train", "validation", "test"):
        assert (
            gzip.decompress((tmp_path / "packed" / f"{name}.tfrecords.gz").read_bytes())
            == (tmp_path / "plain" / f"{name}.tfrecords").read_bytes()
        )
    assert verify(str(tmp_path / "packed"), Access()).compression == "gzip"


def test_two_runs_have_equal_manifests(few: Path, tmp_path: Path) -> None:
    first, second = commit_result(digits_job(few, tmp_path / "a")), commit_result(digits_job(few, tmp_path / "b"))
    assert first.manifest_sha256 == second.manifest_sha256
    assert first.run_id == second.run_id


def state(folder: Path) -> dict[str, tuple[int, bytes]]:
    return {str(f.relative_to(folder)): (f.stat().st_mtime_ns, f.read_bytes()) for f in folder.rglob("*") if f.is_file()}


def test_the_same_finished_run_is_reused_untouched(few: Path, tmp_path: Path) -> None:
    commit_result(digits_job(few, tmp_path))
    before = state(tmp_path)
    planned, _ = run_job(digits_job(few, tmp_path))
    assert planned.reused
    assert state(tmp_path) == before


def test_a_missing_shard_of_a_finished_run_is_made_again_alone(few: Path, tmp_path: Path) -> None:
    commit_result(digits_job(few, tmp_path, output=EIGHT))
    before = sha256s(tmp_path)
    reports = {f.name: f.stat().st_mtime_ns for f in tmp_path.rglob("reports/*.json")}
    (tmp_path / "train-00003-of-00008.tfrecords").unlink()
    commit_result(digits_job(few, tmp_path, output=EIGHT))
    assert sha256s(tmp_path) == before
    again = {f.name for f in tmp_path.rglob("reports/*.json") if f.stat().st_mtime_ns != reports[f.name]}
    assert again == {"00000003.json"}


def test_a_file_that_was_changed_is_not_reused_but_made_again(few: Path, tmp_path: Path) -> None:
    commit_result(digits_job(few, tmp_path))
    before = sha256s(tmp_path)
    flip_bit(tmp_path / "test.tfrecords", 100)
    planned, _ = run_job(digits_job(few, tmp_path))
    assert not planned.reused
    assert sha256s(tmp_path) == before


def test_never_refuses_a_finished_output(few: Path, tmp_path: Path) -> None:
    commit_result(digits_job(few, tmp_path))
    with pytest.raises(OutputExists, match="holds the finished data set of run .*overwrite is Never"):
        commit_result(digits_job(few, tmp_path, output={"overwrite": "Never"}))


@pytest.mark.slow
def test_another_spec_replaces_the_old_files_and_no_other(few: Path, tmp_path: Path) -> None:
    commit_result(digits_job(few, tmp_path, output=EIGHT))
    commit_result(digits_job(few, tmp_path, output={"shards": {"count": 2}, "fileName": "{split}-{shard}.{ext}"}))
    assert visible(tmp_path) == [f"{split}-0000{n}.tfrecords" for split in ("test", "train", "validation") for n in (0, 1)]
    assert len(list((tmp_path / "_dataprep").rglob("plan.json"))) == 1
    verify(str(tmp_path), Access())


def test_files_of_somebody_else_are_never_touched(few: Path, tmp_path: Path) -> None:
    (tmp_path / "thesis.txt").write_text("precious")
    with pytest.raises(OutputExists, match=r"contains thesis\.txt, which no dataprep run planned there"):
        commit_result(digits_job(few, tmp_path, output={"overwrite": "Always"}))
    assert [f.name for f in tmp_path.rglob("*") if f.is_file()] == ["thesis.txt"]


def test_a_run_that_lost_its_output_publishes_nothing_more(few: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    original = publish.publish
    published: list[str] = []

    def then_lose(upload: Any, store: Any, uri: str, **sizes: Any) -> Any:
        entry = original(upload, store, uri, **sizes)
        published.append(uri)
        (tmp_path / names.OWNER).write_text('{"runId": "other", "epoch": 2}')
        return entry

    monkeypatch.setattr(shard_writer, "publish", then_lose)
    with pytest.raises(OutputLost, match="run other has taken it over"):
        commit_result(digits_job(few, tmp_path))
    assert len(published) == 1
    assert not (tmp_path / "_SUCCESS").exists()


class Stop(BaseException):
    """An interruption during the work."""


def test_a_run_that_died_goes_on_where_it_was(few: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    begin = ShardWriter.__init__
    done: list[str] = []

    def dies_at_the_fifth(self: ShardWriter, one: Any, **arguments: Any) -> None:
        if len(done) == 5:
            raise Stop
        done.append(one.file)
        begin(self, one, **arguments)

    monkeypatch.setattr(ShardWriter, "__init__", dies_at_the_fifth)
    with pytest.raises(Stop):
        commit_result(digits_job(few, tmp_path, output=EIGHT))
    assert visible(tmp_path) == sorted(done)

    def counted(self: ShardWriter, one: Any, **arguments: Any) -> None:
        done.append(one.file)
        begin(self, one, **arguments)

    monkeypatch.setattr(ShardWriter, "__init__", counted)
    commit_result(digits_job(few, tmp_path, output=EIGHT))
    assert len(done) == len(set(done)) == 24
    verify(str(tmp_path), Access())


def test_a_death_while_writing_leaves_no_visible_file(few: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def die(*_: Any, **__: Any) -> None:
        raise Stop

    monkeypatch.setattr(RunFolder, "check_owner", die)
    monkeypatch.setattr(RunFolder, "claim", lambda *_: None)
    with pytest.raises(Stop):
        commit_result(digits_job(few, tmp_path))
    assert visible(tmp_path) == []


def test_an_input_that_changed_after_the_plan_is_named(few: Path, tmp_path: Path) -> None:
    from dataprep_converter.steps import plan_step
    from dataprep_converter.steps.kinds import kind_of

    source = shutil.copytree(few, tmp_path / "in")
    job = digits_job(source, tmp_path / "out")
    prepared = plan_step.run_plan_step(job, Access())
    file = source / "train-images-idx3-ubyte.gz"
    file.write_bytes(file.read_bytes() + b"\0")
    with pytest.raises(InputChanged, match="train-images-idx3-ubyte"):
        kind_of(job.spec).work_here(job, plan=prepared.plan, access=Access(), workers=1, watch=Display(quiet=True))


def test_a_label_out_of_range_fails_or_is_counted(few: Path, tmp_path: Path) -> None:
    narrow: dict[str, Any] = {"labels": [{"name": "label", "numClasses": 9}]}
    with pytest.raises(BadData, match="train-images-idx3-ubyte.gz, record 109: label 9 is outside 0"):
        commit_result(digits_job(few, tmp_path / "fail", **narrow))
    result = commit_result(digits_job(few, tmp_path / "skip", onBadRecord={"policy": "Skip"}, **narrow))
    assert (result.records.in_, result.records.out, result.records.bad) == (1200, 1080, 120)
    assert result.bad[0].row == 109  # the first record after the 100 records of the split `validation`
    with pytest.raises(BadData, match="more than onBadRecord.maxFraction 0.05"):
        commit_result(digits_job(few, tmp_path / "share", onBadRecord={"policy": "Skip", "maxFraction": 0.05}, **narrow))
    assert not (tmp_path / "share" / "_SUCCESS").exists()


def test_an_empty_input_is_refused_unless_allowed(tmp_path: Path) -> None:
    empty = mnist.write(tmp_path / "in", train=0, test=0)
    with pytest.raises(NoInput, match="contains no records; set allowEmpty: true"):
        commit_result(digits_job(empty, tmp_path / "no", validation=0))
    result = commit_result(digits_job(empty, tmp_path / "yes", validation=0, allowEmpty=True))
    assert result.files == 0
    assert verify(str(tmp_path / "yes"), Access()).records_out == 0


@pytest.mark.parametrize(
    ("break_it", "words"),
    [
        pytest.param(lambda f: flip_bit(f, 3 * RECORD + 100), ["train.tfrecords", str(3 * RECORD)], id="a flipped bit in the data"),
        pytest.param(lambda f: flip_bit(f, 5 * RECORD + 2), ["train.tfrecords", str(5 * RECORD)], id="a flipped bit in a length"),
        pytest.param(lambda f: f.write_bytes(f.read_bytes()[:-RECORD]), ["train.tfrecords", "bytes instead of"], id="cut between records"),
        pytest.param(lambda f: f.write_bytes(f.read_bytes()[:-1]), ["train.tfrecords", str(899 * RECORD)], id="cut in a record"),
        pytest.param(lambda f: f.unlink(), ["train.tfrecords is missing"], id="a missing file"),
        pytest.param(
            lambda f: f.with_name("more.tfrecords").write_bytes(b""),
            ["does not belong to this data set", "more.tfrecords"],
            id="one file more",
        ),
        pytest.param(
            lambda f: f.write_bytes(f.read_bytes()[RECORD:] + f.read_bytes()[:RECORD]),
            ["train.tfrecords", "SHA-256"],
            id="two records swapped",
        ),
    ],
)
def test_verify_names_what_is_broken(few: Path, tmp_path: Path, break_it: Any, words: Sequence[str]) -> None:
    commit_result(digits_job(few, tmp_path))
    break_it(tmp_path / "train.tfrecords")
    with pytest.raises(NotWhole) as found:
        verify(str(tmp_path), Access())
    for word in words:
        assert word in str(found.value), found.value


def test_verify_holds_the_manifest_against_success(few: Path, tmp_path: Path) -> None:
    result = commit_result(digits_job(few, tmp_path))
    manifest = Path(result.manifest_uri)
    verify(str(tmp_path), Access(), expect=result.manifest_sha256)
    with pytest.raises(NotWhole, match="is not the expected data set"):
        verify(str(tmp_path), Access(), expect="0" * 64)
    document = json.loads(manifest.read_bytes())
    manifest.write_text(json.dumps(document | {"recordsOut": 1}))
    with pytest.raises(NotWhole, match="was changed"):
        verify(str(tmp_path), Access())


def test_verify_refuses_an_unfinished_data_set(few: Path, tmp_path: Path) -> None:
    commit_result(digits_job(few, tmp_path))
    (tmp_path / "_SUCCESS").unlink()
    with pytest.raises(NotFound, match="no _SUCCESS"):
        verify(str(tmp_path), Access())


@pytest.mark.parametrize("shuffle", [None, {"seed": 7}], ids=["in order", "shuffled"])
def test_systems_without_the_calls_of_linux_make_the_same_bytes(
    few: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, shuffle: dict[str, int] | None
) -> None:
    commit_result(digits_job(few, tmp_path / "linux", shuffle=shuffle))
    for name in ("posix_fadvise", "posix_fallocate", "sched_getaffinity", "memfd_create"):
        monkeypatch.delattr(os, name)
    monkeypatch.setattr(mapped_file, "_pwritev", None)
    commit_result(digits_job(few, tmp_path / "another", shuffle=shuffle))
    assert sha256s(tmp_path / "another") == sha256s(tmp_path / "linux")
