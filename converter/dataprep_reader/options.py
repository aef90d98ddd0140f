"""The arguments of `dataprep_reader.open`."""

from dataclasses import dataclass
from typing import Literal


@dataclass(frozen=True)
class Options:
    """The arguments of `dataprep_reader.open`. Raises ValueError if an argument is invalid."""

    batch_size: int
    epochs: int | None
    shuffle: int | None
    shuffle_window: int | None
    drop_remainder: bool
    rank: int
    world_size: int
    threads: int
    prefetch: int
    as_: Literal["numpy", "arrow"]

    def __post_init__(self) -> None:
        least = {"batch_size": 1, "epochs": 1, "shuffle_window": 1, "world_size": 1, "threads": 1, "prefetch": 0, "rank": 0}
        for name, bound in least.items():
            value = getattr(self, name)
            if value is not None and value < bound:
                raise ValueError(f"{name} must be at least {bound}; got {value}.")
        if self.rank >= self.world_size:
            raise ValueError(f"rank must be less than world_size ({self.world_size}); got {self.rank}.")
        if self.as_ not in ("numpy", "arrow"):
            raise ValueError(f"as_ must be 'numpy' or 'arrow'; got {self.as_!r}.")
        if self.shuffle is not None and (isinstance(self.shuffle, bool) or not isinstance(self.shuffle, int)):
            raise ValueError(f"shuffle must be a whole number (the seed) or None; got {self.shuffle!r}.")
