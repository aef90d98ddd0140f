"""The descriptions of fields: the text below each one in its class.

pydantic would read all of them whenever a process starts (`use_attribute_docstrings`), which takes longer than all else about the models.
Only the CRD needs them, so they are read when a JSON Schema is made.
"""

import ast
import inspect
import textwrap
from functools import cache
from itertools import pairwise


def of_fields(model: type) -> dict[str, str]:
    """Descriptions by the field's name in Python, those of parents included."""
    found: dict[str, str] = {}
    for each in reversed(model.__mro__):
        if "model_fields" in dir(each) and each.__module__.partition(".")[0] != "pydantic":
            found |= _written_in(each)
    return found


@cache
@cache
def _written_in(model: type) -> dict[str, str]:
    try:
        text = inspect.getsource(model)
    except OSError:
        return {}  # made by `create_model`: there is no text
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
