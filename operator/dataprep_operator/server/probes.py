"""Liveness and readiness of this replica."""

from dataclasses import dataclass

from dataprep_operator.informer.streams import Streams


@dataclass
class Health:
    """The state that the probes report. A standby also watches the cluster, and is ready when its cache has synced."""

    age_limit_seconds: float
    leading: bool = False
    streams: Streams | None = None

    def fault(self) -> str | None:
        """Return why this replica should be restarted, or None if it is healthy."""
        if self.streams is None:
            return None
        age = self.streams.age_seconds
        return f"a watch has received nothing for {age:.0f} s" if age > self.age_limit_seconds else None

    def not_ready(self) -> str | None:
        """Return why this replica is not ready, or None if it is."""
        if self.streams is None:
            return "the watches have not started yet"
        if not self.streams.synced:
            return f"not listed yet: {', '.join(self.streams.unsynced) or 'objects that are listed but not yet in the cache'}"
        return None
