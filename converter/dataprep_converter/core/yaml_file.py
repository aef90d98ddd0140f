"""Parses YAML as `kubectl` parses it (YAML 1.1), and finds the line and column of each field.

If a mapping has a key twice, PyYAML itself keeps only the last value. PyYAML also doesn't record where in the file each value was. So this
module keeps the nodes that PyYAML creates while parsing.
"""

from collections.abc import Iterator
from typing import Any, Final

import yaml

from dataprep_api.errors import Fault, SpecError

_MERGE: Final = "tag:yaml.org,2002:merge"


def parse(text: str, file: str) -> list[tuple[Any, yaml.Node]]:
    """Returns the value and the node of each document in the text of a file. Leaves out empty documents.

    The values have the type Any, because YAML can contain any value. Raises SpecError if the text isn't YAML.
    """
    try:
        return list(_documents(text, file))
    except RecursionError as exc:
        raise SpecError([Fault("", f"{file} is nested more deeply than a job can be")]) from exc
    except yaml.MarkedYAMLError as exc:
        mark = exc.problem_mark
        at = _place(file, mark) if mark is not None else file
        raise SpecError([Fault("", f"not YAML: {_advice(exc, text)}", place=at)]) from exc
    except (yaml.YAMLError, ValueError) as exc:  # ValueError: an invalid date
        raise SpecError([Fault("", f"{file} is not YAML: {' '.join(str(exc).split())}")]) from exc


def root_of(text: str) -> yaml.Node | None:
    """Returns the node of a JSON text, or None if PyYAML can't parse the text, for example because of its tabs."""
    try:
        root: yaml.Node | None = yaml.compose(text, yaml.SafeLoader)
    except (yaml.YAMLError, RecursionError):
        return None
    return root


def has(root: yaml.Node, path: str) -> bool:
    """Returns whether a document has a field at a path."""
    node, rest = root, path
    while rest and (found := _member(node, rest)) is not None:
        _, node, rest = found
    return not rest


def place(file: str, root: yaml.Node, path: str, *, of_key: bool) -> str:
    """Returns `FILE:LINE:COLUMN` of the field at a path (see `Document.place`)."""
    node, mark, rest = root, root.start_mark, path
    while rest and (found := _member(node, rest)) is not None:
        key, node, rest = found
        mark = node.start_mark if key is None or (isinstance(node, yaml.ScalarNode) and not rest and not of_key) else key.start_mark
    return _place(file, mark)


def _documents(text: str, file: str) -> Iterator[tuple[Any, yaml.Node]]:
    loader = yaml.SafeLoader(text)
    try:
        while loader.check_node() and (root := loader.get_node()) is not None:
            if faults := list(_duplicates(root, file, loader)):
                raise SpecError(faults)
            value = loader.construct_document(root)
            if value is not None:
                yield value, root
    finally:
        loader.dispose()


def _duplicates(root: yaml.Node, file: str, loader: yaml.SafeLoader) -> Iterator[Fault]:
    """Yields a fault for each key that a mapping has twice. Keys are compared as values: `yes` and `true` are the same key."""
    seen: set[int] = set()
    pending = [(root, "")]
    while pending:
        node, path = pending.pop()
        if id(node) in seen:
            continue  # an alias
        seen.add(id(node))
        if isinstance(node, yaml.SequenceNode):
            pending += ((item, f"{path}[{number}]") for number, item in enumerate(node.value))
        if not isinstance(node, yaml.MappingNode):
            continue
        first: dict[object, yaml.Node] = {}
        for key, value in node.value:
            if not isinstance(key, yaml.ScalarNode) or key.tag == _MERGE:
                continue
            below = f"{path}.{key.value}" if path else key.value
            earlier = first.setdefault(loader.construct_object(key), key)
            if earlier is not key:
                lines = f"first in line {earlier.start_mark.line + 1} and again in line {key.start_mark.line + 1}"
                yield Fault(below, f"is given twice, {lines}; keep one of them", place=_place(file, key.start_mark))
            pending.append((value, below))


def _member(node: yaml.Node, path: str) -> tuple[yaml.Node | None, yaml.Node, str] | None:
    """Finds the value that the first part of a path names in a node.

    Returns the part's key (None in a list), the value, and the rest of the path. Returns None if the node has no such value.
    """
    if isinstance(node, yaml.SequenceNode) and path.startswith("["):
        number, _, rest = path[1:].partition("]")
        if number.isdecimal() and int(number) < len(node.value):
            return None, node.value[int(number)], rest.removeprefix(".")
    if isinstance(node, yaml.MappingNode):
        # A key can contain dots, as in nodeSelector. If a key occurs more than once, use its last value: PyYAML puts the values that are
        # merged with `<<` before the mapping's own values.
        keys = [
            (key, value)
            for key, value in node.value
            if isinstance(key, yaml.ScalarNode) and path.startswith(key.value) and path[len(key.value) :][:1] in ("", ".", "[")
        ]
        if keys:
            key, value = max(reversed(keys), key=lambda pair: len(pair[0].value))
            return key, value, path[len(key.value) :].removeprefix(".")
    return None


def _place(file: str, mark: yaml.Mark) -> str:
    return f"{file}:{mark.line + 1}:{mark.column + 1}"


_ADVICE: Final = (
    # a part of PyYAML's message, our message
    ("found character '\\t'", "the line contains a tab; indent it with spaces"),
    ("found character '%'", "text that begins with % needs quotes"),
    ("found character '@'", "text that begins with @ needs quotes"),
    ("found character '`'", "text that begins with ` needs quotes"),
    (
        "mapping values are not allowed here",
        "the line contains a second colon; put text that contains a colon and a space in quotes, or check the indentation",
    ),
    ("expected <block end>", "the indentation of this line doesn't fit the lines above it"),
)


def _advice(error: yaml.MarkedYAMLError, text: str) -> str:
    """Describes a YAML error in one line. If the cause is a common mistake, also says what to change."""
    problem, context = error.problem or "", error.context or ""
    mark, began = error.problem_mark, error.context_mark
    for words, advice in _ADVICE:
        if words in problem:
            return advice
    if "quoted scalar" in context and "end of stream" in problem and began is not None:
        return f"the quote that begins in line {began.line + 1}, column {began.column + 1} is never closed"
    if "an alias" in context:
        return "text that begins with * needs quotes, because * refers to an anchor"
    if "unhashable" in problem and mark is not None and text[max(0, mark.index - 1) : mark.index + 1] == "{{":
        return "{{ }} is for templates such as Helm's; a job's params are written ${NAME}"
    since = (
        f" that begins in line {began.line + 1}" if context and began is not None and mark is not None and began.line != mark.line else ""
    )
    return f"{problem}{f' {context}' if context else ''}{since}"
