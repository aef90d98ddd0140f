"""Mistakes in the options of a command: --set, --workers, --limit."""

from collections.abc import Sequence
from typing import Final

from tests.converter.cli.mistakes.table import CSV, OUT, Mistake

MISTAKES: Final[Sequence[Mistake]] = (
    Mistake(
        "--set without =",
        job=CSV + OUT,
        options=["--set", "output.uri"],
        said="--set: expected FIELD=VALUE, got 'output.uri'; write it as one word, such as output.uri=out",
    ),
    Mistake(
        "--set with a colon",
        job=CSV + OUT,
        options=["--set", "output.uri: x"],
        said="--set: expected FIELD=VALUE, got 'output.uri: x'; write it as one word, such as output.uri=out",
    ),
    Mistake(
        "--set with spaces",
        job=CSV + OUT,
        options=["--set", "output.uri = x"],
        said="--set: expected FIELD=VALUE, got 'output.uri = x'; write it as one word, such as output.uri=out",
    ),
    Mistake(
        "--set of an unknown field",
        job=CSV + OUT,
        options=["--set", "output.shards.cuont=3"],
        said="--set output.shards.cuont: spec.output.shards.cuont: unknown field; did you mean count?",
    ),
    Mistake(
        "--set of an unknown part",
        job=CSV + OUT,
        options=["--set", "ouput.uri=3"],
        said="--set ouput.uri: spec.ouput: unknown field; did you mean output?",
    ),
    Mistake(
        "--set at the wrong depth",
        job=CSV + OUT,
        options=["--set", "delimiter=;"],
        said="--set delimiter: spec.delimiter: unknown field; it belongs under csv (spec.source.csv.delimiter)",
    ),
    Mistake(
        "--set with text for a number",
        job=CSV + OUT,
        options=["--set", "output.shards.count=many"],
        said="--set output.shards.count: spec.output.shards.count: expected a whole number, got 'many'",
    ),
    Mistake(
        "--set with text for a list",
        job=CSV + OUT,
        options=["--set", "source.csv.uris=b.csv"],
        said="--set source.csv.uris: spec.source.csv.uris: expected a list, got 'b.csv'; put it in brackets: [ ]",
    ),
    Mistake(
        "--set of metadata",
        job=CSV + OUT,
        options=["--set", "metadata.name=b"],
        said="--set metadata.name: spec.metadata: unknown field; it belongs at the top of the document (metadata)",
    ),
    Mistake(
        "no workers",
        job=CSV + OUT,
        options=["--workers", "0"],
        said="dataprep run: error: argument --workers: expected a whole number of at least 1, got '0' (see dataprep run --help)",
    ),
    Mistake(
        "text for workers",
        job=CSV + OUT,
        options=["--workers", "many"],
        said="dataprep run: error: argument --workers: expected a whole number of at least 1, got 'many' (see dataprep run --help)",
    ),
    Mistake(
        "a negative limit",
        job=CSV + OUT,
        options=["--limit", "-5"],
        said="dataprep run: error: argument --limit: expected a whole number of at least 1, got '-5' (see dataprep run --help)",
    ),
    Mistake(
        "a limit of nothing",
        job=CSV + OUT,
        options=["--limit", "0"],
        said="dataprep run: error: argument --limit: expected a whole number of at least 1, got '0' (see dataprep run --help)",
    ),
)
