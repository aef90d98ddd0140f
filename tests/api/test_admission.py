"""Checks by the API server alone, without the operator: schema, CEL rules, printed columns and sub-resources."""

import json
import re
import secrets
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any, get_args

import pytest
import yaml
from tests.builders.definitions import SHARED_LISTS, every_schema, with_second_version
from tests.compat.stored_objects import RESOURCES

from dataprep_api import API_VERSION, KIND
from dataprep_api.generate import crd
from dataprep_api.resources import status
from dataprep_api.resources.defaults import without_defaults
from dataprep_api.resources.status import DataPrepJobStatus
from dataprep_api.spec import Source, Transform
from kubecluster.cluster import Cluster
from kubecluster.errors import StartFailed
from workbench import dry_runs

ROOT = Path(__file__).parents[2]
EXAMPLES = sorted((ROOT / "examples").glob("*.yaml"))
NAMESPACE = f"dataprep-admission-{secrets.token_hex(3)}"
"""A new name each time, because the last run's namespace might still be terminating."""
STARTED = "started"
SOURCES = ", ".join(Source.members())
TRANSFORMS = ", ".join(Transform.members())

pytestmark = [pytest.mark.cluster, pytest.mark.usefixtures("namespace")]
Builder = Callable[[Mapping[str, object]], dict[str, Any]]


