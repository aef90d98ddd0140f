"""Arrow without pandas: our processes don't load a library that they don't use.

If pandas is installed, Arrow loads it at the first value that it converts, which takes longer than all other imports together. It checks
only once, so we hide pandas for that check. A user's functions may return pandas objects: before they are loaded, Arrow checks again.
"""

import sys

_NAME = "pandas"


class _HidingFinder:
    """A finder of modules."""

    def find_spec(self, fullname: str, path: object = None, target: object = None) -> None:  # noqa: ARG002 - the interface of finders
        if fullname == _NAME:
            raise ModuleNotFoundError(f"No module named {fullname!r}", name=fullname)


def hide() -> None:
    """Makes Arrow believe that pandas isn't installed, unless it is loaded already. Only for our own processes: it affects the whole process."""
    if _NAME in sys.modules:
        return
    hidden = _HidingFinder()
    sys.meta_path.insert(0, hidden)
    try:
        import pyarrow as pa

        pa.scalar(0)
    finally:
        sys.meta_path.remove(hidden)


def show() -> None:
    """Makes Arrow look for pandas again."""
    import pyarrow as pa

    try:
        pa.array([0]).to_pandas()
    except ImportError:
        return  # there is none
