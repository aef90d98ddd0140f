"""Computes request rates: how fast to send requests to a store that refuses some of them, and how several senders share a rate.

A converter uses this module to pace its own requests, and the operator uses the module to pace the requests of all pods of a job. No
function in this module reads a clock.
"""

import math
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Final

REFUSALS: Final = frozenset({429, 503})
"""The HTTP statuses with which stores ask for fewer requests."""

CUT: Final = 0.92
"""After a refusal, the rate is set to this fraction of the rate that the store has recently accepted."""
STEP: Final = 1.01
STEP_SECONDS: Final = 1.0
STEPS: Final = 15
"""The number of small increases after the rate was cut. If the rate is near the store's limit, the store refuses requests again during
these increases."""
LATER_STEP: Final = 1.1
"""The factor of all later increases.

If the store refused no request during the small increases, the rate is far below the store's limit, or something else slows the senders
down.
"""

LOWEST_RATE: Final = 0.1
HIGHEST_RATE: Final = 1e6
CHANCE_RATE: Final = 20.0
"""A few refusals may be due to chance. In this case, assume that the store accepts at least this number of requests a second."""
_CHANCE_REFUSALS: Final = 2
_CHANCE_FRACTION: Final = 0.1
_STARVING_RATE: Final = 1.0
"""A rate in requests a second. If the store accepts less than this from a sender, there may be very many senders. So the sender halves its
rate instead of measuring what the store accepts."""

_ROOM_TO_GROW: Final = 1.25
_LEAST_PART: Final = 0.25
"""The smallest share of an idle sender, as a fraction of an equal share. With this share, the sender can start at once when it has more
requests to send."""


@dataclass(frozen=True)
class Pace:
    """A rate that rises step by step until the store refuses a request. The rate is unlimited until the first refusal."""

    rate: float = math.inf
    """Requests a second at the time `since`."""
    since: float = -math.inf
    cut_at: float = -math.inf
    """The time of the last cut."""

    def rate_at(self, now: float) -> float:
        """Return the rate at `now`, in requests a second, after the increases since the time `since`."""
        if self.rate == math.inf:
            return math.inf
        steps = min(1000, max(0, int((now - self.since) / STEP_SECONDS)))
        return min(HIGHEST_RATE, self.rate * STEP ** min(steps, STEPS) * LATER_STEP ** max(0, steps - STEPS))

    def after_refusal(self, *, accepted: float, by_chance: bool, now: float) -> "Pace":
        """Return the pace with a lower rate, after the store has refused a request. `accepted` is the number of requests a second that the
        store has recently accepted."""
        current = self.rate_at(now)
        if by_chance:
            accepted = max(accepted, CHANCE_RATE)
        elif accepted < _STARVING_RATE:
            accepted = min(current, 2 * _STARVING_RATE) / 2
        return Pace(rate=max(LOWEST_RATE, CUT * min(current, accepted)), since=now, cut_at=now)

    def adopted(self, rate: float, *, now: float) -> "Pace":
        """Return the pace with a rate that was computed elsewhere."""
        return replace(self, rate=rate, since=now)


def may_be_chance(*, sent: int, refused: int) -> bool:
    """Return whether a few seconds had so few refusals that they may be due to chance, and not to the number of requests."""
    return refused <= _CHANCE_REFUSALS or refused <= _CHANCE_FRACTION * sent


def wanted(*, per_second: float, is_waiting: bool) -> float:
    """Return the rate that a sender can use. The result is infinite if requests of the sender are waiting, because the sender can then use
    any rate."""
    return math.inf if is_waiting else _ROOM_TO_GROW * per_second


def shares(rate: float, wants: Mapping[str, float]) -> dict[str, float]:
    """Divide a rate among senders.

    A sender that wants less than an equal share gets the rate that it wants. The other senders divide the rest equally. If every sender
    gets the rate that it wants, the remainder is divided equally among all senders.
    """
    result: dict[str, float] = {}
    rest = rate
    least = _LEAST_PART * rate / max(1, len(wants))
    for number, (sender, want) in enumerate(sorted(wants.items(), key=lambda item: item[1])):
        result[sender] = min(max(want, least), rest / (len(wants) - number))
        rest -= result[sender]
    return {sender: share + rest / len(wants) for sender, share in result.items()}
