"""`python -m dataprep_converter` is `dataprep`."""

from dataprep_converter.cli import main

main()
