"""Prometheus metrics. The metrics' names are part of the public API.

No metric has the job as a label, so the number of time series stays bounded.
"""

import itertools
from collections.abc import Iterator, Sequence
from typing import Final

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, ProcessCollector
from prometheus_client.core import HistogramMetricFamily

from dataprep_api.stages import SHARD_BOUNDS

REGISTRY: Final = CollectorRegistry()
ProcessCollector(registry=REGISTRY)  # the operator's own memory and CPU time

_SECONDS: Final = (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30)
_MINUTES: Final = (5, 15, 30, 60, 120, 300, 600, 1800, 3600, 7200, 21600, 86400)

JOBS: Final = Gauge("dataprep_jobs", "DataPrepJobs by phase.", ["phase"], registry=REGISTRY)
JOB_DURATION: Final = Histogram(
    "dataprep_job_duration_seconds", "Time from start to end of a job.", ["phase"], buckets=_MINUTES, registry=REGISTRY
)
FIRST_RECORD: Final = Histogram(
    "dataprep_job_first_record_seconds",
    "Time from the start of a job to the first record that a worker reports.",
    buckets=_MINUTES,
    registry=REGISTRY,
)
RECORDS: Final = Counter("dataprep_records_total", "Records of finished jobs by fate.", ["fate"], registry=REGISTRY)
BYTES: Final = Counter("dataprep_bytes_total", "Bytes written by finished jobs.", registry=REGISTRY)
BAD_RECORDS: Final = Counter("dataprep_bad_records_total", "Bad records of finished jobs by reason.", ["reason"], registry=REGISTRY)
RATE: Final = Gauge("dataprep_records_per_second", "Records per second of all running jobs.", registry=REGISTRY)
STAGES: Final = Counter("dataprep_stage_seconds_total", "Worker time of finished jobs by stage.", ["stage"], registry=REGISTRY)
FAILURES: Final = Counter("dataprep_job_failures_total", "Failed jobs by reason.", ["reason"], registry=REGISTRY)
RECONCILE_DURATION: Final = Histogram(
    "dataprep_reconcile_duration_seconds", "Duration of one reconciliation.", buckets=_SECONDS, registry=REGISTRY
)
RECONCILE_ERRORS: Final = Counter("dataprep_reconcile_errors_total", "Reconciliations that failed and are retried.", registry=REGISTRY)
QUEUE_DEPTH: Final = Gauge("dataprep_workqueue_depth", "Jobs that wait to be reconciled.", registry=REGISTRY)
QUEUE_WAIT: Final = Histogram(
    "dataprep_workqueue_wait_seconds", "Time that due jobs waited to be reconciled.", buckets=_SECONDS, registry=REGISTRY
)
API_REQUESTS: Final = Counter("dataprep_api_requests_total", "Requests to the API server.", ["method", "code"], registry=REGISTRY)
WATCH_AGE: Final = Gauge(
    "dataprep_watch_last_event_age_seconds", "Longest time for which any watch has received no data.", registry=REGISTRY
)
REPORTS: Final = Counter("dataprep_progress_reports_total", "Progress reports of workers by HTTP status.", ["code"], registry=REGISTRY)
CONNECTIONS_REFUSED: Final = Counter(
    "dataprep_connections_refused_total",
    "Connections refused for exceeding a limit.",
    registry=REGISTRY,
)
LEADER: Final = Gauge("dataprep_leader", "1 if this replica is the leader, otherwise 0.", registry=REGISTRY)


class ShardDurations:
    """A histogram of shard durations, filled from the bucket counts that the jobs' commit steps report."""

    def __init__(self) -> None:
        self._counts = [0] * (len(SHARD_BOUNDS) + 1)
        self._seconds = 0.0

    def add(self, counts: Sequence[int], seconds: float) -> None:
        """Add the shards of one job. Counts with a different number of buckets are ignored."""
        if len(counts) == len(self._counts):
            self._counts = [ours + theirs for ours, theirs in zip(self._counts, counts, strict=True)]
            self._seconds += seconds

    def collect(self) -> Iterator[HistogramMetricFamily]:
        """Yield the histogram, as prometheus_client's Collector protocol requires."""
        bounds = [*(str(float(bound)) for bound in SHARD_BOUNDS), "+Inf"]
        buckets = list(zip(bounds, itertools.accumulate(self._counts), strict=True))
        yield HistogramMetricFamily(
            "dataprep_shard_duration_seconds",
            "Duration of a shard, from its first byte to its last.",
            buckets=buckets,
            sum_value=self._seconds,
        )


SHARDS: Final = ShardDurations()
REGISTRY.register(SHARDS)
