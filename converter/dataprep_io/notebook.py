"""Shows the progress of a submitted job in a notebook. IPython is never imported: it is there if the program runs in a notebook."""

import sys
from typing import Any

from dataprep_io.jobs.status import Progress


class Bar:
    """A bar in the output of a notebook's cell. Outside a notebook, it shows nothing."""

    def __init__(self) -> None:
        self._display = _display()
        self._handle: Any = None

    def show(self, progress: Progress) -> None:
        """Shows the progress instead of what was shown before."""
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