@pytest.fixture(scope="module")
def namespace(cluster: Cluster) -> Iterator[str]:
    """A namespace on a cluster that serves the repository's CRDs. If a release of the chart owns the CRDs, they are overwritten."""
    for file in (crd.FILE, crd.CRON_FILE, crd.PROFILE_FILE):
        cluster.kubectl("apply", "--server-side", "--force-conflicts", f"--filename={ROOT / file}")
        cluster.kubectl("wait", "--for=condition=Established", f"crd/{file.stem}")
    manifest = json.dumps({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": NAMESPACE}})
    cluster.kubectl("apply", "--server-side", "--filename=-", stdin=manifest)
    yield NAMESPACE
    cluster.kubectl("delete", "namespace", NAMESPACE, "--wait=false")


def answer_to(cluster: Cluster, job: dict[str, Any]) -> str:
    """Return the API server's response to creating `job` in a dry run."""
    return dry_runs.answer_to_object(cluster, NAMESPACE, job)


ACCEPTED: dict[str, dict[str, object]] = {
    "the smallest job": {},
    "images": {"source": {"images": {"uris": ["oss://bucket/photos"], "classes": ["cat", "dog"]}}},
    "csv": {"source": {"csv": {"uris": ["/data/*.csv"], "columns": [{"name": "a", "type": "Int64", "default": "0"}]}}},
    "fractions that sum to 1 only nearly": {
        "splits.into": [{"name": "a", "fraction": 0.7}, {"name": "b", "fraction": 0.2}, {"name": "c", "fraction": 0.1}]
    },
    "a fraction written as an integer": {"splits.into": [{"name": "train", "fraction": 1}]},
    "fractions of each subset": {
        "splits.into": [
            {"name": "train", "subset": "train", "fraction": 0.9},
            {"name": "validation", "subset": "train", "fraction": 0.1},
            {"name": "test", "subset": "test", "fraction": 1},
        ]
    },
    "the first records, and the rest": {
        "splits.into": [{"name": "validation", "subset": "train", "first": 5000}, {"name": "train", "subset": "train"}]
    },
    "a count, and fractions of groups": {
        "splits": {"groupBy": "user", "into": [{"name": "few", "count": 9}, {"name": "a", "fraction": 0.5}, {"name": "b", "fraction": 0.5}]}
    },
    "exact fractions and a limit": {"splits": {"exact": True, "into": [{"name": "a", "fraction": 1}]}, "limit": 1000},
    "values and times of a column": {
        "splits": {"column": "c", "into": [{"name": "a", "values": ["x"]}, {"name": "b", "since": "2024-01-01"}, {"name": "c"}]}
    },
    "a quarantine": {"onBadRecord": {"policy": "Quarantine", "maxCount": 10, "maxFraction": 0.1}},
    "a target size with a unit": {"output.shards.targetSize": "128Mi"},
    "a target size in bytes": {"output.shards.targetSize": 65536},
    "minibatches, several to a file": {"output.granularity": "Minibatch", "output.minibatchSize": 8, "output.shards.records": 8},
    "GPUs": {"workers.accelerator": {"policy": "Required", "count": 2}},
    "resources in Kubernetes' forms": {"workers.resources": {"limits": {"cpu": "500m", "memory": "4Gi", "nvidia.com/gpu": 1}}},
    "an affinity of any shape": {
        "workers.affinity": {"nodeAffinity": {"preferredDuringSchedulingIgnoredDuringExecution": [{"weight": 1, "preference": {}}]}}
    },
    "a volume and a Secret key as env": {
        "workers.volumes": [{"name": "nas", "persistentVolumeClaim": {"claimName": "nas"}}],
        "workers.volumeMounts": [{"name": "nas", "mountPath": "/mnt/nas"}],
        "workers.env": [{"name": "KEY", "valueFrom": {"secretKeyRef": {"name": "keys", "key": "a"}}}],
    },
    "a script instead of a source": {"source": None, "script": {"command": "python a.py --x 1", "outputs": ["*.tfrecords"]}},
    "a script from Git in an image by a short name": {
        "source": None,
        "code": {"git": {"url": "https://code.aliyun.com/deeplearning/mnist-examples.git", "ref": "v1", "subPath": "tools"}},
        "script": {
            "framework": "tensorflow:1.0.0",
            "command": ["python", "a.py"],
            "outputs": ["a"],
            "bucketsArgument": True,
            "input": "/a",
        },
    },
    "a template and params": {"params": {"where": "/out"}, "output.uri": "${where}/set", "output.fileName": "{split}.tfrecords"},
}


@pytest.mark.parametrize("changes", ACCEPTED.values(), ids=ACCEPTED.keys())
def test_a_good_spec_is_accepted(cluster: Cluster, a_job: Builder, changes: dict[str, object]) -> None:
    assert "created" in answer_to(cluster, a_job(changes))


@pytest.mark.parametrize("name", RESOURCES)
def test_what_an_earlier_release_stored_is_accepted(cluster: Cluster, name: str) -> None:
    _, body = RESOURCES[name]
    metadata = {"name": body["metadata"]["name"], "labels": body["metadata"].get("labels", {})}
    assert "created" in answer_to(cluster, {**{key: body[key] for key in ("apiVersion", "kind", "spec")}, "metadata": metadata})


@pytest.mark.parametrize("example", EXAMPLES, ids=[example.name for example in EXAMPLES])
def test_an_example_is_accepted_and_its_defaults_can_be_removed_again(cluster: Cluster, namespace: str, example: Path) -> None:
    said = cluster.kubectl(
        *("create", "--dry-run=server", "--validate=strict", f"--namespace={namespace}", f"--filename={example}", "--output=yaml")
    )

    created, written = ([*yaml.safe_load_all(text)] for text in (said, example.read_text()))
    assert [document["kind"] for document in created] == [document["kind"] for document in written]
    stored, asked = ([document["spec"] for document in each if document["kind"] == "DataPrepJob"] for each in (created, written))
    assert list(map(without_defaults, stored)) == list(map(without_defaults, asked))


REFUSED: dict[str, tuple[dict[str, object], str]] = {
    "no source": ({"source.idx": None}, f"spec.source: Invalid value: exactly one source must be set: {SOURCES}"),
    "two sources": ({"source.csv": {"uris": ["/a.csv"]}}, f"spec.source: Invalid value: exactly one source must be set: {SOURCES}"),
    "source left out": ({"source": None}, "spec.source: Invalid value: set exactly one of source and script"),
    "source and script": (
        {"script": {"command": ["true"], "outputs": ["a"]}},
        "spec.source: Invalid value: set exactly one of source and script",
    ),
    "features beside a script": (
        {"source": None, "script": {"command": ["true"], "outputs": ["a"]}, "features": [{"name": "a"}]},
        "spec.features: Invalid value: features can be set only in a job with a source",
    ),
    "labels beside a script": (
        {"source": None, "script": {"command": ["true"], "outputs": ["a"]}, "labels": [{"name": "a"}]},
        "spec.labels: Invalid value: labels can be set only in a job with a source",
    ),
    "transforms beside a script": (
        {"source": None, "script": {"command": ["true"], "outputs": ["a"]}, "transforms": [{"drop": {"columns": ["a"]}}]},
        "spec.transforms: Invalid value: transforms can be set only in a job with a source",
    ),
    "deduplicate beside a script": (
        {"source": None, "script": {"command": ["true"], "outputs": ["a"]}, "deduplicate": {"columns": ["a"]}},
        "spec.deduplicate: Invalid value: deduplicate can be set only in a job with a source",
    ),
    "limit beside a script": (
        {"source": None, "script": {"command": ["true"], "outputs": ["a"]}, "limit": 5},
        "spec.limit: Invalid value: limit can be set only in a job with a source",
    ),
    "splits beside a script": (
        {"source": None, "script": {"command": ["true"], "outputs": ["a"]}, "splits": {"into": [{"name": "a"}]}},
        "spec.splits: Invalid value: splits can be set only in a job with a source",
    ),
    "shuffle beside a script": (
        {"source": None, "script": {"command": ["true"], "outputs": ["a"]}, "shuffle": {}},
        "spec.shuffle: Invalid value: shuffle can be set only in a job with a source",
    ),
    "a script without outputs": ({"source": None, "script": {"command": ["true"]}}, "spec.script.outputs: Required value"),
    "code in two ways": (
        {"code": {"configMapRef": {"name": "a"}, "git": {"url": "https://a"}}},
        "spec.code: Invalid value: set exactly one of configMapRef and git",
    ),
    "code by SSH": (
        {"code": {"git": {"url": "ssh://a"}}},
        "spec.code.git.url: Invalid value: expected http://, https://, git:// or file://",
    ),
    "SageMaker's format without a split to train on": (
        {"output.format": "recordioProtobuf", "splits": {"into": [{"name": "a"}]}},
        "spec.splits: Invalid value: recordioProtobuf is for SageMaker, which needs a channel named train",
    ),
    "provenance together with a uid feature": (
        {"output.provenance": True, "output.recordioProtobuf": {"uid": "a"}},
        "spec.output.provenance: Invalid value: provenance sets the records' uid and metadata",
    ),
    "output left out": ({"output": None}, "spec.output: Required value"),
    "no files": ({"source.idx.subsets": []}, "spec.source.idx.subsets in body should have at least 1 items"),
    "an extension with a dot": (
        {"source": {"images": {"uris": ["/a"], "extensions": [".jpg"]}}},
        "spec.source.images.extensions[0] in body should match '^[a-z0-9]{1,8}$'",
    ),
    "images in two ways": (
        {"source": {"images": {"uris": ["/a"], "list": {"uri": "/b.csv"}}}},
        "spec.source.images: Invalid value: set exactly one of uris and list",
    ),
    "a class from file names without a rule": (
        {"source": {"images": {"uris": ["/a"], "labelFrom": "FileName"}}},
        "spec.source.images.labelFrom: Invalid value: labelFrom: FileName and fileName must be set together",
    ),
    "a rule for names in two ways": (
        {"source": {"images": {"uris": ["/a"], "labelFrom": "FileName", "fileName": {"split": "_", "pattern": "(?P<label>a)"}}}},
        "spec.source.images.fileName: Invalid value: set exactly one of split and pattern",
    ),
    "a class from a list without a column": (
        {"source": {"images": {"list": {"uri": "/b.csv"}, "labelFrom": "List"}}},
        "spec.source.images.labelFrom: Invalid value: labelFrom: List and list.labelColumn must be set together",
    ),
    "classes of labels that are numbers": (
        {"source": {"images": {"uris": ["/a"], "labelType": "Number", "classes": ["1"]}}},
        "spec.source.images.classes: Invalid value: classes need labels that are names",
    ),
    "fewer annotations than image folders": (
        {"source": {"annotatedImages": {"images": ["/a"], "annotations": ["/b", "/c"], "format": "Voc"}}},
        "spec.source.annotatedImages.annotations: Invalid value: images and annotations must have the same number of entries",
    ),
    "yolo without names": (
        {"source": {"annotatedImages": {"images": ["/a"], "annotations": ["/b"], "format": "Yolo"}}},
        "spec.source.annotatedImages: Invalid value: Yolo files contain only class numbers: set classNames or classes",
    ),
    "names that are not for yolo": (
        {"source": {"annotatedImages": {"images": ["/a"], "annotations": ["/b"], "format": "Voc", "classNames": "/n.txt"}}},
        "spec.source.annotatedImages.classNames: Invalid value: classNames needs format: Yolo",
    ),
    "classes of a subset where there are none": (
        {"source": {"annotatedImages": {"images": ["/a"], "annotations": ["/b"], "format": "Voc", "classesFrom": "train"}}},
        "spec.source.annotatedImages.classesFrom: Invalid value: classesFrom needs format: Voc and subsetFrom, and can't be combined with classes",
    ),
    "FileBatch files of a list": (
        {"source": {"images": {"list": {"uri": "/a"}, "labelFrom": "OriginalUri"}}},
        "spec.source.images.labelFrom: Invalid value: labelFrom: OriginalUri needs uris of FileBatch zips, not a list",
    ),
    "classes of a subset of images where there are none": (
        {"source": {"images": {"uris": ["/a"], "classesFrom": "train"}}},
        "spec.source.images.classesFrom: Invalid value: classesFrom needs subsetFrom and labels that are names, and can't be combined with classes",
    ),
    "fewer folders of labels than of sequences": (
        {"source": {"csvSequences": {"uris": ["/a", "/b"], "labels": {"uris": ["/c"]}}}},
        "spec.source.csvSequences.labels.uris: Invalid value: labels.uris and uris must have the same number of entries",
    ),
    "fewer mask folders than image folders": (
        {"source": {"masks": {"images": ["/a"], "masks": ["/b", "/c"]}}},
        "spec.source.masks.masks: Invalid value: images and masks must have the same number of entries",
    ),
    "a delimiter of two characters": (
        {"source": {"csv": {"uris": ["/a.csv"], "delimiter": "||"}}},
        "spec.source.csv.delimiter: Too long: may not be more than 1 byte",
    ),
    "an unknown type": (
        {"source": {"csv": {"uris": ["/a.csv"], "columns": [{"name": "a", "type": "int"}]}}},
        'spec.source.csv.columns[0].type: Unsupported value: "int": supported values: "Int64", "Float32", "Float64", "String", "Bool"',
    ),
    "a param that no ${NAME} can name": ({"params": {"1st": "x"}}, "spec.params: Invalid value: keys: at most"),
    "no transform": ({"transforms": [{}]}, f"spec.transforms[0]: Invalid value: exactly one transform must be set: {TRANSFORMS}"),
    "two transforms in one step": (
        {"transforms": [{"scale": {"columns": ["a"]}, "oneHot": {"columns": ["a"], "numClasses": 2}}]},
        f"spec.transforms[0]: Invalid value: exactly one transform must be set: {TRANSFORMS}",
    ),
    "an empty range": (
        {"transforms": [{"scale": {"columns": ["a"], "fromMin": 255}}]},
        "spec.transforms[0].scale.fromMax: Invalid value: fromMin and fromMax must differ",
    ),
    "no classes": (
        {"transforms": [{"oneHot": {"columns": ["a"], "numClasses": 0}}]},
        "spec.transforms[0].oneHot.numClasses in body should be greater than or equal to 1",
    ),
    "a size given in two ways": (
        {"transforms": [{"resize": {"height": 3, "width": 3, "shortestSide": 3}}]},
        "spec.transforms[0].resize: Invalid value: set either height and width, or shortestSide",
    ),
    "half a size": (
        {"transforms": [{"resize": {"height": 3}}]},
        "spec.transforms[0].resize: Invalid value: set either height and width, or shortestSide",
    ),
    "indexes of a palette in three channels": (
        {"transforms": [{"decode": {"paletteIndexes": True}}]},
        "spec.transforms[0].decode.paletteIndexes: Invalid value: paletteIndexes needs channels: 1",
    ),
    "a mean without a deviation": (
        {"transforms": [{"standardize": {"mean": [127.5]}}]},
        "spec.transforms[0].standardize: Invalid value: mean and deviation must be set together",
    ),
    "a deviation of 0": (
        {"transforms": [{"standardize": {"mean": [127.5], "deviation": [0]}}]},
        "spec.transforms[0].standardize.deviation: Invalid value: deviations must be above 0",
    ),
    "fractions of 1.1": (
        {"splits.into": [{"name": "a", "fraction": 0.8}, {"name": "b", "fraction": 0.3}]},
        "spec.splits.into: Invalid value: the fractions of one subset must sum to 1",
    ),
    "fractions of 0.9": (
        {"splits.into": [{"name": "a", "fraction": 0.8}, {"name": "b", "fraction": 0.1}]},
        "spec.splits.into: Invalid value: the fractions of one subset must sum to 1",
    ),
    "a fraction above 1": (
        {"splits.into": [{"name": "a", "fraction": 1.5}]},
        "spec.splits.into[0].fraction in body should be less than or equal to 1",
    ),
    "first and fraction": (
        {"splits.into": [{"name": "a", "first": 5, "fraction": 1}]},
        "spec.splits.into[0]: Invalid value: set only one of first, count, fraction, values, or since and before",
    ),
    "values and a range": (
        {"splits": {"column": "c", "into": [{"name": "a", "values": ["x"], "before": "2024-01-01"}]}},
        "spec.splits.into[0]: Invalid value: set only one of first, count, fraction, values, or since and before",
    ),
    "values without a column": (
        {"splits": {"into": [{"name": "a", "values": ["x"]}]}},
        "spec.splits: Invalid value: values, since and before need splits.column",
    ),
    "a column without values": (
        {"splits": {"column": "c", "into": [{"name": "a"}]}},
        "spec.splits.column: Invalid value: column needs an entry with values, since or before",
    ),
    "groups without fractions": (
        {"splits": {"groupBy": "c", "into": [{"name": "a", "count": 3}]}},
        "spec.splits: Invalid value: groupBy, stratifyBy and exact need entries with a fraction",
    ),
    "exact groups": (
        {"splits": {"groupBy": "c", "exact": True, "into": [{"name": "a", "fraction": 1}]}},
        "spec.splits: Invalid value: set only one of groupBy, stratifyBy and exact: groups can't be divided, and stratified splits are already exact",
    ),
    "a limit of nothing": ({"limit": 0}, "spec.limit in body should be greater than or equal to 1"),
    "a split twice": (
        {"splits.into": [{"name": "a", "first": 5}, {"name": "a"}]},
        "spec.splits.into: Invalid value: the names of the splits must differ",
    ),
    "rows for a table from another format": (
        {"output.table": {"uri": "odps://p/tables/t"}},
        "spec.output.table: Invalid value: table needs format: arrow",
    ),
    "columns selected and excluded": (
        {"source": {"table": {"uris": ["odps://p/tables/t"], "selectedCols": ["a"], "excludedCols": ["b"]}}},
        "spec.source.table.selectedCols: Invalid value: set selectedCols or excludedCols, not both",
    ),
    "file names with the number of shards for a data set that is extended": (
        {"output.overwrite": "Extend", "output.fileName": "{split}-{shard}-of-{shards}.{ext}"},
        "spec.output.fileName: Invalid value: with overwrite: Extend, the file name must contain {shard} and must not contain {shards}",
    ),
    "a table that grows": (
        {"output.overwrite": "Extend", "output.format": "arrow", "output.table": {"uri": "odps://p/tables/t"}},
        "spec.output.table: Invalid value: a table can't be extended: use overwrite: Always",
    ),
    "an unknown overwrite": ({"output.overwrite": "always"}, 'spec.output.overwrite: Unsupported value: "always"'),
    "an unknown format": ({"output.format": "orc"}, 'spec.output.format: Unsupported value: "orc": supported values: "tfrecord"'),
    "count and records": (
        {"output.shards": {"count": 2, "records": 10}},
        "spec.output.shards: Invalid value: set only one of count, targetSize, records",
    ),
    "a size of minibatches without them": (
        {"output.minibatchSize": 8},
        "spec.output.minibatchSize: Invalid value: minibatchSize needs granularity: Minibatch",
    ),
    "shards of a format whose files are minibatches": (
        {"output.format": "npz", "output.granularity": "Minibatch", "output.shards": {"count": 2}},
        "spec.output.shards: Invalid value: with granularity: Minibatch, each file of npz, fileBatch, dl4jDataset contains one minibatch, so leave shards out",
    ),
    "shards smaller than a minibatch": (
        {"output.granularity": "Minibatch", "output.shards": {"records": 31}},
        "spec.output.shards.records: Invalid value: shards.records must be at least minibatchSize",
    ),
    "no shards": ({"output.shards.count": 0}, "spec.output.shards.count in body should be greater than or equal to 1"),
    "tiny shards": ({"output.shards.targetSize": "63Ki"}, "spec.output.shards.targetSize: Invalid value: targetSize must be at least 64Ki"),
    "tiny shards in bytes": (
        {"output.shards.targetSize": 65535},
        "spec.output.shards.targetSize: Invalid value: targetSize must be at least 64Ki",
    ),
    "a size that is none": ({"output.shards.targetSize": "big"}, "spec.output.shards.targetSize in body should match"),
    "a permission of letters": ({"output.hdfs.permission": "rw-"}, "spec.output.hdfs.permission in body should match '^0?[0-7]{3}$'"),
    "a fraction of bad records above 1": (
        {"onBadRecord": {"policy": "Skip", "maxFraction": 2}},
        "spec.onBadRecord.maxFraction in body should be less than or equal to 1",
    ),
    "no workers": ({"workers.parallelism": 0}, "spec.workers.parallelism in body should be greater than or equal to 1"),
    "a negative GPU count": (
        {"workers.accelerator.count": -1},
        "spec.workers.accelerator.count in body should be greater than or equal to 0",
    ),
    "half a GPU": ({"workers.accelerator.count": 0.5}, "spec.workers.accelerator.count in body must be of type integer"),
    "a negative GPU limit": (
        {"workers.resources.limits": {"nvidia.com/gpu": -1}},
        "spec.workers.resources.limits.nvidia.com/gpu in body should be greater than or equal to 0",
    ),
    "memory with a blank": ({"workers.resources.limits": {"memory": "2 GB"}}, "spec.workers.resources.limits.memory in body should match"),
    "an unknown effect": (
        {"workers.tolerations": [{"key": "a", "operator": "Exists", "effect": "No"}]},
        'spec.workers.tolerations[0].effect: Unsupported value: "No"',
    ),
    "an unknown cleanup": ({"cleanup": [{"when": "Failed", "action": "DeleteOutput"}]}, "spec.cleanup[0].action: Unsupported value"),
    "an anonymous store with a Secret": (
        {"stores": [{"uriPrefix": "s3://", "anonymous": True, "secretRef": {"name": "a"}}]},
        "spec.stores[0].anonymous: Invalid value: anonymous can't be combined with secretRef",
    ),
    "too many stores": ({"stores": [{"uriPrefix": "a"}] * 33}, "spec.stores: Too many: 33: must have at most 32 items"),
    "a misspelt field": ({"output.shard": {"count": 2}}, 'unknown field "spec.output.shard"'),
}


@pytest.mark.parametrize(("changes", "message"), REFUSED.values(), ids=REFUSED.keys())
def test_a_bad_spec_is_refused_with_its_field(cluster: Cluster, a_job: Builder, changes: dict[str, object], message: str) -> None:
    assert message in answer_to(cluster, a_job(changes))


# --- lists that several managers share --------------------------------------------------------------------------------------


def items_of(manager: str) -> dict[str, Any]:
    """Return a spec with one item in every shared list. Items of different managers have different keys."""
    return {
        "stores": [{"uriPrefix": f"s3://{manager}/", "region": manager, "pathStyle": False, "anonymous": False}],
        "runAfter": [manager],
        "workers": {
            "env": [{"name": manager.upper(), "value": manager}],
            "imagePullSecrets": [{"name": manager}],
            "volumes": [{"name": manager, "emptyDir": {}}],
            "volumeMounts": [{"name": manager, "mountPath": f"/{manager}"}],
            "podTemplate": {
                "initContainers": [{"name": manager, "image": manager}],
                "topologySpreadConstraints": [{"topologyKey": manager, "whenUnsatisfiable": "DoNotSchedule", "maxSkew": 1}],
                "hostAliases": [{"ip": f"10.0.0.{len(manager)}", "hostnames": [manager]}],
            },
        },
    }


def lists_in(value: Any, path: str = "spec") -> dict[str, list[Any]]:
    """Return the lists below `value`, keyed by path. Lists within the items of a list are left out."""
    if isinstance(value, list):
        return {path: value}
    members = value.items() if isinstance(value, dict) else ()
    return {key: items for name, member in members for key, items in lists_in(member, f"{path}.{name}").items()}


def apply_as(cluster: Cluster, manager: str, name: str, spec: dict[str, Any]) -> None:
    job = {"apiVersion": "dataprep.io/v1alpha1", "kind": "DataPrepJob", "metadata": {"name": name}, "spec": spec}
    cluster.kubectl(
        "apply", "--server-side", f"--field-manager={manager}", f"--namespace={NAMESPACE}", "--filename=-", stdin=json.dumps(job)
    )


def spec_of(cluster: Cluster, name: str) -> dict[str, Any]:
    spec: dict[str, Any] = json.loads(cluster.kubectl("get", "dpj", name, f"--namespace={NAMESPACE}", "--output=json"))["spec"]
    return spec


def test_two_managers_each_own_their_items_of_every_shared_list(cluster: Cluster, a_job: Builder) -> None:
    author, platform = items_of("author"), items_of("platform")
    assert {path for path, (kind, _) in SHARED_LISTS.items() if not path.startswith("status")} == lists_in(author).keys()
    apply_as(cluster, "author", "shared", a_job({"suspend": True})["spec"] | author)
    apply_as(cluster, "platform", "shared", platform)

    both = lists_in(spec_of(cluster, "shared"))
    for path, items in lists_in(author).items():
        assert both[path] == [*items, *lists_in(platform)[path]], path
    apply_as(cluster, "author", "shared", a_job({"suspend": True})["spec"])
    left = lists_in(spec_of(cluster, "shared"))
    for path, items in lists_in(platform).items():
        assert left[path] == items, path
    cluster.kubectl("delete", "dpj", "shared", f"--namespace={NAMESPACE}")


def test_two_managers_of_one_item_get_a_conflict_that_names_it(cluster: Cluster, a_job: Builder) -> None:
    apply_as(cluster, "author", "disputed", a_job({"suspend": True})["spec"] | items_of("author"))

    with pytest.raises(StartFailed, match=r'conflict with "author": \.spec\.workers\.env\[name="AUTHOR"\]\.value'):
        apply_as(cluster, "platform", "disputed", {"workers": {"env": [{"name": "AUTHOR", "value": "another"}]}})
    with pytest.raises(StartFailed, match=r'conflict with "author": \.spec\.source\.idx\.subsets'):
        apply_as(cluster, "platform", "disputed", {"source": {"idx": {"subsets": []}}})
    cluster.kubectl("delete", "dpj", "disputed", f"--namespace={NAMESPACE}")


TWICE: dict[str, dict[str, object]] = {path: {path.removeprefix("spec."): items * 2} for path, items in lists_in(items_of("one")).items()}


@pytest.mark.parametrize("path", TWICE)
def test_a_new_job_may_not_contain_an_item_twice(cluster: Cluster, a_job: Builder, path: str) -> None:
    assert f"{path}[1]: Duplicate value" in answer_to(cluster, a_job(TWICE[path]))


WITHOUT_KEYS: dict[str, dict[str, object]] = {
    path: {path.removeprefix("spec."): [{"any": {}}, {"any": {}}]}
    for path in (
        "spec.workers.volumes",
        "spec.workers.volumeMounts",
        "spec.workers.podTemplate.initContainers",
        "spec.workers.podTemplate.topologySpreadConstraints",
        "spec.workers.podTemplate.hostAliases",
    )
}


@pytest.mark.parametrize("path", WITHOUT_KEYS)
def test_a_new_job_may_not_contain_an_item_without_its_keys(cluster: Cluster, a_job: Builder, path: str) -> None:
    keys = SHARED_LISTS[path][1]

    assert f"{path}[0].{keys[0]}: Required value: {' and '.join(keys)} must be set" in answer_to(cluster, a_job(WITHOUT_KEYS[path]))


def without_list_types(definition: dict[str, Any]) -> dict[str, Any]:
    """Return the earlier definition, in which lists had no types and pod fields could have any shape."""
    earlier: dict[str, Any] = json.loads(json.dumps(definition))
    for path, schema in every_schema(earlier["spec"]["versions"][0]["schema"]["openAPIV3Schema"]):
        if path == ".status.conditions":
            continue
        schema.pop("x-kubernetes-list-type", None)
        schema.pop("x-kubernetes-list-map-keys", None)
        if "x-kubernetes-preserve-unknown-fields" in schema.get("items", {}):
            schema["items"] = {"type": "object", "x-kubernetes-preserve-unknown-fields": True}
    return earlier


STORED_EARLIER: dict[str, tuple[dict[str, dict[str, object]], str]] = {
    "duplicates": (TWICE, "Duplicate value"),
    "items without keys": (WITHOUT_KEYS, "must be set"),
}


@contextmanager
def stored_earlier(cluster: Cluster, job: dict[str, Any], *, fault: str) -> Iterator[dict[str, Any]]:
    """Yield a job that was stored before lists had types. It has its own kind, and a new job with the same spec is refused with `fault`."""
    group, plural = f"stored.{secrets.token_hex(3)}.dataprep.io", "storedjobs"
    definition = crd.crd() | {"metadata": {"name": f"{plural}.{group}"}}
    definition["spec"] |= {"group": group, "names": {"kind": "StoredJob", "plural": plural, "singular": "storedjob"}}
    stored = job | {"apiVersion": f"{group}/v1alpha1", "kind": "StoredJob"}
    try:
        cluster.kubectl("apply", "--server-side", "--filename=-", stdin=json.dumps(without_list_types(definition)))
        once_served(cluster, "create", f"--namespace={NAMESPACE}", "--filename=-", stdin=json.dumps(stored))
        cluster.kubectl("apply", "--server-side", "--filename=-", stdin=json.dumps(definition))
        once_served(cluster, "explain", f"{plural}.spec.stores", f"--api-version={group}/v1alpha1")
        wait_until_refused(cluster, stored, fault=fault)
        yield stored
    finally:
        cluster.kubectl("delete", f"crd/{plural}.{group}", "--wait=false")


def patch_stored(cluster: Cluster, stored: dict[str, Any], patch: object, *options: str) -> str:
    target = f"storedjobs.{stored['apiVersion'].partition('/')[0]}/{stored['metadata']['name']}"
    return cluster.kubectl("patch", target, f"--namespace={NAMESPACE}", *(options or ("--type=merge",)), f"--patch={json.dumps(patch)}")


def apply_phase(cluster: Cluster, stored: dict[str, Any]) -> str:
    status = {**{key: stored[key] for key in ("apiVersion", "kind", "metadata")}, "status": {"phase": "Running"}}
    options = ("--server-side", "--field-manager=operator", "--subresource=status", f"--namespace={NAMESPACE}", "--filename=-")
    return cluster.kubectl("apply", *options, stdin=json.dumps(status))


@pytest.mark.parametrize(("lists", "fault"), STORED_EARLIER.values(), ids=STORED_EARLIER.keys())
def test_a_job_that_an_earlier_release_stored_stays_editable(
    cluster: Cluster, a_job: Builder, lists: dict[str, dict[str, object]], fault: str
) -> None:
    """The API server ignores faults that the stored object already had, so the operator can still write the status and finalizers."""
    every_list = {path: items for changes in lists.values() for path, items in changes.items()}
    with stored_earlier(cluster, a_job({"suspend": True} | every_list), fault=fault) as stored:
        assert "patched" in patch_stored(cluster, stored, {"metadata": {"finalizers": ["dataprep.io/output"]}})
        assert "serverside-applied" in apply_phase(cluster, stored)
        assert "patched" in patch_stored(cluster, stored, {"spec": {"suspend": False}})
        assert "patched" in patch_stored(cluster, stored, {"metadata": {"finalizers": None}})


def test_a_status_that_can_not_be_applied_can_be_replaced(cluster: Cluster, a_job: Builder) -> None:
    """If a status can't be applied, the operator replaces it (`KubernetesCluster.apply_status`)."""
    job = a_job({"suspend": True, "workers.volumes": [{"name": 5}]})
    with stored_earlier(cluster, job, fault="must be of type string") as stored:
        with pytest.raises(StartFailed, match="failed to create (typed|manager)"):
            apply_phase(cluster, stored)

        replacement = [{"op": "add", "path": "/status", "value": {"phase": "Running"}}]
        assert "patched" in patch_stored(cluster, stored, replacement, "--type=json", "--subresource=status")


def wait_until_refused(cluster: Cluster, job: dict[str, Any], *, fault: str) -> None:
    """Wait until the API server uses the new definition: creating another job then fails with `fault`."""
    another = json.dumps(job | {"metadata": {"name": "another"}})
    deadline = time.monotonic() + 30
    while True:
        try:
            cluster.kubectl("create", "--dry-run=server", f"--namespace={NAMESPACE}", "--filename=-", stdin=another)
        except StartFailed as refused:
            if fault in str(refused):
                return
            raise
        assert time.monotonic() < deadline
        time.sleep(0.5)


# --- after the start --------------------------------------------------------------------------------------------------


FULL: dict[str, object] = {
    "params": {"a": "b"},
    "features": [{"name": "image"}],
    "labels": [{"name": "label"}],
    "splits.into": [{"name": "validation", "subset": "train", "first": 5}, {"name": "train", "subset": "train"}],
    "workers.image": "registry.example/dataprep:1",
    "workers.affinity": {"nodeAffinity": {"required": "a"}},
    "workers.volumes": [{"name": "nas", "nfs": {"server": "a", "path": "/"}}],
}


@pytest.fixture(scope="module")
def started(cluster: Cluster, namespace: str, a_job: Builder) -> str:
    """A stored job. According to its status, the job has started and ended, so an operator doesn't change it."""
    job = a_job(FULL | {"suspend": True})
    job["metadata"]["name"] = STARTED
    cluster.kubectl("apply", "--server-side", f"--namespace={namespace}", "--filename=-", stdin=json.dumps(job))
    status = {
        "phase": "Failed",
        "progress": {
            "percent": 37, "summary": "3/8", "records": {"in": 26000, "out": 25900}, "recordsPerSecond": 12345.6, "bytesPerSecond": 1.5, "eta": "1m20s",
        },
        "startTime": "2026-01-31T12:00:00Z",
        "conditions": [{"type": "Ready", "status": "False", "reason": "InputNotFound", "message": "m", "lastTransitionTime": "2026-01-31T12:00:00Z"}],
        "effective": {"parallelism": 1},
        "selector": "dataprep.io/job-uid=a",
        "output": {"uri": "hdfs://nn:9000/mnist-tfrecord"},
    }  # fmt: skip
    cluster.kubectl(
        "patch",
        f"dpj/{STARTED}",
        f"--namespace={namespace}",
        "--subresource=status",
        "--type=merge",
        f"--patch={json.dumps({'status': status})}",
    )
    return STARTED


def answer_to_change(cluster: Cluster, job: str, change: dict[str, Any]) -> str:
    """Return the API server's response to a merge patch of the spec in a dry run."""
    changed = {"apiVersion": API_VERSION, "kind": KIND, "metadata": {"name": job}}
    return dry_runs.answer_to_patch(cluster, NAMESPACE, changed, {"spec": change})


FROZEN: dict[str, tuple[str, dict[str, Any]]] = {
    "params": ("params", {"params": {"a": "c"}}),
    "source": ("source", {"source": {"idx": None, "csv": {"uris": ["/a.csv"]}}}),
    "script": ("source script", {"source": None, "script": {"command": ["true"], "outputs": ["a"]}}),
    "a default of the source": ("features", {"features": [{"name": "image", "encoding": "Raw"}]}),
    "features": ("features", {"features": None}),
    "labels": ("labels", {"labels": [{"name": "other"}]}),
    "transforms": ("transforms", {"transforms": [{"scale": {"columns": ["image"]}}]}),
    "limit": ("limit", {"limit": 5}),
    "deduplicate": ("deduplicate", {"deduplicate": {"columns": ["image"]}}),
    "splits": ("splits", {"splits": None}),
    "the order of the splits": (
        "splits",
        {"splits": {"into": [{"name": "train", "subset": "train"}, {"name": "validation", "subset": "train", "first": 5}]}},
    ),
    "shuffle": ("shuffle", {"shuffle": {}}),
    "output": ("output", {"output": {"uri": "/elsewhere"}}),
    "onBadRecord": ("onBadRecord", {"onBadRecord": {"policy": "Skip"}}),
    "nulls": ("nulls", {"nulls": "Bad"}),
    "allowEmpty": ("allowEmpty", {"allowEmpty": True}),
    "code": ("code", {"code": {"configMapRef": {"name": "a"}}}),
    "stores": ("stores", {"stores": [{"uriPrefix": "hdfs://nn"}]}),
    "startDeadlineSeconds": ("startDeadlineSeconds", {"startDeadlineSeconds": 5}),
    "backoffLimit": ("backoffLimit", {"backoffLimit": 0}),
    "backoffLimitPerIndex": ("backoffLimitPerIndex", {"backoffLimitPerIndex": 0}),
    "maxFailedIndexes": ("maxFailedIndexes", {"maxFailedIndexes": 0}),
    "workers.onePod": ("workers.onePod", {"workers": {"onePod": "Never"}}),
    "workers.resources": ("workers.resources", {"workers": {"resources": {"limits": {"cpu": 1}}}}),
    "workers.accelerator": ("workers.accelerator", {"workers": {"accelerator": {"policy": "Required"}}}),
    "workers.nodeSelector": ("workers.nodeSelector", {"workers": {"nodeSelector": {"a": "b"}}}),
    "workers.tolerations": ("workers.tolerations", {"workers": {"tolerations": [{"operator": "Exists"}]}}),
    "workers.affinity": ("workers.affinity", {"workers": {"affinity": {"nodeAffinity": {"required": "b"}}}}),
    "workers.image": ("workers.image", {"workers": {"image": "other"}}),
    "workers.imagePullPolicy": ("workers.imagePullPolicy", {"workers": {"imagePullPolicy": "Never"}}),
    "workers.imagePullSecrets": ("workers.imagePullSecrets", {"workers": {"imagePullSecrets": [{"name": "a"}]}}),
    "workers.env": ("workers.env", {"workers": {"env": [{"name": "A", "value": "b"}]}}),
    "workers.volumes": ("workers.volumes", {"workers": {"volumes": [{"name": "nas", "nfs": {"server": "b", "path": "/"}}]}}),
    "workers.volumeMounts": ("workers.volumeMounts", {"workers": {"volumeMounts": [{"name": "nas", "mountPath": "/a"}]}}),
    "workers.serviceAccountName": ("workers.serviceAccountName", {"workers": {"serviceAccountName": "a"}}),
    "workers.priorityClassName": ("workers.priorityClassName", {"workers": {"priorityClassName": "a"}}),
    "workers.podTemplate": ("workers.podTemplate", {"workers": {"podTemplate": {"labels": {"a": "b"}}}}),
    "planning": ("planning", {"planning": {"resources": {"limits": {"memory": "1Gi"}}}}),
    "engine": ("engine", {"engine": {"spark": {"executor": {"instances": 1, "cores": 1, "memory": "1g"}}}}),
    "runAfter": ("runAfter", {"runAfter": ["another"]}),
    "profile": ("profile", {"profile": "another"}),
}


def test_the_controller_of_a_job_never_changes(cluster: Cluster, a_job: Builder) -> None:
    job = a_job({"managedBy": "kueue.x-k8s.io/multikueue"})
    job["metadata"]["name"] = "managed"
    cluster.kubectl("apply", "--server-side", f"--namespace={NAMESPACE}", "--filename=-", stdin=json.dumps(job))

    for change in ("dataprep.io/operator", None):
        assert "spec.managedBy: Forbidden: can't change; make a new DataPrepJob" in answer_to_change(
            cluster, "managed", {"managedBy": change}
        )
    cluster.kubectl("delete", "dpj/managed", f"--namespace={NAMESPACE}")


@pytest.mark.parametrize(("paths", "change"), FROZEN.values(), ids=FROZEN.keys())
def test_after_the_start_it_may_not_change(cluster: Cluster, started: str, paths: str, change: dict[str, Any]) -> None:
    said = answer_to_change(cluster, started, change)

    assert f"spec: Forbidden: {paths} {crd.FROZEN}" in said


def test_one_message_names_all_fields_that_may_not_change(cluster: Cluster, started: str) -> None:
    said = answer_to_change(cluster, started, {"limit": 5, "suspend": True, "workers": {"image": "other"}})

    assert f"spec: Forbidden: limit workers.image {crd.FROZEN}" in said


def test_every_frozen_field_is_in_the_table() -> None:
    [frozen] = [rule["messageExpression"] for rule in crd.job_schema()["x-kubernetes-validations"] if "messageExpression" in rule]

    assert set(re.findall(r": '([^ ]+) '", frozen)) == {path for paths, _ in FROZEN.values() for path in paths.split()}


@pytest.mark.parametrize(
    "change",
    [
        pytest.param({"workers": {"parallelism": 4}}, id="workers.parallelism"),
        pytest.param({"suspend": False}, id="suspend"),
        pytest.param({"ttlSecondsAfterFinished": 60}, id="ttlSecondsAfterFinished"),
        pytest.param({"cleanup": [{"when": "Failed", "action": "DeletePods"}]}, id="cleanup"),
        pytest.param({"activeDeadlineSeconds": 60}, id="activeDeadlineSeconds"),
        pytest.param({"stepDeadlines": {"convertSeconds": 60}}, id="stepDeadlines"),
        pytest.param({"blockedDeadlineSeconds": 60}, id="blockedDeadlineSeconds"),
        pytest.param({"maxEvictions": 60}, id="maxEvictions"),
        pytest.param({"retry": {"memoryGrowth": 2, "maxMemory": "4Gi"}}, id="retry"),
    ],
)
def test_after_the_start_it_may_change(cluster: Cluster, started: str, change: dict[str, Any]) -> None:
    assert "patched" in answer_to_change(cluster, started, change)


# --- sub-resources, columns, selectors ----------------------------------------------------------------------------------


def test_the_scale_sub_resource_reads_and_writes_parallelism(cluster: Cluster, started: str) -> None:
    path = f"/apis/dataprep.io/v1alpha1/namespaces/{NAMESPACE}/dataprepjobs/{started}/scale"
    scale = json.loads(cluster.kubectl("get", f"--raw={path}"))

    assert scale["spec"]["replicas"] == 1, "the default of a job that doesn't set it"
    assert scale["status"] == {"replicas": 1, "selector": "dataprep.io/job-uid=a"}
    assert "scaled" in cluster.kubectl("scale", f"dpj/{started}", f"--namespace={NAMESPACE}", "--replicas=3", "--dry-run=server")


def test_the_columns_read_well(cluster: Cluster, started: str) -> None:
    header, line = cluster.kubectl("get", "dpj", started, f"--namespace={NAMESPACE}").splitlines()
    wide = cluster.kubectl("get", "dpj", started, f"--namespace={NAMESPACE}", "--output=wide")

    assert header.split() == ["NAME", "PHASE", "REASON", "PROGRESS", "SHARDS", "RECORDS", "RATE", "ETA", "AGE"]
    assert line.split()[:8] == [started, "Failed", "InputNotFound", "37", "3/8", "25900", "12345", "1m20s"]
    assert "hdfs://nn:9000/mnist-tfrecord" in wide


@pytest.mark.parametrize("category", ["all", "dataprep"])
def test_jobs_are_listed_by_category(cluster: Cluster, started: str, category: str) -> None:
    assert f"dataprepjob.dataprep.io/{started}" in cluster.kubectl("get", category, f"--namespace={NAMESPACE}", "--output=name")


def test_a_job_that_failed_before_its_start_may_be_edited(cluster: Cluster, a_job: Builder) -> None:
    cluster.kubectl("apply", "--server-side", f"--namespace={NAMESPACE}", "--filename=-", stdin=json.dumps(a_job({"suspend": True})))
    patch = '--patch={"status":{"phase":"Failed"}}'
    cluster.kubectl("patch", "dpj/mnist", f"--namespace={NAMESPACE}", "--subresource=status", "--type=merge", patch)

    for _, change in FROZEN.values():
        assert "patched" in answer_to_change(cluster, "mnist", change), change
    cluster.kubectl("delete", "dpj/mnist", f"--namespace={NAMESPACE}")


def test_jobs_are_selected_by_phase(cluster: Cluster, started: str) -> None:
    def names(phase: str) -> list[str]:
        return cluster.kubectl("get", "dpj", f"--namespace={NAMESPACE}", f"--field-selector=status.phase={phase}", "--output=name").split()

    assert names("Failed") == [f"dataprepjob.dataprep.io/{started}"]
    assert names("Running") == []


@pytest.mark.parametrize("step", get_args(status.StepName))
def test_each_step_is_accepted_in_a_status(cluster: Cluster, started: str, step: status.StepName) -> None:
    failure = status.Failure(reason="StoreUnreachable", message="m", step=step, index=1)
    written = DataPrepJobStatus(step=step, failures=[failure]).model_dump(mode="json", by_alias=True, exclude_none=True)
    patch = f"--patch={json.dumps({'status': written})}"

    kept = cluster.kubectl(
        "patch",
        f"dpj/{started}",
        f"--namespace={NAMESPACE}",
        "--subresource=status",
        "--type=merge",
        "--dry-run=server",
        "--output=json",
        patch,
    )

    status_kept = json.loads(kept)["status"]
    assert (status_kept["step"], status_kept["failures"]) == (step, written["failures"])


@pytest.mark.parametrize("fill", ["x", "漢"], ids=["ascii", "three bytes"])
def test_the_largest_status_is_accepted_and_stays_below_64_kib(
    cluster: Cluster, started: str, a_full_status: Callable[[str], DataPrepJobStatus], fill: str
) -> None:
    written = status.bounded(a_full_status(fill)).model_dump(mode="json", by_alias=True, exclude_none=True)
    job = json.loads(cluster.kubectl("get", "dpj", started, f"--namespace={NAMESPACE}", "--output=json"))
    whole = json.dumps(job | {"status": written})

    kept = cluster.kubectl("replace", "--subresource=status", "--dry-run=server", "--output=json", "--filename=-", stdin=whole)

    assert json.loads(kept)["status"] == written
    assert len(json.dumps(json.loads(kept), separators=(",", ":"), ensure_ascii=False).encode()) < 65_536


def test_explain_tells_types_choices_and_meaning(cluster: Cluster) -> None:
    said = cluster.kubectl("explain", "dataprepjob.spec.output")

    assert "uri\t<string> -required-" in said
    assert "enum: Never, IfChanged, Always, Extend" in said
    assert "Folder of the data set" in said


def test_two_versions_in_one_definition_are_applied_and_explained(cluster: Cluster) -> None:
    """Client-side apply stores the complete object in an annotation, which is limited to 256 KiB."""
    definition = with_second_version(crd.crd())
    group, plural = f"{NAMESPACE}.dataprep.io", "twoversions"
    definition["metadata"] = {"name": f"{plural}.{group}"}
    definition["spec"] |= {"group": group, "names": {"kind": "TwoVersions", "plural": plural, "singular": "twoversion"}}
    definition["metadata"]["annotations"] = {"api-approved.kubernetes.io": "unapproved, for a test"}
    cluster.kubectl("apply", "--filename=-", stdin=json.dumps(definition))
    try:
        for version in ("v1alpha1", "v1beta1"):
            answer = once_served(cluster, "explain", f"{plural}.spec.output.format", f"--api-version={group}/{version}")
            assert "Format of the shards." in answer
    finally:
        cluster.kubectl("delete", f"crd/{plural}.{group}", "--wait=false")


def test_a_stored_version_can_be_migrated(cluster: Cluster, a_job: Builder) -> None:
    """The three releases in docs/api-versions.md: a second version is served, then stored, and then the first version is no longer
    served."""
    group, plural = f"migrated.{NAMESPACE}.dataprep.io", "migratedjobs"
    name = f"{plural}.{group}"
    definition = with_second_version(crd.crd()) | {"metadata": {"name": name}}
    definition["spec"] |= {"group": group, "names": {"kind": "MigratedJob", "plural": plural, "singular": "migratedjob"}}
    alpha, beta = definition["spec"]["versions"]
    job = a_job({"suspend": True}) | {"apiVersion": f"{group}/v1alpha1", "kind": "MigratedJob"}
    object_path = f"/apis/{group}/{{}}/namespaces/{NAMESPACE}/{plural}/mnist"

    def release() -> None:
        cluster.kubectl("apply", "--server-side", "--filename=-", stdin=json.dumps(definition))

    def read(version: str) -> dict[str, Any]:
        document: dict[str, Any] = json.loads(once_served(cluster, "get", f"--raw={object_path.format(version)}"))
        return document

    try:
        release()
        once_served(cluster, "create", f"--namespace={NAMESPACE}", "--filename=-", stdin=json.dumps(job))
        assert read("v1beta1") == read("v1alpha1") | {"apiVersion": f"{group}/v1beta1"}

        alpha["storage"], beta["storage"] = False, True
        release()
        everything = cluster.kubectl("get", f"{plural}.{group}", "--all-namespaces", "--output=json")
        cluster.kubectl("replace", "--filename=-", stdin=everything)
        patch = json.dumps({"status": {"storedVersions": ["v1beta1"]}})
        cluster.kubectl("patch", f"crd/{name}", "--subresource=status", "--type=merge", f"--patch={patch}")

        alpha["served"] = False
        release()
        assert read("v1beta1")["spec"]["source"] == job["spec"]["source"]
        del definition["spec"]["versions"][0]
        release()
        assert cluster.kubectl("get", f"crd/{name}", "--output=jsonpath={.status.storedVersions}") == '["v1beta1"]'
    finally:
        cluster.kubectl("delete", f"crd/{name}", "--wait=false")


def once_served(cluster: Cluster, *words: str, seconds: float = 30, stdin: str | None = None) -> str:
    """Return what kubectl prints, after waiting until the API server serves a definition that has just been applied."""
    deadline = time.monotonic() + seconds
    while True:
        try:
            return cluster.kubectl(*words, stdin=stdin)
        except StartFailed:
            if time.monotonic() > deadline:
                raise
            time.sleep(0.5)
