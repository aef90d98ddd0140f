"""Mistakes in YAML itself: tabs, quotes, keys given twice."""

from collections.abc import Sequence
from typing import Final

from tests.converter.cli.mistakes.table import CSV, HEAD, OUT, Mistake

MISTAKES: Final[Sequence[Mistake]] = (
    Mistake(
        "output twice",
        job=CSV + "  output: {uri: out}\n" + OUT,
        said="job.yaml:7:3: spec.output: is given twice, first in line 6 and again in line 7; keep one of them",
    ),
    Mistake(
        "uris twice",
        job=HEAD + "  source:\n    csv:\n      uris: [a.csv]\n      uris: [b.csv]\n" + OUT,
        said="job.yaml:8:7: spec.source.csv.uris: is given twice, first in line 7 and again in line 8; keep one of them",
    ),
    Mistake(
        "tabs below a key",
        job=HEAD + "  source:\n\tcsv:\n\t\turis: [a.csv]\n" + OUT,
        said="job.yaml:6:1: not YAML: the line contains a tab; indent it with spaces",
    ),
    Mistake(
        "a tab before a key",
        job=HEAD + "\tsource: {csv: {uris: [a.csv]}}\n" + OUT,
        said="job.yaml:5:1: not YAML: the line contains a tab; indent it with spaces",
    ),
    Mistake(
        "an indentation that fits nowhere",
        job=HEAD + "  source:\n    csv:\n     uris: [a.csv]\n " + OUT,
        said="job.yaml:8:4: not YAML: the indentation of this line doesn't fit the lines above it",
    ),
    Mistake(
        "a quote that is never closed",
        job=CSV + "  output: {uri: 'out}\n",
        said="job.yaml:7:1: not YAML: the quote that begins in line 6, column 17 is never closed",
    ),
    Mistake(
        "a colon in a text",
        job=CSV + "  output:\n    uri: a: b\n",
        said="job.yaml:7:11: not YAML: the line contains a second colon; put text that contains a colon and a space in quotes, or check the indentation",
    ),
    Mistake(
        "a text with a percent sign",
        job=CSV + "  output:\n    uri: %x\n",
        said="job.yaml:7:10: not YAML: text that begins with % needs quotes",
    ),
    Mistake("a text with @", job=CSV + "  output:\n    uri: @x\n", said="job.yaml:7:10: not YAML: text that begins with @ needs quotes"),
    Mistake(
        "a glob without quotes",
        job=HEAD + "  source: {csv: {uris: [*.csv]}}\n" + OUT,
        said="job.yaml:5:26: not YAML: text that begins with * needs quotes, because * refers to an anchor",
    ),
    Mistake(
        "a template of Helm",
        job=CSV + "  output: {uri: {{ out }}}\n",
        said="job.yaml:6:18: not YAML: {{ }} is for templates such as Helm's; a job's params are written ${NAME}",
    ),
    Mistake("an alias without an anchor", job=CSV + "  output: *out\n", said="job.yaml:6:11: not YAML: found undefined alias 'out'"),
    Mistake(
        "yes and true as keys",
        job=CSV + "  output: {uri: out, yes: 1, true: 2}\n",
        said="job.yaml:6:30: spec.output.true: is given twice, first in line 6 and again in line 6; keep one of them",
    ),
)
