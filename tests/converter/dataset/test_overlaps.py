"""Jobs that would write to a folder that they read are refused.

A job is refused if its output is an input, is inside an input, or contains an input, however the URIs are written.
"""

import json
import os
import shutil
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
from PIL import Image
from tests.builders.files import everything
from tests.builders.jobs import run_job
from tests.builders.specs import parse_job

from dataprep_api.resources.job import DataPrepJob
from dataprep_api.spec import Source
from dataprep_converter.cli.display import Display
from dataprep_converter.core.errors import BadSpec, NotFound
from dataprep_converter.dataset import overlaps
from dataprep_converter.inputs import places
from dataprep_converter.inputs.access import Access
from dataprep_converter.steps import plan_step
from dataprep_converter.steps.run import run
from dataprep_converter.stores import StoreSettings
from dataprep_converter.tools.verification import verify


def a_job(source: Mapping[str, Any], to: str | Path, **spec: Any) -> DataPrepJob:
    made_to = {"uri": str(to), "overwrite": "Always", **spec.pop("output", {})}
    return parse_job({"source": source, "output": made_to, **spec}, name="rows")


def rows_in(folder: Path, name: str = "in.jsonl", *, rows: int = 40) -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    file = folder / name
    file.write_text("".join(f'{{"x": {number}}}\n' for number in range(rows)))
    return file


