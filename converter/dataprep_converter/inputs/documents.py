"""Reads the documents of a job's file, which is YAML or JSON.

The operator writes a pod's job as JSON. PyYAML could parse JSON too, but importing PyYAML takes 15 ms, and parsing a file takes 100 times
as long as with `json`. So PyYAML is used only for files that aren't JSON, and to find the places of faults.
"""

import json
import math
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cache, partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, NoReturn

from dataprep_api.errors import Fault, SpecError

if TYPE_CHECKING:
    import yaml

_STANDARD_INPUT: Final = "standard input"


@dataclass(frozen=True)
class Document:
    """One document of a file."""

    file: str
    """The file's name for messages."""
    value: Any
    """The document as Python values. The type is Any, because YAML can contain any value."""
    root: "Callable[[], yaml.Node | None]"
    """Returns the document's node, which knows the place of each field. Returns None for JSON that PyYAML can't parse."""

    def has(self, path: str) -> bool:
        """Returns whether the document has a field at a path."""
        from dataprep_converter.core import yaml_file

        root = self.root()
        return root is not None and yaml_file.has(root, path)

    def place(self, path: str, *, of_key: bool = False) -> str:
        """Returns `FILE:LINE:COLUMN` of the field at a path such as `spec.output.uri`.

        If the field doesn't exist, returns the place of the innermost enclosing field that exists. If the value of the requested field is a
        scalar and `of_key` is false, the place is where the value begins. Otherwise, it is where the key begins.
        """
        from dataprep_converter.core import yaml_file

        root = self.root()
        return self.file if root is None else yaml_file.place(self.file, root, path, of_key=of_key)


def read_documents(file: str) -> Sequence[Document]:
    """Returns a file's documents, except empty ones (`-` is standard input). Raises SpecError if they can't be read."""
    name = _STANDARD_INPUT if file == "-" else file
    text = _text(file)
    if text.startswith("{"):
        try:
            value = json.loads(text, object_pairs_hook=_unique, parse_constant=_refuse, parse_float=_finite)
        except (ValueError, RecursionError):
            pass  # let PyYAML parse the text, or find the place of the fault
        else:
            return [Document(name, value, cache(partial(_parsed_again, text)))]  # cached, so that PyYAML parses the text only once
    from dataprep_converter.core import yaml_file

    return [Document(name, value, partial(_same, root)) for value, root in yaml_file.parse(text, name)]


def _text(file: str) -> str:
    try:
        return sys.stdin.read() if file == "-" else Path(file).read_text(encoding="utf-8")
    except (IsADirectoryError, UnicodeDecodeError) as exc:
        fault = "is a folder" if isinstance(exc, IsADirectoryError) else "isn't text"
        raise SpecError([Fault("", f"{file} {fault}; expected a job's YAML file (dataprep infer {file} proposes a job for data)")]) from exc
    except OSError as exc:
        advice = f"; a job must be a local file (dataprep infer {file} proposes a job for data)" if "://" in file else ""
        raise SpecError([Fault("", f"can't read {file}: {exc.strerror}{advice}")]) from exc


def _unique(members: list[tuple[str, Any]]) -> dict[str, Any]:
    """Returns the members of a JSON object. Raises ValueError if a name occurs twice."""
    found = dict(members)
    if len(found) < len(members):
        raise ValueError("a name is given twice")
    return found


def _refuse(constant: str) -> NoReturn:
    """Raises ValueError for NaN and Infinity, which JSON doesn't have."""
    raise ValueError(f"{constant} is not JSON")


def _finite(number: str) -> float:
    """Returns a number of a JSON text. Raises ValueError if it is too large for a float, because Python would make it infinite."""
    value = float(number)
    if math.isinf(value):
        raise ValueError(f"{number} is too large for a number")
    return value


def _parsed_again(text: str) -> "yaml.Node | None":
    from dataprep_converter.core import yaml_file

    return yaml_file.root_of(text)


def _same(root: "yaml.Node") -> "yaml.Node":
    return root
