"""The converter: plan → read → transform → encode → commit → report, for one process or many pods."""

__version__ = "0.1.0"


def __getattr__(name: str) -> object:
    """`kernel`, where docs/install.md looked for it before it was in `core`."""
    if name == "kernel":
        from dataprep_converter.core import native

        return native
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
