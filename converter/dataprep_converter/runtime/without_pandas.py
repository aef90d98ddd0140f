"""Arrow without pandas: a process of ours doesn't wait for a library that it has no use for.

Where pandas is installed, Arrow loads it at the first value that it is given, which takes longer than all other imports together. It looks
once; so it looks while pandas is hidden. What a user's own functions give may be made of pandas: before they are loaded, Arrow looks again.
"""

import sys

_NAME = "pandas"


class _HidingFinder:
    """A finder of modules."""

    def find_spec(self, fullname: str, path: object = None, target: object = None) -> None:  # noqa: ARG002 - the interface of finders
        if fullname == _NAME:
            raise ModuleNotFoundError(f"No module named {fullname!r}", name=fullname)


def hide() -> None:
    """Makes Arrow take pandas for not installed, unless it is loaded already. For processes of our own only: it holds for all of one."""
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
