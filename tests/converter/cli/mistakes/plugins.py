"""Mistakes in the user's own functions: exceptions, and results that don't fit."""

from collections.abc import Sequence
from typing import Final

from tests.converter.cli.mistakes.table import CSV, HEAD, NUMBERS, OUT, Mistake

MISTAKES: Final[Sequence[Mistake]] = (
    Mistake(
        "an exception in a source plug-in",
        job=HEAD + "  source: {plugin: {uris: [a.csv], callable: 'made:read', columns: [{name: x, type: Int64}]}}\n" + OUT,
        files={
            "a.csv": NUMBERS,
            "made.py": "def read(file, name):\n    for number, line in enumerate(file):\n        yield {'x': 6 // (number - 2)}\n",
        },
        code=3,
        said="a.csv: The plug-in 'made:read' failed after 2 records: ZeroDivisionError: integer division or modulo by zero (made.py, line 3, in read).",
    ),
    Mistake(
        "a source plug-in with too few arguments",
        job=HEAD + "  source: {plugin: {uris: [a.csv], callable: 'made:read'}}\n" + OUT,
        files={"a.csv": NUMBERS, "made.py": "def read(file):\n    yield {}\n"},
        code=3,
        said="a.csv: The plug-in 'made:read' failed: TypeError: read() takes 1 positional argument but 2 were given (made.py, line 1, in read).",
    ),
    Mistake(
        "an exception in a map",
        job=CSV + "  transforms: [{map: {callable: 'made:f', columns: [{name: z, type: Float64}]}}]\n" + OUT,
        files={"a.csv": NUMBERS, "made.py": "def f(record):\n    return record | {'z': 1 / record['x']}\n"},
        code=3,
        said="a.csv, record 0: line 2: the plug-in 'made:f' failed: ZeroDivisionError: division by zero (made.py, line 2, in f). Correct the function, or set onBadRecord.policy: Skip to leave such records out.",
    ),
    Mistake(
        "a missing module",
        job=HEAD + "  source: {plugin: {uris: [a.csv], callable: 'nowhere:read'}}\n" + OUT,
        said="job.yaml:5:12: source.plugin: the plug-in 'nowhere:read' can't be imported: ModuleNotFoundError: No module named 'nowhere'; is its code in the image or in spec.code?",
    ),
    Mistake(
        "a misspelt function",
        job=HEAD + "  source: {plugin: {uris: [a.csv], callable: 'made:raed'}}\n" + OUT,
        files={"a.csv": NUMBERS, "made.py": "def read(file, name):\n    yield {}\n"},
        said="job.yaml:5:12: source.plugin: the plug-in 'made:raed' can't be imported: AttributeError: module 'made' has no attribute 'raed'",
    ),
    Mistake(
        "a syntax error in a module",
        job=HEAD + "  source: {plugin: {uris: [a.csv], callable: 'made:read'}}\n" + OUT,
        files={"a.csv": NUMBERS, "made.py": "def read(file, name)\n    yield {}\n"},
        said="job.yaml:5:12: source.plugin: the plug-in 'made:read' can't be imported: SyntaxError: expected ':' (made.py, line 1)",
    ),
    Mistake(
        "a source plug-in that makes numbers",
        job=HEAD + "  source: {plugin: {uris: [a.csv], callable: 'made:read'}}\n" + OUT,
        files={"a.csv": NUMBERS, "made.py": "def read(file, name):\n    yield 7\n"},
        code=3,
        said="a.csv: The plug-in 'made:read' made a int; expected a dict, an Arrow batch or table, or a numpy array.",
    ),
    Mistake(
        "records with other keys",
        job=HEAD + "  source: {plugin: {uris: [a.csv], callable: 'made:read'}}\n" + OUT,
        files={"a.csv": NUMBERS, "made.py": "def read(file, name):\n    yield {'x': 1}\n    yield {'y': 1}\n"},
        code=3,
        said="a.csv: The plug-in 'made:read': after 0 records: record 1 has the keys y; expected x.",
    ),
    Mistake(
        "a map that returns text",
        job=CSV + "  transforms: [{map: {callable: 'made:f'}}]\n" + OUT,
        files={"a.csv": NUMBERS, "made.py": "def f(record):\n    return 'x'\n"},
        code=3,
        said="a.csv, record 0: line 2: the plug-in 'made:f' returned a value that doesn't fit: record 0 is no dict but str. Correct the function, or set onBadRecord.policy: Skip to leave such records out.",
    ),
)
