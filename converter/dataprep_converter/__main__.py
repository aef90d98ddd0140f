"""`python -m dataprep_converter` is `dataprep`."""

from dataprep_converter.cli.commands import main

main()