@pytest.fixture(scope="module")
def made_once(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A finished data set of 40 records in 4 shards."""
    folder = tmp_path_factory.mktemp("finished")
    rows_in(folder / "raw")
    run_job(a_job({"jsonl": {"uris": [str(folder / "raw")]}}, folder / "set", output={"shards": {"count": 4}}))
    return folder / "set"


@pytest.fixture
def finished(made_once: Path, tmp_path: Path) -> Path:
    """A copy of the finished data set."""
    return shutil.copytree(made_once, tmp_path / "set")


def refused(job: DataPrepJob, *, kept: Path, access: Access | None = None) -> str:
    """Return the error with which a job is refused. Check that the folder `kept` is unchanged."""
    before = everything(kept)
    with pytest.raises(BadSpec) as told:
        run(job, access=access or Access(), workers=1, display=Display(quiet=True))
    with pytest.raises(BadSpec):
        plan_step.dry_run(job, access or Access())
    assert everything(kept) == before
    return str(told.value)


@pytest.mark.parametrize("changes", [{"shuffle": {"seed": 1}}, {"limit": 1}], ids=["shuffled", "one record"])
@pytest.mark.parametrize("kind", ["dataset", "tfrecord"])
def test_a_data_set_is_not_made_of_itself(finished: Path, kind: str, changes: dict[str, Any]) -> None:
    source = {"dataset": {"uri": str(finished)}} if kind == "dataset" else {"tfrecord": {"uris": [str(finished)]}}
    assert refused(a_job(source, finished, **changes), kept=finished) == (
        f"output.uri {finished} is the input {finished} itself, but a job must not write to its own input: choose another output.uri."
    )
    verify(str(finished), Access(), every_record=True)


def test_an_output_below_an_input_folder_is_refused(tmp_path: Path) -> None:
    rows_in(tmp_path / "in")
    told = refused(a_job({"jsonl": {"uris": [str(tmp_path / "in")]}}, tmp_path / "in/a/out"), kept=tmp_path)
    assert told == (
        f"output.uri {tmp_path}/in/a/out lies in the input {tmp_path}/in, so the job would read what it writes: choose an output.uri outside of it."
    )


@pytest.mark.parametrize("hidden", ["_out", ".cache/out"])
def test_an_output_in_a_hidden_folder_of_the_input_is_no_input(tmp_path: Path, hidden: str) -> None:
    rows_in(tmp_path / "in")
    job = a_job({"jsonl": {"uris": [str(tmp_path / "in")]}}, tmp_path / "in" / hidden)
    assert [run_job(job)[1].records.out for _ in range(2)] == [40, 40]


def test_an_input_below_the_output_is_refused(tmp_path: Path) -> None:
    file = rows_in(tmp_path / "out/_raw")
    told = refused(a_job({"jsonl": {"uris": [str(file)]}}, tmp_path / "out"), kept=tmp_path)
    assert told == (
        f"The input {file} lies in output.uri {tmp_path}/out, where the job replaces and removes files: choose an output.uri that contains no input."
    )


def test_the_bad_records_of_a_data_set_are_no_input_of_itself(finished: Path) -> None:
    quarantine = finished / "_dataprep/0123456789abcdef/quarantine"
    rows_in(quarantine)
    assert "lies in output.uri" in refused(a_job({"jsonl": {"uris": [str(quarantine)]}}, finished), kept=finished)
    assert run_job(a_job({"jsonl": {"uris": [str(quarantine)]}}, finished.parent / "again"))[1].records.out == 40


def spellings(real: Path) -> dict[str, str]:
    link = real.parent / "link"
    link.symlink_to(real)
    other = real.parent / "other"
    other.symlink_to(real.parent)
    return {
        "with a slash": f"{real}/",
        "with two slashes": str(real).replace("/set", "//set"),
        "with dots": f"{real.parent}/raw/../set/.",
        "file://": f"file://{real}",
        "FILE://localhost": f"FILE://localhost{real}",
        "relative": os.path.relpath(real),
        "a link": str(link),
        "behind a link": str(other / "set"),
        "a glob": f"{real}/*.tfrecords",
    }


@pytest.mark.parametrize(
    "how", ["with a slash", "with two slashes", "with dots", "file://", "FILE://localhost", "relative", "a link", "behind a link", "a glob"]
)
def test_a_place_is_the_same_however_it_is_spelled(finished: Path, monkeypatch: pytest.MonkeyPatch, how: str) -> None:
    monkeypatch.chdir(finished.parent)
    written = spellings(finished)[how]
    told = refused(a_job({"tfrecord": {"uris": [written]}}, finished), kept=finished)
    assert "must not write to its own input" in told or "lies in output.uri" in told
    assert str(finished) in told
    if how != "a glob":
        assert written in refused(a_job({"tfrecord": {"uris": [str(finished)]}}, written), kept=finished)


def test_an_input_folder_with_a_link_into_the_output_is_refused(finished: Path) -> None:
    folder = finished.parent / "linked"
    folder.mkdir()
    shard = min(finished.glob("train-*"))
    (folder / "first.tfrecords").symlink_to(shard)
    told = refused(a_job({"tfrecord": {"uris": [str(folder)]}}, finished), kept=finished)
    assert told == (
        f"The input {folder}/first.tfrecords ({shard}) lies in output.uri {finished}, where the job replaces and removes files: "
        "choose an output.uri that contains no input."
    )


def test_a_second_name_of_a_file_in_the_output_is_another_file(finished: Path) -> None:
    folder = finished.parent / "hard"
    folder.mkdir()
    for shard in finished.glob("train-*"):
        (folder / shard.name).hardlink_to(shard)
    job = a_job({"tfrecord": {"uris": [str(folder)]}}, finished, output={"shards": {"count": 2}})
    assert run_job(job)[1].records.out == 40


def test_a_joined_table_with_a_link_into_the_output_is_refused(tmp_path: Path) -> None:
    (tmp_path / "out/_old").mkdir(parents=True)
    (tmp_path / "out/_old/a.csv").write_text("k,x\n1,2\n")
    (tmp_path / "b.csv").write_text("k,y\n1,3\n")
    (tmp_path / "in").mkdir()
    (tmp_path / "in/a.csv").symlink_to(tmp_path / "out/_old/a.csv")
    tables = [
        {"name": name, "source": {"csv": {"uris": [str(tmp_path / where)], "header": True}}}
        for name, where in (("a", "in"), ("b", "b.csv"))
    ]
    told = refused(a_job({"join": {"tables": tables, "keys": ["k"]}}, tmp_path / "out"), kept=tmp_path)
    assert f"({tmp_path}/out/_old/a.csv) lies in output.uri" in told


def test_a_glob_that_can_not_reach_the_output_is_no_overlap(tmp_path: Path) -> None:
    rows_in(tmp_path)
    job = a_job({"jsonl": {"uris": [f"{tmp_path}/*.jsonl"]}}, tmp_path / "out", output={"format": "jsonl"})
    assert [run_job(job)[1].records.out for _ in range(2)] == [40, 40]
    for glob in ("**/*.jsonl", "o*/*.jsonl"):
        job = a_job({"jsonl": {"uris": [f"{tmp_path}/{glob}"]}}, tmp_path / "out", output={"format": "jsonl"})
        assert "lies in the input" in refused(job, kept=tmp_path)
    # The glob matches the output's folder, but none of the files that the job writes.
    assert "lies in output.uri" in refused(a_job({"jsonl": {"uris": [f"{tmp_path}/o*/*.jsonl"]}}, tmp_path / "out"), kept=tmp_path)


@pytest.mark.parametrize("glob", ["**/*.jsonl", "*/*.jsonl", "**/in.*l"])
def test_a_glob_for_other_names_than_the_output_s_is_no_overlap(tmp_path: Path, glob: str) -> None:
    rows_in(tmp_path / "raw")
    job = a_job({"jsonl": {"uris": [f"{tmp_path}/{glob}"]}}, tmp_path / "out")
    assert [run_job(job)[1].records.out for _ in range(2)] == [40, 40]


@pytest.mark.parametrize(
    ("glob", "output"),
    [
        ("**/*.jsonl", {"format": "jsonl"}),
        ("*/*.gz", {"format": "jsonl", "jsonl": {"compression": "Gzip"}}),
        ("**/*[0-9a-z]", {}),
        ("**", {}),
        ("**/*.json", {"format": "mds"}),
        ("**/*.jsonl", {"fileName": "{split}.{shard}.jsonl"}),
        ("**/*0", {"format": "sequenceFile"}),
    ],
)
def test_a_glob_for_names_like_the_output_s_is_refused(tmp_path: Path, glob: str, output: dict[str, Any]) -> None:
    rows_in(tmp_path / "raw")
    assert "lies in the input" in refused(
        a_job({"jsonl": {"uris": [f"{tmp_path}/{glob}"]}}, tmp_path / "out", output=output), kept=tmp_path
    )


def test_a_file_in_the_output_is_no_input_of_a_glob_for_other_names(tmp_path: Path) -> None:
    rows_in(tmp_path / "raw")
    file = rows_in(tmp_path / "out")
    told = refused(a_job({"jsonl": {"uris": [f"{tmp_path}/*/*.jsonl"]}}, tmp_path / "out"), kept=tmp_path)
    assert f"The input {file} lies in output.uri {tmp_path}/out" in told


def test_input_and_output_side_by_side_are_no_overlap(tmp_path: Path) -> None:
    rows_in(tmp_path / "out-raw")
    file = rows_in(tmp_path)
    for source in (tmp_path / "out-raw", file):
        assert run_job(a_job({"jsonl": {"uris": [str(source)]}}, tmp_path / "out"))[1].records.out == 40


@pytest.mark.parametrize("how", ["a list", "not recursive"])
def test_a_folder_of_images_may_hold_the_output_where_its_folders_are_not_read(tmp_path: Path, how: str) -> None:
    (tmp_path / "in").mkdir()
    Image.new("RGB", (4, 4)).save(tmp_path / "in/a.png")
    (tmp_path / "list.txt").write_text("a.png\n")
    images: dict[str, Any] = {"uris": [f"{tmp_path}/in"], "recursive": False}
    if how == "a list":
        images = {"list": {"uri": f"{tmp_path}/list.txt", "root": f"{tmp_path}/in"}}
    source = {"images": {**images, "labelFrom": "None"}}
    assert run_job(a_job(source, tmp_path / "in/out"))[1].records.out == 1
    assert "must not write to its own input" in refused(a_job(source, tmp_path / "in"), kept=tmp_path)


def test_a_script_may_not_write_where_it_reads(tmp_path: Path) -> None:
    rows_in(tmp_path / "in")
    document = a_job({"text": {"uris": ["x"]}}, tmp_path / "in").model_dump(by_alias=True, exclude_none=True)
    del document["spec"]["source"]
    document["spec"]["script"] = {"command": ["true"], "input": str(tmp_path / "in"), "outputs": ["*.jsonl"]}
    document["spec"]["output"]["format"] = "jsonl"
    assert "must not write to its own input" in refused(DataPrepJob.parse(document), kept=tmp_path)


# --- data sets below an input folder ----------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["set", "Set", "0set"])
def test_a_data_set_below_an_input_folder_is_passed_over_and_counted(tmp_path: Path, name: str) -> None:
    rows_in(tmp_path / "in/1")
    rows_in(tmp_path / "raw")
    before = a_job({"jsonl": {"uris": [str(tmp_path / "raw")]}}, tmp_path / "in" / name, output={"format": "jsonl", "shards": {"count": 4}})
    run_job(before)
    planned, result = run_job(a_job({"jsonl": {"uris": [str(tmp_path / "in")]}}, tmp_path / "out"))
    assert result.records.out == 40
    assert planned.warnings == [
        f"4 files are left out that belong to data sets below the inputs, such as {tmp_path}/in/{name}: a data set is read where it is named itself"
    ]
    head = json.loads((tmp_path / f"out/_dataprep/{planned.run_id}/plan.json").read_text())
    assert head["ignored"] == 4
    assert run_job(a_job({"jsonl": {"uris": [str(tmp_path / "in" / name)]}}, tmp_path / "named"))[1].records.out == 40
    assert run_job(a_job({"jsonl": {"uris": [f"{tmp_path}/in/*/*.jsonl"]}}, tmp_path / "matched"))[1].records.out == 80


def test_an_input_folder_of_data_sets_alone_names_no_file(finished: Path) -> None:
    (finished.parent / "sets").mkdir()
    finished.rename(finished.parent / "sets/a")
    with pytest.raises(NotFound) as told:
        run_job(a_job({"tfrecord": {"uris": [f"{finished.parent}/sets"]}}, finished.parent / "out"))
    folder = f"{finished.parent}/sets"
    assert str(told.value) == (
        f"{folder} names no file except files of data sets, such as {folder}/a, which are read only if the source names them."
    )


def test_so_many_files_before_the_mark_of_a_data_set_are_not_kept_in_memory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("dataprep_converter.readers.base.below_inputs.MOST_HELD", 3)
    for number in range(9):
        rows_in(tmp_path / "in/plain", f"{number}.jsonl", rows=1)
        rows_in(tmp_path / "in/set", f"{number}.jsonl", rows=1)
    (tmp_path / "in/set/_dataprep").mkdir()
    (tmp_path / "in/set/_dataprep/OWNER").write_text("{}")
    assert run_job(a_job({"jsonl": {"uris": [str(tmp_path / "in")]}}, tmp_path / "out"))[1].records.out == 9


# --- URIs of other stores ----------------------------------------------------------------------------------


def between(source: str, output: str, *settings: StoreSettings) -> str | None:
    access = Access(settings)
    try:
        overlaps.check([source], output, access)
    except BadSpec as exc:
        return str(exc)
    return None


S3_AT = StoreSettings(uri_prefix="s3://data/raw/out", endpoint="http://minio.other:9000")


@pytest.mark.parametrize(
    ("source", "output", "settings"),
    [
        pytest.param("s3://data/raw", "s3://data/raw", (), id="the same"),
        pytest.param("s3://data/raw/", "S3://data//raw/out", (), id="slashes and the case of a scheme"),
        pytest.param("s3://data/a%20b", "s3://data/a b/out", (), id="percent-encoded"),
        pytest.param("s3://data/raw", "s3://data/x/../raw/out", (), id="dots"),
        pytest.param("abfs://c@acc.dfs.core.windows.net/raw", "abfss://c@ACC.dfs.core.windows.net/raw/out", (), id="abfs and abfss"),
        pytest.param(
            "oss://data/raw",
            "s3://data/raw/out",
            (StoreSettings(uri_prefix="s3://data", endpoint="https://oss-cn-hangzhou-internal.aliyuncs.com"),),
            id="oss by its S3 endpoint",
        ),
        pytest.param(
            "gs://data/raw",
            "s3://data/raw/out",
            (StoreSettings(uri_prefix="s3://data", endpoint="https://storage.googleapis.com"),),
            id="Cloud Storage by its S3 endpoint",
        ),
        pytest.param(
            "oss://data/raw",
            "oss://data/raw/out",
            (
                StoreSettings(uri_prefix="oss://data/raw/out", endpoint="https://oss-cn-hangzhou-internal.aliyuncs.com"),
                StoreSettings(uri_prefix="oss://data", endpoint="https://oss-cn-hangzhou.aliyuncs.com"),
            ),
            id="two endpoints of one bucket of OSS",
        ),
        pytest.param(
            "s3://data/raw",
            "s3://data/raw/out",
            (
                StoreSettings(uri_prefix="s3://data/raw/out", endpoint="http://LOCALHOST:9000/"),
                StoreSettings(uri_prefix="s3://data", endpoint="127.0.0.1:9000"),
            ),
            id="two names of one host",
        ),
        pytest.param("hdfs://nn:8020/raw", "hdfs://NN/raw/out", (), id="the default port of a NameNode"),
        pytest.param("hdfs://nn:9000/raw", "webhdfs://nn:9870/raw/out", (), id="two ways into one HDFS"),
        pytest.param("webhdfs://nn:9870/raw", "swebhdfs://nn:9871/raw/out", (), id="with and without TLS"),
    ],
)
def test_two_names_of_one_place_overlap(source: str, output: str, settings: tuple[StoreSettings, ...]) -> None:
    assert between(source, output, *settings) is not None


@pytest.mark.parametrize(
    ("source", "output", "settings"),
    [
        pytest.param("s3://data/raw", "s3://data/raw-2", (), id="a name that begins alike"),
        pytest.param("s3://data/raw", "s3://other/raw", (), id="another bucket"),
        pytest.param("s3://data/raw", "gs://data/raw", (), id="another store"),
        pytest.param("/data/raw", "s3://data/raw", (), id="a path and a bucket"),
        pytest.param("abfs://c@one.dfs.core.windows.net/raw", "abfs://c@two.dfs.core.windows.net/raw", (), id="another account"),
        pytest.param("hdfs://127.0.0.1:9000/raw", "hdfs://127.0.0.1:9001/raw", (), id="two NameNodes of one host"),
        pytest.param(
            "s3://data/raw",
            "s3://data/raw/out",
            (S3_AT, StoreSettings(uri_prefix="s3://data", endpoint="http://192.0.2.7:9000")),
            id="another endpoint",
        ),
    ],
)
def test_other_places_do_not_overlap(
    source: str, output: str, settings: tuple[StoreSettings, ...], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(places, "addresses_of", lambda host: frozenset({host}))
    assert between(source, output, *settings) is None


def test_a_name_service_is_its_name_nodes(tmp_path: Path) -> None:
    properties = {
        "dfs.nameservices": "cluster",
        "dfs.ha.namenodes.cluster": "nn1, nn2",
        "dfs.namenode.rpc-address.cluster.nn1": "one.local:8020",
        "dfs.namenode.rpc-address.cluster.nn2": "two.local:8020",
        "fs.defaultFS": "hdfs://cluster",
    }
    text = "".join(f"<property><name>{name}</name><value>{value}</value></property>" for name, value in properties.items())
    (tmp_path / "hdfs-site.xml").write_text(f"<configuration>{text}</configuration>")
    conf = StoreSettings(uri_prefix="hdfs://", hadoop_conf=str(tmp_path))
    for source in ("hdfs://two.local/raw", "hdfs:///raw", "webhdfs://one.local:9870/raw"):
        assert "lies in the input" in str(between(source, "hdfs://cluster/raw/out", conf))
    assert between("hdfs://three.local:8020/raw", "hdfs://cluster/raw/out", conf) is None


MOUNTS = """\
22 1 0:20 / / rw - overlay overlay rw
30 22 8:1 /vols/pvc-1 /data rw,relatime shared:1 - ext4 /dev/sda1 rw
31 22 8:1 /vols/pvc-1/sub\\040folder /mnt/sub rw master:1 - ext4 /dev/sda1 rw
32 22 0:51 / /nas rw - nfs4 10.0.0.1:/export rw
33 22 0:52 / /team rw - nfs4 10.0.0.1:/export/team rw
"""


@pytest.mark.parametrize(
    ("one", "other", "overlap"),
    [
        ("/data", "/mnt/sub/out", True),
        ("/mnt/sub/x", "/data/sub folder", True),
        ("/data/sub", "/mnt/sub/out", False),
        ("/nas/team", "/team/out", True),
        ("/nas/other", "/team/out", False),
        ("/datas", "/data", False),
    ],
)
def test_two_mounts_of_one_volume_are_one_place(one: str, other: str, overlap: bool) -> None:
    found = [places.Place(tuple(places.names_by_mount(path, places.mounts(MOUNTS)))) for path in (one, other)]
    assert (found[0].path_of(found[1]) is not None or found[1].path_of(found[0]) is not None) is overlap


@pytest.mark.parametrize(
    ("source", "table", "overlap"),
    [
        ("odps://p/tables/t", "odps://P/tables/T", True),
        ("odps://p/tables/t", "odps://p/tables/t/pt=1", True),
        ("odps://p/tables/t/pt=1", "odps://p/tables/t/pt=1/region=cn", True),
        ("odps://p/tables/t/pt=1/", "odps://p/tables/t/pt='1'", True),
        ("odps://p/tables/t/pt=1", "odps://p/tables/t", True),
        ("odps://p/tables/t/pt=1", "odps://p/tables/t/pt=2", False),
        ("odps://p/tables/t", "odps://q/tables/t", False),
    ],
)
def test_a_table_is_not_replaced_by_its_own_rows(source: str, table: str, overlap: bool) -> None:
    if not overlap:
        overlaps.check([source], "/out", Access(), table=table)
        return
    with pytest.raises(
        BadSpec, match="output.table.uri .* a job must not write to its own input|output.table.uri .* lies in|lies in output.table.uri"
    ):
        overlaps.check([source], "/out", Access(), table=table)


def test_every_source_says_what_it_reads() -> None:
    for kind in Source.model_fields:
        assert callable(getattr(Source.model_fields[kind].annotation.__args__[0], "inputs", None)), kind  # type: ignore[union-attr] # each is a model or None
