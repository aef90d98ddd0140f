"""Tokens of pods, the keys with which the tokens are verified, and a cache that contains the pods."""

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import Any

import jwt
from cryptography.hazmat.primitives.asymmetric import rsa

from dataprep_api import names
from dataprep_api.dataset.messages import TOKEN_AUDIENCE
from dataprep_operator.errors import Unavailable
from dataprep_operator.informer.cache import Cache, Kind
from dataprep_operator.server.tokens import DISCOVERY_PATH, KEYS_PATH

ISSUER = "https://kubernetes.default.svc"
OURS = rsa.generate_private_key(public_exponent=65537, key_size=2048)


def jwks(kid: str = "k1", key: rsa.RSAPrivateKey = OURS) -> dict[str, Any]:  # Any: JSON
    public = json.loads(jwt.algorithms.RSAAlgorithm.to_jwk(key.public_key()))
    return {"keys": [public | {"kid": kid, "alg": "RS256", "use": "sig"}]}


def a_token(
    *,
    key: Any = OURS,
    kid: str = "k1",
    algorithm: str = "RS256",
    pod: Mapping[str, str] | None = None,
    namespace: str = "team-a",
    **claims: Any,
) -> str:  # Any: claims are JSON, and PyJWT accepts keys of many types
    bound = {
        "namespace": namespace,
        "pod": dict(pod or {"name": "worker-0", "uid": "pod-uid"}),
        "serviceaccount": {"name": "default", "uid": "x"},
    }
    given = {"iss": ISSUER, "aud": [TOKEN_AUDIENCE], "exp": datetime.now(UTC) + timedelta(hours=1), "kubernetes.io": bound}
    return jwt.encode(given | claims, key, algorithm=algorithm, headers={"kid": kid})


@dataclass
class Keys:
    """A fake of the API server's key documents, which counts how often they are fetched."""

    document: dict[str, Any] = field(default_factory=jwks)
    fetched: int = 0
    down: bool = False

    async def fetch(self, path: str) -> dict[str, Any]:
        if self.down:
            raise Unavailable("no route")
        if path == KEYS_PATH:
            self.fetched += 1
        return {KEYS_PATH: self.document, DISCOVERY_PATH: {"issuer": ISSUER, "jwks_uri": "https://elsewhere/keys"}}[path]


LABELS = {names.LABEL_JOB_UID: "job-uid", names.LABEL_STEP: "convert", names.LABEL_ATTEMPT: "1"}
OF_PLAN = LABELS | {names.LABEL_STEP: "plan"}
OF_SCAN = LABELS | {names.LABEL_STEP: "scan"}
OF_SHUFFLE = LABELS | {names.LABEL_STEP: "shuffle"}


def a_cache() -> Cache:
    cache = Cache()
    job = {"name": "mnist", "namespace": "team-a", "uid": "job-uid", "creationTimestamp": "2026-01-01T00:00:00Z", "resourceVersion": "1"}
    status = {"phase": "Running", "tasks": 4, "shuffleTasks": 3, "startTime": "2026-01-01T00:00:00Z"}
    cache.put(Kind.DATAPREPJOBS, {"metadata": job, "spec": {}, "status": status})
    other = job | {"name": "other", "uid": "other-uid"}
    cache.put(Kind.DATAPREPJOBS, {"metadata": other, "spec": {}, "status": {"tasks": 4}})
    owner = [{"kind": "DataPrepJob", "name": "mnist", "uid": "job-uid", "controller": True}]
    child = {"name": "mnist-convert-1", "namespace": "team-a", "uid": "child-uid", "labels": LABELS, "ownerReferences": owner}
    cache.put(Kind.JOBS, {"metadata": child, "spec": {}})
    for name, uid, owned in (("worker-0", "pod-uid", "child-uid"), ("stranger", "stranger-uid", "elsewhere")):
        jobs_of_cron = [{"kind": "Job", "name": "mnist-convert-1", "uid": owned, "controller": True}]
        pod = {"name": name, "namespace": "team-a", "uid": uid, "labels": LABELS, "ownerReferences": jobs_of_cron}
        cache.put(Kind.PODS, {"metadata": pod, "status": {"phase": "Running"}})
    plan = {"name": "mnist-plan", "namespace": "team-a", "uid": "plan-uid", "labels": OF_PLAN, "ownerReferences": owner}
    cache.put(Kind.JOBS, {"metadata": plan, "spec": {}})
    of_plan = [{"kind": "Job", "name": "mnist-plan", "uid": "plan-uid", "controller": True}]
    planner = {"name": "planner", "namespace": "team-a", "uid": "planner-uid", "labels": OF_PLAN, "ownerReferences": of_plan}
    cache.put(Kind.PODS, {"metadata": planner, "status": {"phase": "Running"}})
    for step, labels, name in (("scan", OF_SCAN, "scanner"), ("shuffle", OF_SHUFFLE, "divider")):
        child = {"name": f"mnist-{step}-1", "namespace": "team-a", "uid": f"{step}-uid", "labels": labels, "ownerReferences": owner}
        cache.put(Kind.JOBS, {"metadata": child, "spec": {}})
        of_step = [{"kind": "Job", "name": f"mnist-{step}-1", "uid": f"{step}-uid", "controller": True}]
        pod = {"name": name, "namespace": "team-a", "uid": f"{name}-uid", "labels": labels, "ownerReferences": of_step}
        cache.put(Kind.PODS, {"metadata": pod, "status": {"phase": "Running"}})
    return cache
