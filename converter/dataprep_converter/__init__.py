"""The converter: plan → read → transform → encode → commit → report, for one process or many pods."""

__version__ = "0.1.0"
