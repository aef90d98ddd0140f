"""Reads the descriptions of fields: the docstring below each field in its class.

pydantic can read these docstrings itself (`use_attribute_docstrings`), but then every process would read all docstrings when it starts.
Reading all docstrings would take longer than all other work on the models. Only the CRD and the page of fields need the descriptions, so
the docstrings are read when a JSON Schema is built.
"""

import ast
import inspect
import textwrap
from functools import cache
from itertools import pairwise


def of_fields(model: type) -> dict[str, str]:
    """Return a dict that maps the Python name of each field, inherited fields included, to its description."""
    texts: dict[str, str] = {}
    for parent in reversed(model.__mro__):
        if "model_fields" in dir(parent) and parent.__module__.partition(".")[0] != "pydantic":
            texts |= _own_descriptions(parent)
    return texts


@cache
def _own_descriptions(model: type) -> dict[str, str]:
    try:
        text = inspect.getsource(model)
    except OSError:
        return {}  # `create_model` built the class, so it has no source code
    (tree,) = ast.parse(textwrap.dedent(text)).body
    body = tree.body if isinstance(tree, ast.ClassDef) else []
    return {
        field.target.id: inspect.cleandoc(below.value.value)
        for field, below in pairwise(body)
        if isinstance(field, ast.AnnAssign)
        and isinstance(field.target, ast.Name)
        and isinstance(below, ast.Expr)
        and isinstance(below.value, ast.Constant)
        and isinstance(below.value.value, str)
    }
