"""Shows the progress of a write or of a submitted job in a notebook.

This module never imports IPython: in a notebook, IPython has already been imported.
"""

import sys
from dataclasses import dataclass
from typing import Any

from dataprep_reader.notebook import html_bar


@dataclass(frozen=True)
class Written:
    """The progress of a write. There is no percentage before the end, because an iterator's length isn't known in advance."""

    shards: int
    records: int
    is_finished: bool = False

    def _repr_html_(self) -> str:
        text = (
            f"{'written' if self.is_finished else 'writing'}: {self.records:,} records in {self.shards:,} shard{'s' * (self.shards != 1)}"
        )
        return html_bar(100 if self.is_finished else None, text)


class Bar:
    """A progress bar in the output of a notebook cell. Outside a notebook, nothing is shown."""

    def __init__(self) -> None:
        self._display = _display()
        self._handle: Any = None

    def show(self, progress: Any) -> None:
        """Shows this progress, replacing what the bar has shown before. `progress` must have a `_repr_html_` method."""
        if self._display is None:
            return
        if self._handle is None:
            self._handle = self._display(progress, display_id=True)
        else:
            self._handle.update(progress)


# Any, because IPython isn't a dependency.
def _display() -> Any:
    """Returns IPython's `display` function, or None outside a notebook."""
    ipython = sys.modules.get("IPython")
    shell = ipython.get_ipython() if ipython is not None else None
    if ipython is None or getattr(shell, "kernel", None) is None:
        return None
    return ipython.display.display
