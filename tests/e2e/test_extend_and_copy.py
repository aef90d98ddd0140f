"""Extending a data set and copying it to another store, on the cluster."""

from pathlib import Path
from typing import Any

from tests.converter.cli.commandline import code_of, settings

from workbench.jobs import Document, Namespace, example
from workbench.stores import BUCKET, EXAMPLES, Stores, mount

FILES = 4
ROWS = 50


def readings(day: int) -> bytes:
    """An input file of examples/extend-local.yaml."""
    return ("x,label\n" + "".join(f"{day + row / ROWS},{row % 3}\n" for row in range(ROWS))).encode()


def visible(stores: Stores, folder: str) -> dict[str, bytes]:
    """The data files in a folder of the S3 server."""
    names = [key.removeprefix(f"{folder}/") for key in stores.s3.keys(BUCKET, f"{folder}/")]
    return {name: stores.s3.read(BUCKET, f"{folder}/{name}") for name in names if not any(part[0] in "_." for part in name.split("/"))}


def test_new_files_become_new_shards_and_the_old_shards_stay(namespace: Namespace, stores: Stores) -> None:
    into, out = f"{namespace.name}-in", f"{namespace.name}-out"

    def job(name: str) -> Document:
        uris: dict[str, Any] = {"params": {"input": f"s3://{BUCKET}/{into}"}, "output__uri": f"s3://{BUCKET}/{out}"}
        # An extension has separate pods for each step, even if it is small.
        return example(
            str(EXAMPLES / "extend-local.yaml"), name=name, one_pod=True, stores=stores.settings(), workers={"parallelism": 2}, **uris
        )

    for day in range(FILES):
        stores.s3.write(BUCKET, f"{into}/{day}.csv", readings(day))
    namespace.apply(job("first"))
    assert namespace.wait_phase("first", "Succeeded")["output"]["records"] == FILES * ROWS
    old = visible(stores, out)

    stores.s3.write(BUCKET, f"{into}/{FILES}.csv", readings(FILES))
    namespace.apply(job("second"))
    assert namespace.wait_phase("second", "Succeeded")["output"]["records"] == (FILES + 1) * ROWS
    new = visible(stores, out)
    shards = [name for name in old if name.endswith(".tfrecords")]
    assert shards
    assert {name: new[name] for name in shards} == {name: old[name] for name in shards}
    assert len([name for name in new if name.endswith(".tfrecords")]) > len(shards)


def test_a_copy_has_the_same_bytes(namespace: Namespace, stores: Stores, tmp_path: Path) -> None:
    source, target = f"{namespace.name}-made", f"/{namespace.name}-copy"
    for day in range(FILES):
        (tmp_path / f"{day}.csv").write_bytes(readings(day))
    made = stores.volume / source
    changes = settings({"params.input": tmp_path, "output.uri": made})
    assert code_of("run", EXAMPLES / "extend-local.yaml", "--workers", "1", *changes) == 0
    for each in (made, *made.rglob("*")):
        each.chmod(0o755 if each.is_dir() else 0o644)

    namespace.apply(
        example(
            str(EXAMPLES / "copy-local.yaml"),
            name="copy",
            params={"input": f"/data/{source}"},
            output__uri=f"{stores.hdfs.uri}{target}",
            stores=stores.settings(),
            workers__parallelism=2,
            **mount(namespace, stores),
        )
    )
    assert namespace.wait_phase("copy", "Succeeded")["output"]["records"] == FILES * ROWS
    files = {file.name: file.read_bytes() for file in made.iterdir() if file.is_file() and file.name[0] not in "_."}
    assert files
    assert {name: stores.hdfs.read(f"{target}/{name}") for name in files} == files
    assert stores.hdfs.exists(f"{target}/_SUCCESS")
