"""A test world that contains one DataPrepCronJob."""

import asyncio
from datetime import UTC, datetime
from typing import Any

from tests.operator.world import NAMESPACE, START, World

from dataprep_api import API_VERSION, CRON_KIND
from dataprep_operator.cluster.cluster import Body
from dataprep_operator.errors import OperatorError
from dataprep_operator.objects import times
from dataprep_operator.objects.observed import Key

KEY = Key(NAMESPACE, "nightly", CRON_KIND)
TEMPLATE: Body = {"spec": {"source": {"csv": {"uris": ["s3://in/rows.csv"]}}, "output": {"uri": "s3://out/${SCHEDULED_TIME}"}}}


class Cron:
    """A test world that contains one DataPrepCronJob. Its clock starts at noon."""

    def __init__(self, **spec: Any) -> None:  # Any: a spec parsed from YAML
        self.world = World()
        self.wait: float | None = None
        body = {"apiVersion": API_VERSION, "kind": CRON_KIND, "metadata": {"name": "nightly"}}
        given: Body = {"schedule": "*/10 * * * *", "jobTemplate": TEMPLATE}
        self.world.cluster.add("dataprepcronjobs", NAMESPACE, {**body, "spec": given | spec})
        self.look()

    def look(self) -> None:
        self.wait = asyncio.run(self.world.crons.reconcile(KEY))

    def settle(self) -> None:
        for _ in range(6):
            before = self.world.cluster._version
            try:
                self.look()
            except OperatorError:
                continue
            if self.world.cluster._version == before:
                return

    def at(self, text: str) -> list[str]:
        """Moves the clock to a time of the first day, or to a full timestamp. Returns the names of the jobs that then exist."""
        moment = datetime.fromisoformat(text if "T" in text else f"2026-01-31T{text}:00+00:00").astimezone(UTC)
        self.world.cluster.now = moment
        self.settle()
        return self.jobs()

    def edit(self, **spec: Any) -> None:  # Any: a spec parsed from YAML
        self.world.cluster.change("dataprepcronjobs", "nightly", {"spec": spec})
        self.settle()

    def end(self, due: str, phase: str = "Succeeded") -> None:
        status = {"phase": phase, "completionTime": times.text(self.world.cluster.now)}
        self.world.cluster.change("dataprepjobs", named(due), {"status": status})
        self.settle()

    def jobs(self) -> list[str]:
        """Return the scheduled times of the existing jobs, as `12:10`."""
        found = [body for (plural, _, _), body in self.world.cluster.objects.items() if plural == "dataprepjobs"]
        return sorted(body["metadata"]["annotations"]["dataprep.io/scheduled-at"][11:16] for body in found)

    def job(self, due: str) -> Body:
        return self.world.cluster.objects[("dataprepjobs", NAMESPACE, named(due))]

    @property
    def status(self) -> Body:
        return self.world.cluster.objects[("dataprepcronjobs", NAMESPACE, "nightly")].get("status") or {}

    def said(self, kind: str = "Scheduled") -> tuple[str, str, str]:
        found = next(c for c in self.status["conditions"] if c["type"] == kind)
        return found["status"], found["reason"], found["message"]


def named(due: str) -> str:
    hours, minutes = due.split(":")
    moment = START.replace(hour=int(hours), minute=int(minutes))
    return f"nightly-{int(moment.timestamp()) // 60}"
