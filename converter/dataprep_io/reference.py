"""Generates `docs/python-reference.md` from the docstrings of the public names.

`python -m dataprep_io.reference` writes the page. With `--check`, the command only compares the page with the docstrings.
"""

import ast
import inspect
import sys
import textwrap
from collections.abc import Callable, Iterator, Sequence
from dataclasses import is_dataclass
from itertools import pairwise
from pathlib import Path
from typing import Any, Final

import dataprep_io
from dataprep_api.generate import generated

FILE: Final = Path("docs/python-reference.md")
_WIDTH: Final = 100
_HEAD: Final = """\
<!-- Made by `make generate` from the docstrings in converter/dataprep_io. Don't edit. -->
# Python: reference

All public names of `dataprep_io`. [python.md](python.md) explains them by examples, and says which changes a release may make.
"""


def page() -> str:
    """Returns the text of the page: functions first, then classes, then errors."""
    members = {name: getattr(dataprep_io, name) for name in dataprep_io.__all__}
    return "\n".join((_HEAD, *(_section(name, members[name]) for name in sorted(members, key=lambda name: _order(members[name])))))


def _order(member: Any) -> tuple[int, str]:
    kind = 0 if not inspect.isclass(member) else 2 if issubclass(member, Exception) else 1
    return kind, member.__name__


def _section(name: str, member: Any) -> str:
    if not inspect.isclass(member):
        return f"## {name}\n\n{_described(name, member)}"
    return "\n".join(_class(name, member))


def _class(name: str, member: type) -> Iterator[str]:
    """Yields the parts of a class's section."""
    is_error = issubclass(member, Exception)
    yield f"## {name}\n"
    if not is_error and not is_dataclass(member) and member.__module__.startswith("dataprep_io"):
        yield _code(name, member).rstrip("\n") + "\n"
    yield f"{_text(member.__doc__)}\n"
    if is_dataclass(member):
        yield "".join(f"- `{field}`: {kind}{f'. {text}' if text else ''}\n" for field, kind, text in _fields(member))
    for attribute in () if is_error else _methods(member):
        value = inspect.getattr_static(member, attribute)
        if isinstance(value, property):
            kind = _annotation(inspect.signature(value.fget).return_annotation) if value.fget is not None else ""
            yield f"### {name}.{attribute}\n\n```python\n{attribute}: {kind!r}\n```\n\n{_text(value.__doc__)}\n"
        else:
            yield f"### {name}.{attribute}\n\n{_described(attribute, getattr(member, attribute))}"


def _methods(member: type) -> list[str]:
    """Returns the public methods and properties, in the order in which they are defined."""
    own = [cls for cls in reversed(member.__mro__) if cls.__module__.startswith("dataprep_")]
    names = [name for cls in own for name in vars(cls) if not name.startswith("_")]
    fields = member.__annotations__ if is_dataclass(member) else {}
    return [name for name in dict.fromkeys(names) if name not in fields]


def _described(name: str, function: Callable[..., Any]) -> str:
    return f"{_code(name, function)}{_text(function.__doc__)}\n"


def _code(name: str, function: Callable[..., Any]) -> str:
    """Returns the signature as a code block. A long signature has one line for each parameter."""
    before = "async " if inspect.iscoroutinefunction(function) else ""
    signature = inspect.signature(function)
    parameters = [each.replace(annotation=_annotation(each.annotation)) for each in signature.parameters.values() if each.name != "self"]
    short = signature.replace(parameters=parameters, return_annotation=_annotation(signature.return_annotation))
    shown = f"{before}{name}{short}"
    if len(shown) > _WIDTH:
        # The part after the parameters begins with the closing parenthesis.
        begin, end = shown.index("(") + 1, shown.rindex(")")
        shown = f"{shown[:begin]}\n{''.join(f'    {each},{chr(10)}' for each in _words(short))}{shown[end:]}"
    return f"```python\n{shown}\n```\n\n"


def _words(signature: inspect.Signature) -> Iterator[str]:
    """Yields the parameters, with `*` before the first keyword-only parameter."""
    has_star = False
    for each in signature.parameters.values():
        if each.kind is each.KEYWORD_ONLY and not has_star:
            yield "*"
        has_star = has_star or each.kind in (each.KEYWORD_ONLY, each.VAR_POSITIONAL)
        yield str(each)


class _Annotation:
    """An annotation whose repr is its text, without quotes."""

    def __init__(self, text: str) -> None:
        self._text = text

    def __repr__(self) -> str:
        return self._text


def _annotation(annotation: Any) -> Any:
    """Returns an annotation without the names of modules."""
    if annotation is inspect.Parameter.empty:
        return annotation
    text = annotation if isinstance(annotation, str) else inspect.formatannotation(annotation)
    for module in (
        "collections.abc.",
        "typing.",
        "pyarrow.lib.",
        "dataprep_io.results.",
        "dataprep_io.jobs.status.",
        "dataprep_reader.reader.",
        "dataprep_api.dataset.report.",
        "dataprep_api.spec.",
        "os.",
    ):
        text = text.replace(module, "")
    return _Annotation(text)


def _text(docstring: str | None) -> str:
    """Returns a docstring as Markdown. The lines of a parameter table become a list, and indented lines become code."""
    lines: list[str] = []
    for line in inspect.cleandoc(docstring or "").splitlines():
        name, gap, rest = line.partition("  ")
        is_parameter = bool(gap) and name != "" and all(each.isidentifier() for each in name.split(", "))
        lines.append(f"- `{name}`: {rest.strip()}" if is_parameter else line)
    return "\n".join(lines)


def _fields(member: type) -> Iterator[tuple[str, str, str]]:
    """Yields the name, the type and the description of each field of a dataclass."""
    (tree,) = ast.parse(textwrap.dedent(inspect.getsource(member))).body
    body = tree.body if isinstance(tree, ast.ClassDef) else []
    for statement, below in pairwise([*body, ast.Pass()]):
        if isinstance(statement, ast.AnnAssign) and isinstance(statement.target, ast.Name):
            is_text = isinstance(below, ast.Expr) and isinstance(below.value, ast.Constant) and isinstance(below.value.value, str)
            text = inspect.cleandoc(below.value.value) if is_text else ""  # type: ignore[attr-defined]  # it was checked just now
            yield statement.target.id, f"`{ast.unparse(statement.annotation)}`", " ".join(text.split())


def main(arguments: Sequence[str] | None = None) -> int:
    """Runs `python -m dataprep_io.reference [--check]` in the repository's root."""
    return generated.main("Write the reference of the Python API.", {FILE: page()}, arguments)


if __name__ == "__main__":
    sys.exit(main())
