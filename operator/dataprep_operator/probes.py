"""Whether this replica is alive and ready. Pure, but for the watches' clock."""

from dataclasses import dataclass

from dataprep_operator.streams import Streams


@dataclass
class Health:
    """What the probes look at. A standby has no streams: it is alive and ready to take over."""

    age_limit_seconds: float
    leading: bool = False
    streams: Streams | None = None

    def fault(self) -> str | None:
        """Why this replica should be restarted, or None."""
        if self.streams is None or not self.leading:
            return None
        age = self.streams.age_seconds
        return f"a watch has heard nothing for {age:.0f} s" if age > self.age_limit_seconds else None

    def not_ready(self) -> str | None:
        """Why this replica is not ready, or None."""
        if not self.leading:
            return None
        if self.streams is None or not self.streams.complete:
            waiting = ", ".join(self.streams.unlisted) if self.streams is not None else "the watches"
            return f"not listed yet: {waiting or 'objects on their way to the cache'}"
        return None
