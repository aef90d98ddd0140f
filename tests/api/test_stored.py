"""Each stored file has a format version. Old files keep their bytes. Errors about newer files name the supported versions."""

import json
from collections.abc import Mapping
from typing import ClassVar

import pytest
from pydantic import ValidationError

from dataprep_api.dataset.plan import Owner, PlanHead
from dataprep_api.dataset.report import Manifest, ShardReport
from dataprep_api.dataset.stored import StoredDocument, Versioned
from dataprep_api.errors import FormatError
from dataprep_api.spec import Model

OLD = {
    PlanHead: '{"bytesIn":1,"codeSha256":null,"codesSha256":null,"encodingVersion":1,"extends":[],"extension":".tfrecords","ignored":0,"inputsSha256":"i","learned":{},"reader":"csv","readerState":{},"runId":"r","samples":1,"shuffleSeed":null,"specSha256":"s","splits":[],"tasks":1,"unitsSha256":"u","version":1,"warnings":[]}',
    Owner: '{"epoch":3,"runId":"r"}',
    ShardReport: '{"added":0,"attempt":"","bad":0,"badExamples":[],"badReasons":{},"bytesIn":0,"checksum":"a61a251cafc8ee4dc0d9f6fc524b6a7adc56971b0bf3bfa3ab0c0386a1e5d5a5","companions":[],"file":"a","filtered":0,"finishedAt":"","index":null,"number":0,"pin":"p","planSha256":"x","quarantine":null,"quarantineSha256":null,"rawSha256":"d","rawSize":5,"recordsIn":1,"recordsOut":1,"runId":"r","seconds":{},"sha256":"e","size":5,"split":"train","statistics":"","tookSeconds":0.0}\n',
    Manifest: '{"added":0,"bad":0,"badExamples":[],"compression":"None","content":{},"digest":"d","encodingVersion":1,"features":[],"files":[],"filtered":0,"format":"tfrecord","inputsSha256":"i","labels":{},"metadata":[],"quarantine":[],"rawDigest":"d","recordsIn":0,"recordsOut":0,"runId":"r","size":0,"splits":[],"tools":{},"version":1}\n',
}


@pytest.mark.parametrize("model", [PlanHead, Owner, Manifest])
def test_a_file_from_before_there_were_versions_is_written_as_it_was(model: type[StoredDocument]) -> None:
    assert model.model_validate_json(OLD[model]).to_bytes().decode() == OLD[model]


def test_a_report_from_before_there_were_versions_is_intact() -> None:
    report = ShardReport.model_validate_json(OLD[ShardReport])
    assert report.is_intact()
    assert report.to_bytes().decode() == OLD[ShardReport]


@pytest.mark.parametrize("model", [PlanHead, Owner, ShardReport, Manifest])
def test_a_newer_file_is_refused_by_name_whatever_its_fields_are(model: type[StoredDocument]) -> None:
    newer = json.dumps(json.loads(OLD[model]) | {"version": 99, "somethingNew": 1})
    with pytest.raises(FormatError) as refused:
        model.model_validate_json(newer)
    assert str(refused.value) == (
        f"the {model.FILE} has the format version 99, and this release of dataprep supports versions up to {model.newest()}. "
        "Use the release that wrote the file, or a later release"
    )


@pytest.mark.parametrize("version", [0, -1, True, "2", 1.0, None])
def test_a_version_that_is_none_is_damage(version: object) -> None:
    with pytest.raises(ValidationError, match="version must be a whole number of at least 1"):
        Owner.model_validate_json(json.dumps({"runId": "r", "version": version}))


def test_only_files_with_a_new_field_have_the_new_version() -> None:
    old = Manifest.model_validate_json(OLD[Manifest])
    new = old.model_copy(update={"parts": {"shuffle": 2}})
    assert (old.document()["version"], new.document()["version"]) == (1, 2)
    assert Manifest.model_validate_json(new.to_bytes()) == new


# --- parts of files ---------------------------------------------------------------------------------------------------------


class Leaf(Versioned):
    """A nested part of a stored file, with fields that a later release might add."""

    SINCE: ClassVar[Mapping[str, int]] = {"added_later": 3, "added_last": 4}

    name: str
    added_later: list[str] = []
    added_last: int | None = None


class Branch(Model):
    """A part in which no later release has added a field."""

    leaves: list[Leaf] = []
    by_name: dict[str, Leaf] = {}
    one: Leaf | None = None


class Tree(StoredDocument):
    """A stored file."""

    FILE: ClassVar[str] = "tree"
    SINCE: ClassVar[Mapping[str, int]] = {"count": 2, "later_branch": 2}

    branches: list[Branch] = []
    pair: tuple[int, Leaf] = (1, Leaf(name="pair"))
    later_branch: Branch | None = None
    count: int = 0


@pytest.mark.parametrize(
    ("tree", "written"),
    [
        (
            Tree(branches=[Branch(leaves=[Leaf(name="a")], by_name={"b": Leaf(name="b")}, one=Leaf(name="c")), Branch()]),
            '{"branches":[{"byName":{"b":{"name":"b"}},"leaves":[{"name":"a"}],"one":{"name":"c"}},{"byName":{},"leaves":[],"one":null}],"pair":[1,{"name":"pair"}],"version":1}',
        ),
        (
            Tree(pair=(2, Leaf(name="p", added_later=["x"]))),
            '{"branches":[],"pair":[2,{"addedLater":["x"],"name":"p"}],"version":3}',
        ),
        (
            Tree(branches=[Branch(by_name={"b": Leaf(name="b"), "c": Leaf(name="c", added_last=0)})], count=1),
            '{"branches":[{"byName":{"b":{"name":"b"},"c":{"addedLast":0,"name":"c"}},"leaves":[],"one":null}],"count":1,"pair":[1,{"name":"pair"}],"version":4}',
        ),
        (
            Tree(later_branch=Branch(one=Leaf(name="c"))),
            '{"branches":[],"laterBranch":{"byName":{},"leaves":[],"one":{"name":"c"}},"pair":[1,{"name":"pair"}],"version":2}',
        ),
    ],
    ids=["all at their defaults", "in a tuple", "in a map", "in a newer field"],
)
def test_newer_fields_of_parts_are_written_only_where_they_are_set(tree: Tree, written: str) -> None:
    assert tree.to_bytes().decode() == written
    assert Tree.model_validate_json(written) == tree


def test_a_release_knows_the_versions_of_parts_too() -> None:
    assert (Tree.newest(), PlanHead.newest()) == (4, 4)
    assert Tree.model_validate_json('{"version": 4}') == Tree()
    with pytest.raises(FormatError, match="supports versions up to 4"):
        Tree.model_validate_json('{"version": 5}')
