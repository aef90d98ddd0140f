"""Puts messages of the converter, which speak of jobs and their fields, into the words of `df.write`."""

import re
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

from dataprep_converter.core.errors import ConvertError

_NEVER: Final = ', and the save mode is errorifexists or ignore. Use mode("overwrite"), or choose another URI'
_WORDS: Final = (
    (r"(?:;| and) overwrite is Never\. Set output\.overwrite to IfChanged or Always, or choose another output\.uri", _NEVER),
    (r"run the job again with output\.overwrite: Always", 'write the DataFrame again with mode("overwrite")'),
    (r"set output\.overwrite: Always", 'use mode("overwrite")'),
    (r"This job is not the job that made the data set", "The options of df.write are not those of the data set"),
    (r"so it can't extend the data set:", "so the rows can't be appended:"),
    (r"set the same in the job", "set the same option"),
    (r"make it with overwrite: Extend from the start", "make it with such a fileName from the start"),
    (r"Leave it out of df\.write\.columns, or write the files with one type", "Drop or rename one of them"),
    (r'add nested: \[("(?:[^"\\]|\\.)*")\] to the options of df\.write', r"add \1 to the option nested"),
    (r"df\.write\.nested:", "the option nested:"),
    (r"(?<![\w./-])output\.(?=[a-z])", ""),  # not in paths
)
"""Patterns, and the texts that replace what they match."""


@contextmanager
def in_words_of_spark() -> Iterator[None]:
    """Changes the messages of errors. Also a decorator of functions."""
    try:
        yield
    except ConvertError as exc:
        text = str(exc)
        for pattern, words in _WORDS:
            text = re.sub(pattern, words, text)
        exc.args = (text,)
        raise
