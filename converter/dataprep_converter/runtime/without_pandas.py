"""Prevents Arrow from loading pandas, which our processes don't use.

If pandas is installed, Arrow loads pandas when it converts the first value. Loading pandas takes longer than all other imports together.
Arrow checks only once whether pandas is installed, so we hide pandas during this check. Before a user's functions are loaded, we make Arrow
check again, because these functions may return pandas objects.
"""

import sys

_NAME = "pandas"


class _HidingFinder:
    """A module finder that hides pandas."""

    def find_spec(self, fullname: str, path: object = None, target: object = None) -> None:  # noqa: ARG002 - the interface of finders
        if fullname == _NAME:
            raise ModuleNotFoundError(f"No module named {fullname!r}", name=fullname)


def hide() -> None:
    """Makes Arrow assume that pandas isn't installed, unless pandas is already loaded.

    Call this function only in our own processes, because it affects the whole process.
    """
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
        return  # pandas isn't installed
