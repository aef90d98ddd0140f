"""Sends progress reports from a worker pod to the operator, without ever delaying the work.

The replies contain the pod's share of the requests that the job is allowed to send to its stores.

A report that can't be delivered is dropped. Nothing is lost: the next report contains absolute counts, and the store shows which shards are
finished.
"""

import logging
import os
import threading
from collections.abc import Mapping
from pathlib import Path
from types import MappingProxyType
from typing import Self
from urllib.parse import urlsplit

from dataprep_api.dataset.messages import MOST_STORES, PROGRESS_PATH, PlanResult, ProgressReply, ProgressReport, RequestCounts
from dataprep_converter.pipeline.task_progress import TaskProgress
from dataprep_converter.runtime.request_budget import RequestBudget

logger = logging.getLogger(__name__)

_FIRST_SECONDS = 1.0
_MOST_SECONDS_AFTER_FAILURE = 10.0
_TIMEOUT_SECONDS = 3.0
_LARGEST_REPLY = 4096


class Reporter:
    """Posts the latest counts in the background. Without `DATAPREP_STATUS_URL` there are no reports.

    `budgets` contains the request budgets of `Access`; other budgets can be added at any time. `plan` is set if the operator doesn't know
    the plan yet.
    """

    def __init__(
        self,
        *,
        index: int,
        budgets: Mapping[str, RequestBudget] = MappingProxyType({}),
        plan: PlanResult | None = None,
        environment: Mapping[str, str] = os.environ,
    ) -> None:
        self._url = environment.get("DATAPREP_STATUS_URL", "")
        self._token_file = environment.get("DATAPREP_STATUS_TOKEN_FILE", "")
        self._job = environment.get("DATAPREP_JOB_NAME", "")
        self._attempt = int(environment.get("DATAPREP_ATTEMPT", "0") or 0)
        self._index = index
        self._plan = plan
        self._budgets = budgets
        self._latest = TaskProgress()
        self._sequence = 0
        self._failures = 0
        """Number of failures since the last delivered report."""
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._loop, name="reports", daemon=True)

    def watch(self, progress: TaskProgress) -> None:
        """Stores the latest counts. A call of this method is cheap."""
        self._latest = progress.now()

    def __enter__(self) -> Self:
        if self._url:
            self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._ended.set()
        if self._thread.is_alive():
            self._thread.join(timeout=2 * _TIMEOUT_SECONDS)

    def _loop(self) -> None:
        wait = _FIRST_SECONDS
        while not self._ended.wait(wait):
            wait = self._send()
        self._send(is_last=True)

    def _send(self, *, is_last: bool = False) -> float:
        """Posts one report and returns the delay before the next report, in seconds.

        The last report has no request counts, so that the other pods get this pod's share.
        """
        self._sequence += 1
        latest, plan = self._latest, self._plan
        records = latest.records()
        report = ProgressReport(
            job=self._job,
            attempt=self._attempt,
            index=self._index,
            sequence=self._sequence,
            shards_done=latest.shards_done,
            shards_active=latest.shards_active,
            shards_total=plan.shards if plan is not None else None,
            records=records if plan is None else records.model_copy(update={"total": plan.records}),
            bytes_in=latest.bytes_in,
            bytes_out=latest.bytes_out,
            requests=None if is_last else self._requests(),
        )
        try:
            token = Path(self._token_file).read_text().strip()
            reply = post(self._url, report.model_dump_json(by_alias=True, exclude_none=True), token=token)
        except (OSError, ValueError) as exc:
            logger.debug("progress report not delivered: %s", exc)
            self._failures += 1
            return min(_MOST_SECONDS_AFTER_FAILURE, _FIRST_SECONDS * 2.0**self._failures)
        self._failures = 0
        for store, share in reply.requests_per_second.items():
            if store in self._budgets:
                self._budgets[store].adopt(share)
        return reply.next_report_seconds

    def _requests(self) -> dict[str, RequestCounts]:
        counts = {store: budget.counts for store, budget in list(self._budgets.items())[:MOST_STORES]}
        return {store: each for store, each in counts.items() if each.sent}


def post(url: str, body: str, *, token: str) -> ProgressReply:
    """Tries the addresses of the URL's host, and posts the report to the first address that accepts it. If the operator has several
    replicas, only the leader accepts reports.

    Returns the operator's reply. Raises OSError when no address accepts the report.
    """
    # Not imported at the top, so that a worker begins to read its input sooner. The worker sends its first report later.
    import http.client
    import socket

    parts = urlsplit(url)
    host, port = parts.hostname or "", parts.port or 80
    refused = "no address"
    for *_, address in socket.getaddrinfo(host, port, type=socket.SOCK_STREAM):
        connection = http.client.HTTPConnection(str(address[0]), port, timeout=_TIMEOUT_SECONDS)
        try:
            headers = {"Authorization": f"Bearer {token}", "Content-Type": "application/json", "Host": parts.netloc}
            connection.request("POST", parts.path.rstrip("/") + PROGRESS_PATH, body=body.encode(), headers=headers)
            reply = connection.getresponse()
            content = reply.read(_LARGEST_REPLY)
        except (OSError, http.client.HTTPException) as exc:
            refused = str(exc)
            continue
        finally:
            connection.close()
        if reply.status == http.HTTPStatus.OK:
            return ProgressReply.model_validate_json(content, extra="ignore")
        refused = f"{reply.status} {content[:100]!r}"
    raise OSError(refused)
