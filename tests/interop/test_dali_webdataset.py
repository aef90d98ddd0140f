"""DALI reads `webdataset` on the CPU, with an index: every member of every sample."""

import json
import tarfile
from pathlib import Path
from typing import Any

import pytest
from tests.interop import data_sets
from tests.interop.comparisons import compared
from tests.interop.data_sets import WEBDATASET_EXTENSIONS

import environments

pytestmark = pytest.mark.interop

READER = Path(__file__).parent / "readers" / "dali_sets.py"

Sample = dict[str, tuple[int, int, bytes]]
"""(offset, size, content) of each member, by extension."""


def samples(shard: Path) -> list[Sample]:
    """The samples as read by Python's tarfile."""
    found: dict[str, Sample] = {}
    with tarfile.open(shard) as archive:
        for member in archive:
            key, _, extension = member.name.partition(".")
            file = archive.extractfile(member)
            assert file is not None
            found.setdefault(key, {})[extension] = (member.offset_data, member.size, file.read())
    return list(found.values())


def index(members: list[Sample]) -> str:
    """DALI's index for a shard."""
    lines = [" ".join(f"{extension} {offset} {size}" for extension, (offset, size, _) in sample.items()) for sample in members]
    return "\n".join([f"v1.1 {len(members)}", *lines, ""])


def test_every_member_of_every_sample_is_read(tmp_path: Path) -> None:
    sets: list[dict[str, Any]] = []
    expected: list[list[dict[str, list[str]]]] = []
    for source in data_sets.SOURCES:
        shards = data_sets.shards(data_sets.made(source, tmp_path / source, output={"format": "webdataset"}))
        members = [samples(shard) for shard in shards]
        indexes = [tmp_path / f"{source}-{shard.name}.idx" for shard in shards]
        for file, of_shard in zip(indexes, members, strict=True):
            file.write_text(index(of_shard))
        sets.append(
            {
                "format": "webdataset",
                "files": list(map(str, shards)),
                "indexes": list(map(str, indexes)),
                "extensions": sorted(WEBDATASET_EXTENSIONS[source].values()),
                "records": data_sets.COUNT,
            }
        )
        whole = [sample for of_shard in members for sample in of_shard]
        expected.append([{name: [sample[name][2].hex()] for name in sets[-1]["extensions"]} for sample in whole])
    (tmp_path / "wanted.json").write_text(json.dumps({"sets": sets}))
    said = json.loads(environments.run("dali", READER, [tmp_path / "wanted.json"]))
    for source, found, wanted in zip(data_sets.SOURCES, said["sets"], expected, strict=True):
        assert found == wanted
        compared(
            format="webdataset",
            reader="DALI's `readers.webdataset`, with an index, on a CPU",
            versions=said["versions"],
            source=source,
            records=len(found),
            fields=sorted(WEBDATASET_EXTENSIONS[source]),
        )
