"""Converts a real folder of photographs to TFRecord on the cluster and keeps the original bytes."""

import hashlib
from pathlib import Path

import pytest

from workbench import foreign
from workbench.jobs import Namespace, example
from workbench.photos import write
from workbench.stores import EXAMPLES, Stores, mount


@pytest.fixture(scope="session")
def photos(stores: Stores) -> Path:
    """Photographs of three classes in the shared folder."""
    return write(stores.volume / "photos")


def test_photographs_keep_their_bytes(namespace: Namespace, stores: Stores, photos: Path) -> None:
    output = stores.volume / namespace.name
    volume = mount(namespace, stores)
    job = example(
        str(EXAMPLES / "images-local.yaml"),
        name="photos",
        one_pod=True,
        params={"input": f"/data/{photos.name}"},
        output__uri=f"/data/{namespace.name}",
        output__shards={"count": 2},
        **volume,
    )
    namespace.apply(job)
    status = namespace.wait_phase("photos", "Succeeded")

    files = {hashlib.sha256(file.read_bytes()).hexdigest(): file for file in photos.rglob("*.jpg")}
    classes = sorted(folder.name for folder in photos.iterdir())
    assert status["labels"] == [{"feature": "image/class/label", "numClasses": 3, "classes": classes}]
    seen = set()
    for record in foreign.examples(output.glob("*.tfrecords")):
        (encoded,) = record["image/encoded"]
        assert isinstance(encoded, bytes)
        digest = hashlib.sha256(encoded).hexdigest()
        file = files[digest]
        assert record["image/class/text"] == [file.parent.name.encode()]
        assert record["image/class/label"] == [classes.index(file.parent.name)]
        assert record["image/format"] == [b"jpeg"]
        seen.add(digest)
    assert seen == set(files)
    assert status["output"]["records"] == len(files)
