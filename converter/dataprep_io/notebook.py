"""Shows the progress of a write or of a submitted job in a notebook. IPython is never imported: it is there if the program runs in a notebook."""

import sys
from dataclasses import dataclass
from typing import Any

from dataprep_reader.notebook import html_bar


@dataclass(frozen=True)
class Written:
    """How far a write is. Nobody knows how long an iterator is, so there is no percentage before the end."""

    shards: int
    records: int
    is_finished: bool = False

    def _repr_html_(self) -> str:
        text = (
            f"{'written' if self.is_finished else 'writing'}: {self.records:,} records in {self.shards:,} shard{'s' * (self.shards != 1)}"
        )
        return html_bar(100 if self.is_finished else None, text)


class Bar:
    """A bar in the output of a notebook's cell. Outside a notebook, it shows nothing."""

    def __init__(self) -> None:
        self._display = _display()
        self._handle: Any = None

    def show(self, progress: Any) -> None:
        """Shows the progress, which has `_repr_html_`, instead of what was shown before."""
        if self._display is None:
            return
        if self._handle is None:
            self._handle = self._display(progress, display_id=True)
        else:
            self._handle.update(progress)


# Any, because IPython isn't a dependency.
def _display() -> Any:
    """Returns IPython's function that shows objects, or None outside a notebook."""
    ipython = sys.modules.get("IPython")
    shell = ipython.get_ipython() if ipython is not None else None
    if ipython is None or getattr(shell, "kernel", None) is None:
        return None
    return ipython.display.display
