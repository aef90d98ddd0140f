"""Authorizes readers of the metrics with TokenReview and SubjectAccessReview, as kube-rbac-proxy and controller-runtime do.

This module has to query the API server, because only the API server knows which accounts may read metrics. For the workers' tokens, a check
of the signature is enough: see `tokens.py`.
"""

import hashlib
import time
from collections import OrderedDict
from collections.abc import Callable
from typing import Final

from dataprep_operator.cluster.cluster import ACCESS_REVIEWS, TOKEN_REVIEWS, Cluster
from dataprep_operator.cluster.ratelimit import TokenBucket
from dataprep_operator.errors import ClusterError, ReportRefused
from dataprep_operator.objects import untrusted

PATH: Final = "/metrics"
KEPT_SECONDS: Final = 60.0
"""How long a review's result is cached. A change of permissions can take this long to take effect."""
REVIEWS_A_SECOND: Final = 2.0
REVIEWS_AT_ONCE: Final = 20
_MAX_ANSWERS: Final = 256


class Reviewer:
    """Caches the results of reviews, and limits the rate of reviews so that made-up tokens can't overload the API server."""

    def __init__(self, cluster: Cluster, *, clock: Callable[[], float] = time.monotonic) -> None:
        self._cluster = cluster
        self._clock = clock
        self._limiter = TokenBucket(rate=REVIEWS_A_SECOND, burst=REVIEWS_AT_ONCE, clock=clock)
        self._answers: OrderedDict[bytes, tuple[float, ReportRefused | None]] = OrderedDict()
        """Maps the token's digest to the time of its review and to the refusal, if any."""

    async def check(self, token: str) -> None:
        """Raise ReportRefused if the token isn't allowed to read the metrics.

        The status is 401, 403 or 429, or 503 when the API server can't be queried.
        """
        digest = hashlib.sha256(token.encode()).digest()
        reviewed_at, refusal = self._answers.get(digest, (None, None))
        if reviewed_at is None or self._clock() - reviewed_at >= KEPT_SECONDS:
            if not self._limiter.allow():
                raise ReportRefused(429, "too many requests with unknown tokens")
            refusal = await self._refusal(token)
            self._answers.pop(digest, None)
            self._answers[digest] = self._clock(), refusal
            if len(self._answers) > _MAX_ANSWERS:
                self._answers.popitem(last=False)
        if refusal is not None:
            raise ReportRefused(refusal.status, str(refusal))

    async def _refusal(self, token: str) -> ReportRefused | None:
        try:
            token_review = await self._cluster.create(TOKEN_REVIEWS, "", _body("TokenReview", "authentication", {"token": token}))
            status = untrusted.mapping(token_review.get("status"))
            if status.get("authenticated") is not True:
                return ReportRefused(401, "the token is not valid in this cluster")
            user = untrusted.mapping(status.get("user"))
            attributes = {
                "user": untrusted.text(user.get("username")),
                "uid": untrusted.text(user.get("uid")),
                "groups": user.get("groups") or [],
                "extra": user.get("extra") or {},
                "nonResourceAttributes": {"path": PATH, "verb": "get"},
            }
            review = await self._cluster.create(ACCESS_REVIEWS, "", _body("SubjectAccessReview", "authorization", attributes))
        except ClusterError as exc:
            raise ReportRefused(503, f"the API server can't review the token: {exc}") from exc
        if untrusted.mapping(review.get("status")).get("allowed") is not True:
            return ReportRefused(403, f"{attributes['user']} may not get the nonResourceURL {PATH}")
        return None


# object, because the values are JSON of the API.
def _body(kind: str, group: str, spec: dict[str, object]) -> dict[str, object]:
    return {"apiVersion": f"{group}.k8s.io/v1", "kind": kind, "spec": spec}
