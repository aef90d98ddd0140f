"""The converter: plan → read → transform → encode → commit → report, for one process or many pods."""

__version__ = "0.1.0"


def __getattr__(name: str) -> object:
    """Returns the module `native` under its old name `kernel`, which docs/install.md used before the module was moved to `core`."""
    if name == "kernel":
        from dataprep_converter.core import native

        return native
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
