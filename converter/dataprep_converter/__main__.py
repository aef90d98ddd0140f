"""Runs the command `dataprep`, as `python -m dataprep_converter`."""

from dataprep_converter.cli.commands import main

main()
