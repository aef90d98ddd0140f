"""Jobs with simulated pods. The pods are created, scheduled and owned as usual, but immediately return the final message of a converter."""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

import yaml

from dataprep_api.dataset.messages import CommitResult, PlanResult, WorkResult, dump
from dataprep_api.names import LABEL_STEP
from dataprep_api.resources.status import RecordProgress
from kubecluster.cluster import FAKE_NODE_LABEL, FAKE_STAGES

LABEL: Final = "dataprep.io/played"
"""The pod label that names the behaviour that kwok simulates for the pod."""

RUN: Final = "20260101-000000-played"
RECORDS: Final = 1000
BIG: Final = "big"
"""A job with 1,000 indexes and 100,000 shards, whose workers never end."""
HELD: Final = "held"
"""A job with one worker that never ends."""
SHORT: Final = "short"
"""A job with one worker that finishes immediately."""
FOUND: Final = "found"
"""A job whose plan step finds a finished data set. The job completes with a single child Job, which is enough for measurements with many
jobs."""

_INDEX: Final = '{{ index $.metadata.annotations "batch.kubernetes.io/job-completion-index" }}'
_SIZES: Final[Mapping[str, tuple[int, int]]] = {SHORT: (1, 1), FOUND: (1, 1), HELD: (1, 1), BIG: (1000, 100_000)}


def job(name: str, part: str, *, parallelism: int = 1) -> dict[str, Any]:
    """Returns a DataPrepJob for kwok's nodes. Its pods play the given part."""
    tolerations = [{"key": FAKE_NODE_LABEL, "operator": "Exists", "effect": "NoSchedule"}]
    return {
        "apiVersion": "dataprep.io/v1alpha1",
        "kind": "DataPrepJob",
        "metadata": {"name": name},
        "spec": {
            "source": {"images": {"uris": ["/data/photos"]}},
            "features": [{"name": "image/encoded"}],
            "output": {"uri": f"/data/{name}"},
            "workers": {
                "parallelism": parallelism,
                "nodeSelector": {"type": "kwok"},
                "tolerations": tolerations,
                "resources": {"requests": {"cpu": "10m", "memory": "16Mi"}},
                "podTemplate": {"labels": {LABEL: part}},
            },
        },
    }


def stages(path: Path) -> Path:
    """Writes kwok's stages for all parts to `path`, and returns `path`."""
    usual = [stage for stage in yaml.safe_load_all(FAKE_STAGES.read_text()) if stage["metadata"]["name"] != "pod-complete"]
    ends = [
        _end(part, step)
        for part in _SIZES
        for step in ("plan", "convert", "commit")
        if (part, step) not in ((BIG, "convert"), (HELD, "convert"))
    ]
    path.write_text(yaml.safe_dump_all([*usual, *ends]))
    return path


def _end(part: str, step: str) -> dict[str, Any]:
    selector = [
        {"key": ".metadata.deletionTimestamp", "operator": "DoesNotExist"},
        {"key": ".status.phase", "operator": "In", "values": ["Running"]},
        {"key": f'.metadata.labels["{LABEL_STEP}"]', "operator": "In", "values": [step]},
        {"key": f'.metadata.labels["{LABEL}"]', "operator": "In", "values": [part]},
    ]
    return {
        "apiVersion": "kwok.x-k8s.io/v1alpha1",
        "kind": "Stage",
        "metadata": {"name": f"{part}-{step}"},
        "spec": {
            "resourceRef": {"apiGroup": "v1", "kind": "Pod"},
            "selector": {"matchExpressions": selector},
            "next": {"statusTemplate": _status(_says(part, step))},
        },
    }


def _status(message: str) -> str:
    # The message is JSON within a YAML string. kwok inserts the worker's index.
    text = json.dumps(message).replace(r"index\":0", r"index\":" + _INDEX)
    return f"""\
{{{{ $now := Now }}}}
containerStatuses:
{{{{ range .spec.containers }}}}
- image: {{{{ .image | Quote }}}}
  name: {{{{ .name | Quote }}}}
  ready: false
  restartCount: 0
  started: false
  state:
    terminated:
      exitCode: 0
      finishedAt: {{{{ $now | Quote }}}}
      reason: Completed
      startedAt: {{{{ $now | Quote }}}}
      message: {text}
{{{{ end }}}}
phase: Succeeded
"""


def _says(part: str, step: str) -> str:
    tasks, shards = _SIZES[part]
    records = RecordProgress(in_=RECORDS, out=RECORDS)
    if step == "plan":
        return dump(
            PlanResult(
                run_id=RUN,
                plan_sha256="0" * 64,
                plan_uri="/data/_dataprep/plan.json",
                tasks=tasks,
                shards=shards,
                records=RECORDS * shards,
                bytes_in=RECORDS * shards,
                reused=part == FOUND,
                commit=_committed(shards) if part == FOUND else None,
            )
        )
    if step == "convert":
        return dump(WorkResult(index=0, shards_done=1, shards_skipped=0, records=records, bytes_out=RECORDS))
    return dump(_committed(shards))


def _committed(shards: int) -> CommitResult:
    records = RecordProgress(in_=RECORDS, out=RECORDS)
    return CommitResult(
        run_id=RUN,
        manifest_uri="/data/_dataprep/manifest.json",
        manifest_sha256="0" * 64,
        files=shards,
        records=records,
        bytes_in=RECORDS,
        bytes_out=RECORDS,
    )
