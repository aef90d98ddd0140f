"""Sets of indexes in the form that Kubernetes and `dataprep work --tasks` write them: `0-3,7`."""

from collections.abc import Iterable


def parse(text: str | None) -> list[int]:
    """The indexes in `text`, in its order."""
    found: list[int] = []
    for part in (text or "").split(","):
        if part:
            first, _, last = part.partition("-")
            found.extend(range(int(first), int(last or first) + 1))
    return found


def write(indexes: Iterable[int]) -> str:
    """The shortest text for `indexes`: sorted, runs joined."""
    runs: list[tuple[int, int]] = []
    for index in sorted(set(indexes)):
        if runs and runs[-1][1] == index - 1:
            runs[-1] = (runs[-1][0], index)
        else:
            runs.append((index, index))
    return ",".join(str(first) if first == last else f"{first}-{last}" for first, last in runs)


def shortened(text: str, *, limit: int) -> str:
    """`text` cut at a comma to at most `limit` characters, so that what is left still parses."""
    return text if len(text) <= limit else text[: limit + 1].rpartition(",")[0]
