"""Rewords the converter's messages for the users of an engine, because the original messages mention jobs and their fields."""

import re
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from functools import wraps
from typing import Concatenate, ParamSpec, Protocol, TypeVar

from dataprep_converter.core.errors import ConvertError
from dataprep_converter.dataset.frame_rows import Engine

_P = ParamSpec("_P")
_R = TypeVar("_R")


class _HasEngine(Protocol):
    @property
    def engine(self) -> Engine: ...


_T = TypeVar("_T", bound=_HasEngine)


@contextmanager
def in_words_of(engine: Engine) -> Iterator[None]:
    """Rewords the messages of all errors in the `with` block, for users of the engine."""
    with in_words(_words(engine)):
        yield


@contextmanager
def in_words(patterns: Iterable[tuple[str, str]]) -> Iterator[None]:
    """Replaces matches of the patterns in the messages of all errors in the `with` block."""
    try:
        yield
    except ConvertError as exc:
        text = str(exc)
        for pattern, words in patterns:
            text = re.sub(pattern, words, text)
        exc.args = (text,)
        raise


def in_words_of_engine(function: Callable[Concatenate[_T, _P], _R]) -> Callable[Concatenate[_T, _P], _R]:
    """Decorates a function whose first argument has the attribute `engine`. Rewords the messages of its errors for this engine."""

    @wraps(function)
    def call(first: _T, /, *args: _P.args, **kwargs: _P.kwargs) -> _R:
        with in_words_of(first.engine):
            return function(first, *args, **kwargs)

    return call


def _words(engine: Engine) -> list[tuple[str, str]]:
    """Returns pairs of a pattern and the string that replaces its matches."""
    writer = re.escape(engine.writer)
    never = f", and the save mode is errorifexists or ignore. Use {engine.overwrite}, or choose another URI"
    return [
        (r"(?:;| and) overwrite is Never\. Set output\.overwrite to IfChanged or Always, or choose another output\.uri", never),
        (r"run the job again with output\.overwrite: Always", f"write the {engine.frame} again with {engine.overwrite}"),
        (r"set output\.overwrite: Always", f"use {engine.overwrite}"),
        (r"This job is not the job that made the data set", f"The options of {engine.writer} are not those of the data set"),
        (r"so it can't extend the data set:", "so the rows can't be appended:"),
        (r"set the same in the job", "set the same option"),
        (r"make it with overwrite: Extend from the start", "make it with such a fileName from the start"),
        (rf"Leave it out of {writer}\.columns, or write the files with one type", "Drop or rename one of them"),
        (r'add nested: \[("(?:[^"\\]|\\.)*")\] to the options of the write', r"add \1 to the option nested"),
        (rf"{writer}\.nested:", "the option nested:"),
        (r"(?<![\w./-])output\.(?=[a-z])", ""),  # not in paths
    ]
